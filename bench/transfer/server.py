"""The one lakeFS server that serves every contestant, and what the benchmark asks of it itself.

Asked by plain HTTP, not through Perago's adapter: what is measured does not check itself.
"""

import json
import shutil
from base64 import b64encode
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil

from bench.place import remove_large
from perago.adapters.servers import Binary, throwaway_lakefs

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, with the directory in which its block store keeps the objects."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    blocks: Path
    pid: int

    @property
    def cpu_seconds(self) -> float:
        """The processor time that the server has taken so far."""
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    @property
    def environment(self) -> dict[str, str]:
        """How to reach it, in the variables that lakectl, the peer and Perago all read."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def create_repository(self, name: str) -> None:
        """An empty repository whose objects lie in a directory of its own."""
        creation = {"name": name, "storage_namespace": f"local://{name}", "default_branch": "main"}
        self._call("POST", "/repositories", creation)

    def delete_repository(self, name: str) -> None:
        """The repository and its objects."""
        self._call("DELETE", f"/repositories/{name}?force=true")
        shutil.rmtree(self.blocks / name)

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        """A branch for one attempt."""
        creation = {"name": branch, "source": source}
        self._call("POST", f"/repositories/{repository}/branches", creation)

    def delete_branch(self, repository: str, branch: str) -> None:
        """Forget an attempt's branch."""
        self._call("DELETE", f"/repositories/{repository}/branches/{branch}")

    def head(self, repository: str, branch: str) -> str:
        """The commit that a branch stands at."""
        found = json.loads(self._call("GET", f"/repositories/{repository}/branches/{branch}"))
        return str(found["commit_id"])

    def changed_paths(self, repository: str, left: str, right: str) -> set[str]:
        """The objects that differ between two commits; no workspace has more than a page."""
        query = urlencode({"amount": PAGE})
        path = f"/repositories/{repository}/refs/{left}/diff/{right}?{query}"
        return {entry["path"] for entry in json.loads(self._call("GET", path))["results"]}

    def read_object(self, repository: str, ref: str, name: str) -> bytes:
        """A whole object: the benchmark looks at small ones only."""
        query = urlencode({"path": name})
        return self._call("GET", f"/repositories/{repository}/refs/{ref}/objects?{query}")

    def _call(self, method: str, path: str, body: object = None) -> bytes:
        pair = f"{self.access_key_id}:{self.secret_access_key}".encode()
        headers = {"Authorization": f"Basic {b64encode(pair).decode()}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else json.dumps(body)
        with closing(HTTPConnection(urlsplit(self.endpoint).netloc, timeout=60)) as connection:
            connection.request(method, f"/api/v1{path}", content, headers)
            response = connection.getresponse()
            text = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text.decode()}")
        return text

    def stored_files(self, repository: str) -> set[Path]:
        """The files in which the block store keeps a repository's objects."""
        found = (self.blocks / repository).rglob("*")
        return {path for path in found if path.is_file() and "_lakefs" not in path.parts}

    def forget_files(self, repository: str, known: AbstractSet[Path]) -> int:
        """Count what was stored beyond the known files, and remove the large ones.

        Nothing leads there any more; lakeFS itself would keep it until a garbage collection.
        """
        more = self.stored_files(repository) - known
        remove_large(more)
        return len(more)


@contextmanager
def start_server(binary: Binary, directory: Path) -> Iterator[Server]:
    """Run a server on a free loopback port, with all its state below a directory."""
    with throwaway_lakefs(directory, binary) as running:
        assert running.pid is not None
        yield Server(
            endpoint=running.endpoint,
            access_key_id=running.access_key_id,
            secret_access_key=running.secret_access_key,
            blocks=directory / "blocks",
            pid=running.pid,
        )
