"""What a Conductor server is started from: a jar and a Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.progress import Progress
from perago.adapters.servers.java import find_server_java
from perago.adapters.servers.maven import find_jar, provide_jar
from perago.adapters.servers.program_cache import Binary
from perago.adapters.servers.programs import CONDUCTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorProgram:
    """A jar, and the Java to run it on."""

    jar: Binary
    java: Path

    @property
    def version(self) -> str:
        """The server's."""
        return self.jar.version


def find_conductor(*, cache: Path, environment: Mapping[str, str]) -> ConductorProgram | None:
    """The jar of the cache and a Java for it; None without the jar, an error without a Java."""
    jar = find_jar(CONDUCTOR, cache=cache)
    return None if jar is None else ConductorProgram(jar=jar, java=find_server_java(environment))


def provide_conductor(
    *, cache: Path, environment: Mapping[str, str], progress: Progress
) -> ConductorProgram:
    """Find both, or fetch the jar; minutes, the first time."""
    java = find_server_java(environment)  # first: without one the jar is of no use
    jar = provide_jar(CONDUCTOR, cache=cache, environment=environment, progress=progress)
    return ConductorProgram(jar=jar, java=java)
