"""A Go, a Maven and a Java that make nothing real, and servers that store nothing."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from perago.adapters.servers import CONDUCTOR, LAKEFS, Binary, ConductorProgram, Progress

JAR = "jar\n"
SMALL_CONDUCTOR = replace(CONDUCTOR, sha256=sha256(JAR.encode()).hexdigest())
"""The program that the double of Maven has."""

_RUN_BY_THIS_PYTHON = f"""\
#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''"""
"""The first lines of a Python program; a `#!` line cannot name a path with a space."""

GO = """#!/bin/sh
# Like `go mod download -json` and `go build -o OUT`, as far as they are used.
echo "$$ $*" >> {record}
case "$1" in
mod)
    {download}
    ;;
build)
    while [ "$1" != "-o" ]; do shift; done
    {compile}
    ;;
esac
"""
DOWNLOAD = f"""printf '{{{{"Dir": "%s", "Sum": "{LAKEFS.module_sum}"}}}}' {{source}}"""
COMPILE = """printf '#!/bin/sh\\necho lakefs version 1.86.0\\n' > "$2"; chmod +x "$2" """

MAVEN = """#!/bin/sh
# Like `mvn dependency:get` and `mvn dependency:copy`, as far as they are used.
echo "$$ $*" >> {record}
for argument; do
    case "$argument" in -DoutputDirectory=*) output="${{argument#*=}}" ;; esac
done
case "$3" in
dependency:get)
    {get}
    ;;
dependency:copy)
    {copy}
    ;;
esac
"""

SERVER_JAVA = """#!/bin/sh
# Like `java -version`, `-Djarmode=tools … extract` and `-XX:ArchiveClassesAtExit`.
if [ "$1" = -version ]; then echo 'openjdk version "25.0.1"' >&2; exit; fi
env > "{record}.env.$$"
echo "$$ $*" >> "{record}"
while [ $# -gt 0 ]; do
    case "$1" in
    -jar) jar="$2" ;;
    --destination) destination="$2" ;;
    -XX:ArchiveClassesAtExit=*) archive="${{1#*=}}" ;;
    esac
    shift
done
if [ -n "$destination" ]; then
    {extract}
else
    {archive}
fi
"""
EXTRACT = 'mkdir -p "$destination/lib"; cp "$jar" "$destination"'
ARCHIVE = 'printf "classes of %s" "$jar" > "$archive"'

CONDUCTOR_JAVA = """{python}
import http.server, json, os, signal, sys

with open(__file__ + ".record", "a") as record:
    seen = {{"pid": os.getpid(), "argv": sys.argv, "env": dict(os.environ)}}
    record.write(json.dumps(seen) + "\\n")
given = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--"))
{first}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/actuator/info":
            self.wfile.write(json.dumps({{"instance": given["info.instance"]}}).encode())


address = given["server.address"], int(given["server.port"])
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""

SERVER = """{python}
import base64, http.server, json, os, signal, sys

with open(__file__ + ".record", "a") as record:
    seen = {{"pid": os.getpid(), "argv": sys.argv, "env": dict(os.environ)}}
    record.write(json.dumps(seen) + "\\n")
{first}
key = os.environ["LAKEFS_INSTALLATION_ACCESS_KEY_ID"]
secret = os.environ["LAKEFS_INSTALLATION_SECRET_ACCESS_KEY"]
known = "Basic " + base64.b64encode((key + ":" + secret).encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        healthy = self.path == "/_health" or self.headers.get("Authorization") == known
        self.send_response(200 if healthy else 401)
        self.end_headers()


host, _, port = os.environ["LAKEFS_LISTEN_ADDRESS"].partition(":")
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDouble:
    """A tool in a directory of its own, and the environment in which it is the only one."""

    directory: Path
    record: str = "record"

    @property
    def environment(self) -> dict[str, str]:
        # The system's own directories, for the shell's commands; no Go and no lakeFS is in there.
        return {"PATH": f"{self.directory}:/usr/bin:/bin", "HOME": str(self.directory)}

    @property
    def calls(self) -> list[str]:
        """What it was asked, in order."""
        return [line.partition(" ")[2] for line in self._lines()]

    @property
    def pids(self) -> list[int]:
        return [int(line.partition(" ")[0]) for line in self._lines()]

    def _lines(self) -> list[str]:
        record = self.directory / self.record
        return record.read_text().splitlines() if record.exists() else []


def make_go(directory: Path, *, download: str = DOWNLOAD, compile_: str = COMPILE) -> ToolDouble:
    """Write the double; `download` and `compile_` are shell commands, `$2` the file to make."""
    source = directory / "source"
    source.mkdir(parents=True, exist_ok=True)
    script = GO.format(
        record=directory / "record", download=download.format(source=source), compile=compile_
    )
    return ToolDouble(directory=_write_program(directory / "go", script).parent)


def make_lakefs(path: Path, *, first: str = "") -> Binary:
    """Write a server's double; `first` is Python that it runs before it listens."""
    _write_program(path, SERVER.format(python=_RUN_BY_THIS_PYTHON, first=first))
    return Binary(program=LAKEFS, path=path, version="1.86.0", source="PATH")


def make_maven(
    directory: Path,
    *,
    get: str = 'mkdir -p "$HOME/.m2/repository/{where}"; echo jar > "$HOME/.m2/repository/{path}"',
    copy: str = "exit 1",
) -> ToolDouble:
    """Write the double; `get` and `copy` are shell commands, `$output` the directory to fill."""
    path = SMALL_CONDUCTOR.repository_path
    script = MAVEN.format(
        record=directory / "maven.record",
        get=get.format(path=path, where=path.parent),
        copy=copy.format(name=path.name),
    )
    return ToolDouble(
        directory=_write_program(directory / "mvn", script).parent, record="maven.record"
    )


def make_server_java(home: Path, *, extract: str = EXTRACT, archive: str = ARCHIVE) -> ToolDouble:
    """Write the double; `extract` and `archive` are shell commands.

    They see `$jar`, and `$destination`, the directory to fill, or `$archive`, the file to write.
    """
    directory = home / "bin"
    script = SERVER_JAVA.format(record=directory / "record", extract=extract, archive=archive)
    return ToolDouble(directory=_write_program(directory / "java", script).parent)


def make_conductor(java: Path, *, first: str = "") -> ConductorProgram:
    """Write a Java that is the server, whatever its jar; `first` is Python it runs before."""
    _write_program(java, CONDUCTOR_JAVA.format(python=_RUN_BY_THIS_PYTHON, first=first))
    jar = Binary(
        program=CONDUCTOR, path=java.with_name("server.jar"), version="3.32.1", source="cache"
    )
    return ConductorProgram(jar=jar, java=java)


def silent() -> Progress:
    return Progress(say=lambda _: None)


def _write_program(path: Path, text: str) -> Path:
    """Write it under another name first: a fork elsewhere may hold an open file for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(path)
    return path
