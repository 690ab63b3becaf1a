"""Where a server's binary comes from: PATH, else the cache, else a build into the cache.

Invariant: a file under a program's name in the cache is a whole program of the version that its
directory names. Several processes that need it at once build it once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perago.adapters.servers.file_lock import hold_file_lock
from perago.adapters.servers.go import USUAL_PLACES, GoBuild, explain_missing_go, find_go
from perago.adapters.servers.programs import GoProgram
from perago.adapters.servers.progress import Progress
from perago.domain.errors import EnvironmentUnfitError

_PROBE_SECONDS = 30
_BUILD_PREFIX = ".build-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A program that can be started."""

    program: GoProgram
    path: Path
    version: str
    source: Literal["PATH", "cache", "build"]

    @property
    def warning(self) -> str | None:
        """What to say about a version that nobody has tried."""
        if self.version == self.program.version:
            return None
        return (
            f"{self.path} is {self.program.title} {self.version}; "
            f"Perago is tested with {self.program.version}"
        )


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
    target = cached_path(program, cache)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with hold_file_lock(
            target.parent / ".lock",
            waiting=f"another process builds {program}: waiting …",
            progress=progress,
        ):
            _sweep(target.parent)
            if not os.access(target, os.X_OK):
                with tempfile.TemporaryDirectory(prefix=_BUILD_PREFIX, dir=target.parent) as made:
                    GoBuild(
                        go=go,
                        program=program,
                        scratch=Path(made),
                        environment=environment,
                        progress=progress,
                    ).make(target)
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot build {program} into {target.parent}: {error.strerror}",
            hint="make the directory writable, free disk space, or choose another cache directory",
        ) from error
    return Binary(program=program, path=target, version=program.version, source="build")


def cached_path(program: GoProgram, cache: Path) -> Path:
    """Where the cache keeps a program of its pinned version."""
    return cache / "servers" / f"{program.family}-{program.version}" / program.name


def probe_version(path: Path, environment: Mapping[str, str]) -> str | None:
    """Ask a program for its version; None when it does not start or does not say."""
    try:
        answer = subprocess.run(
            [path, "--version"],
            env=dict(environment),
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


def _sweep(directory: Path) -> None:
    """Remove what builds that were killed left; whoever holds the lock is the only builder."""
    for left in directory.glob(f"{_BUILD_PREFIX}*"):
        # A compiler may be writing its last file there: what stays now goes the next time.
        shutil.rmtree(left, ignore_errors=True)
