"""Building a program from its Go module, with whatever Go this machine has.

Invariant: the target appears whole or not at all. Everything else that a build writes, Go's own
scratch included, is in one directory that goes away with it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.progress import Progress
from perago.adapters.servers.programs import GoProgram
from perago.adapters.servers.toolchains import Tool
from perago.domain.errors import EnvironmentUnfitError

USUAL_PLACES = (
    "/usr/local/go/bin",
    "~/go/bin",
    "/usr/lib/go/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/snap/bin",
)
"""Where installers put `go` without putting it on everybody's PATH."""


def find_go(environment: Mapping[str, str], places: Iterable[str] = USUAL_PLACES) -> Path | None:
    """The `go` on PATH, of GOROOT, or in the usual places."""
    directories = [environment.get("PATH", os.defpath)]
    if root := environment.get("GOROOT"):
        directories.append(str(Path(root) / "bin"))
    directories += [str(Path(place).expanduser()) for place in places]
    found = shutil.which("go", path=os.pathsep.join(directories))
    return None if found is None else Path(found)


def explain_missing_go(program: GoProgram) -> EnvironmentUnfitError:
    """The error for a machine that can neither find nor build the program."""
    return EnvironmentUnfitError(
        f"there is no {program} here, and no Go to build it with",
        hint=f"install Go (https://go.dev/doc/install), {_other_ways(program)}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoBuild:
    """One build: `scratch` is an empty directory of its own, on the file system of the target."""

    go: Path
    program: GoProgram
    scratch: Path
    environment: Mapping[str, str]
    progress: Progress

    def make(self, target: Path) -> None:
        """Download, compile, and put the program where it belongs."""
        program = self.program
        module = f"{program.module}@v{program.version}"
        answer = self._run(
            ["mod", "download", "-json", module], self.scratch, f"downloading {program} …"
        )
        # Inside the module, so that its own replacements and checksums apply.
        source = self._source_directory(answer)
        made = self.scratch / program.name
        label = f"-s -w -X {program.version_variable}={program.version}"
        cores = os.cpu_count() or 1
        minutes = max(1, round(8 / cores))
        self._run(
            [
                "build",
                "-buildvcs=false",
                # Without debug information it compiles a tenth faster.
                "-gcflags=all=-dwarf=false",
                "-ldflags",
                label,
                "-o",
                str(made),
                program.package,
            ],
            source,
            f"compiling {program} (once; about {minutes} min on {cores} cores) …",
        )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(target)

    def _source_directory(self, answer: str) -> Path:
        try:
            told = json.loads(answer)
            directory, found = Path(told["Dir"]), told["Sum"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._explain("go mod", "it did not say where the module is") from error
        if found != self.program.module_sum:
            raise self._explain(
                "go mod",
                f"the module is not the one that Perago was tested with: its checksum is {found}",
            )
        return directory

    def _run(self, arguments: list[str], directory: Path, doing: str) -> str:
        """Run Go to its end and give what it printed."""
        go = Tool(
            path=self.go,
            scratch=self.scratch,
            environment=self._environment(),
            progress=self.progress,
        )
        answer = go.run(arguments, directory=directory, doing=doing)
        if answer.code != 0:
            said = [line for line in answer.err.splitlines() if line.strip()]
            # What was fetched says nothing about what went wrong.
            told = [line for line in said if not line.startswith("go: downloading")]
            raise self._explain(f"go {arguments[0]}", answer.failure(told))
        return answer.out

    def _environment(self) -> dict[str, str]:
        # A workspace of the reader's own would replace the module's go.mod. A killed Go leaves its
        # scratch behind, which is then ours to remove.
        return {**self.environment, "GOWORK": "off", "GOTMPDIR": str(self.scratch)}

    def _explain(self, command: str, what: str) -> EnvironmentUnfitError:
        return EnvironmentUnfitError(
            f"cannot build {self.program}: `{command}` failed: {what}",
            hint="Go fetches modules from GOPROXY, and a newer Go where the module asks for one; "
            f"see to that and try again, {_other_ways(self.program)}",
        )


def _other_ways(program: GoProgram) -> str:
    return (
        f"or put a `{program.name}` binary on PATH, or run the server with Docker "
        "(compose.yaml in Perago's source)"
    )
