"""Where a server's binary comes from: PATH, else the cache, else a build into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from perago.adapters.environment import without_own_variables
from perago.adapters.progress import Progress
from perago.adapters.servers.go import USUAL_PLACES, GoBuild, explain_missing_go, find_go
from perago.adapters.servers.program_cache import Binary, cached_path, fill_cache
from perago.adapters.servers.programs import GoProgram

_PROBE_SECONDS = 30


def find_binary(
    program: GoProgram, *, cache: Path, environment: Mapping[str, str]
) -> Binary | None:
    """The program on PATH, else in the cache. One on PATH that does not start is passed over."""
    on_path = shutil.which(program.name, path=environment.get("PATH", os.defpath))
    if on_path is not None and (version := probe_version(Path(on_path), environment)) is not None:
        return Binary(program=program, path=Path(on_path), version=version, source="PATH")
    cached = cached_path(program, cache)
    if not os.access(cached, os.X_OK):
        return None
    return Binary(program=program, path=cached, version=program.version, source="cache")


def provide_binary(
    program: GoProgram,
    *,
    cache: Path,
    environment: Mapping[str, str],
    progress: Progress,
    go_places: Iterable[str] = USUAL_PLACES,
) -> Binary:
    """Find the program, or build it into the cache; minutes, the first time."""
    found = find_binary(program, cache=cache, environment=environment)
    if found is not None:
        return found
    go = find_go(environment, go_places)
    if go is None:
        raise explain_missing_go(program)

    def build(scratch: Path, target: Path) -> None:
        GoBuild(
            go=go, program=program, scratch=scratch, environment=environment, progress=progress
        ).make(target)

    path = fill_cache(program, cache=cache, doing="build", progress=progress, make=build)
    return Binary(program=program, path=path, version=program.version, source="build")


def probe_version(path: Path, environment: Mapping[str, str]) -> str | None:
    """Ask a program for its version; None when it does not start or does not say."""
    try:
        answer = subprocess.run(
            [path, "--version"],
            env=without_own_variables(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bversion:? v?(\S+)", answer.stdout)
    return match[1] if match else None
