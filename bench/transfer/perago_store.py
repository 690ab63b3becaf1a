"""Perago's store on the benchmark's server."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.transfer.server import Server
from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.adapters.object_cache import ObjectCache
from perago.app.transfer import ImportRequest, import_directory
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.workspace import Prefix
from perago.settings import Settings


@contextmanager
def open_store(
    environment: Mapping[str, str], cache: Path | None = None, concurrency: int | None = None
) -> Iterator[LakeFSWorkspaceStore]:
    """A store with a cache of its own, or none, and everything else as the settings have it."""
    defaults = Settings()
    connection = LakeFSConnection(
        endpoint=environment["LAKECTL_SERVER_ENDPOINT_URL"],
        access_key_id=environment["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"],
        secret_access_key=environment["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"],
        concurrency=concurrency or defaults.transfer_concurrency,
    )
    with ExitStack() as stack:
        objects = None
        if cache is not None:
            objects = ObjectCache(cache, max_bytes=defaults.cache_max_bytes)
            stack.callback(objects.close)
        yield stack.enter_context(LakeFSWorkspaceStore(connection, cache=objects))


def import_with_perago(server: Server, source: Path, repository: str) -> None:
    """What `perago store import` does."""
    request = ImportRequest(
        directory=source,
        repository=RepositoryName(repository),
        branch=BranchName("main"),
        prefix=Prefix(),
        message="files",
    )
    with open_store(server.environment) as store:
        import_directory(
            request,
            store=store,
            scan=lambda path: scan_directory(path, TreeIndex()),
            on_transfer=lambda _objects, _size: None,
        )
