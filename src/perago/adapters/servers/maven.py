"""Where a server's jar comes from: the cache, else Maven and its local repository.

Invariants: the target appears whole or not at all, and only with the content that Perago was tested
with. Where the file system can, it is the very file of Maven's repository under a second name, and
not half a gigabyte more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.progress import Progress
from perago.adapters.servers.program_cache import Binary, cached_path, fill_cache
from perago.adapters.servers.programs import MavenProgram
from perago.adapters.servers.toolchains import Tool
from perago.domain.errors import EnvironmentUnfitError


def find_jar(program: MavenProgram, *, cache: Path) -> Binary | None:
    """The program in the cache."""
    cached = cached_path(program, cache)
    if not cached.is_file():
        return None
    return Binary(program=program, path=cached, version=program.version, source="cache")


def provide_jar(
    program: MavenProgram, *, cache: Path, environment: Mapping[str, str], progress: Progress
) -> Binary:
    """Find the program, or fetch it into the cache; minutes, the first time."""
    found = find_jar(program, cache=cache)
    if found is not None:
        return found

    def fetch(scratch: Path, target: Path) -> None:
        _MavenFetch(
            program=program, scratch=scratch, environment=environment, progress=progress
        ).make(target)

    path = fill_cache(program, cache=cache, doing="fetch", progress=progress, make=fetch)
    return Binary(program=program, path=path, version=program.version, source="Maven")


def require_content(program: MavenProgram, jar: Path) -> None:
    """Raise for a jar that is not the one that Perago was tested with; takes a second or two."""
    with jar.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != program.sha256:
        raise EnvironmentUnfitError(
            f"{jar} is not the {program} that Perago was tested with: its SHA-256 is {found}",
            hint="find out where it comes from; once it is removed, also from Maven's repository "
            "(~/.m2/repository), it is fetched again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MavenFetch:
    """One fetch: `scratch` is an empty directory of its own, on the file system of the target."""

    program: MavenProgram
    scratch: Path
    environment: Mapping[str, str]
    progress: Progress

    def make(self, target: Path) -> None:
        """Put the jar where it belongs, with Maven unless its repository has the jar already."""
        if self._take_over(target):
            return
        maven = shutil.which("mvn", path=self.environment.get("PATH", os.defpath))
        if maven is None:
            raise EnvironmentUnfitError(
                f"there is no {self.program} here, and no Maven to fetch it with",
                hint="install Maven (Debian, Ubuntu: apt install maven; macOS: brew install "
                f"maven), {self._other_ways(target)}",
            )
        tool = Tool(
            path=Path(maven),
            scratch=self.scratch,
            environment=self.environment,
            progress=self.progress,
        )
        doing = f"fetching {self.program} (once; {self.program.megabytes} MB) …"
        self._run(tool, ["dependency:get", "-Dtransitive=false"], doing, target)
        if self._take_over(target):
            return
        # Its repository is elsewhere: Maven alone knows where.
        copy = ["dependency:copy", f"-DoutputDirectory={self.scratch}"]
        self._run(tool, copy, f"copying {self.program} …", target)
        made = self.scratch / self.program.file_name
        if not made.is_file():
            raise self._explain("Maven said nothing, and there is no jar", target)
        require_content(self.program, made)
        made.replace(target)

    def _take_over(self, target: Path) -> bool:
        """Give the jar of Maven's usual repository a second name; False where there is none."""
        home = self.environment.get("HOME")
        if home is None:
            return False
        jar = Path(home) / ".m2" / "repository" / self.program.repository_path
        if not jar.is_file():
            return False
        require_content(self.program, jar)
        with suppress(OSError):
            target.hardlink_to(jar)
            return True
        # Another file system, or one without links.
        made = self.scratch / self.program.file_name
        self.progress.say(f"copying {self.program} …")
        shutil.copyfile(jar, made)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(target)
        return True

    def _run(self, maven: Tool, arguments: list[str], doing: str, target: Path) -> None:
        answer = maven.run(
            ["-B", "-q", *arguments, f"-Dartifact={self.program.coordinates}"],
            # Not in a project of the reader's, whose settings would apply.
            directory=self.scratch,
            doing=doing,
        )
        if answer.code != 0:
            said = (answer.out + answer.err).splitlines()
            raise self._explain(answer.failure([line for line in said if line.strip()]), target)

    def _explain(self, what: str, target: Path) -> EnvironmentUnfitError:
        return EnvironmentUnfitError(
            f"cannot fetch {self.program} with Maven: {what}",
            hint="Maven fetches from Maven Central, or from a mirror in its settings.xml; see to "
            f"that and try again, {self._other_ways(target)}",
        )

    def _other_ways(self, target: Path) -> str:
        return (
            f"or put {self.program.file_name} of {self.program.group} into {target.parent}, "
            "or run the server with Docker (compose.yaml in Perago's source)"
        )
