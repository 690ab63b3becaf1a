"""The Javas that are installed on this machine.

Invariant: what is installed is looked at, never changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.environment import without_own_variables

USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk@*",
    "/usr/local/opt/openjdk@*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Where packages and version tools put a Java home, as glob patterns."""

_PROBE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaInstallation:
    """A Java that was found, and where. `version` is None when it would not say."""

    home: Path
    source: str
    version: int | None

    @property
    def program(self) -> Path:
        """What is started."""
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        version = "does not start" if self.version is None else f"Java {self.version}"
        return f"{self.home} ({self.source}): {version}"


def look_for_java(
    environment: Mapping[str, str],
    fits: Callable[[JavaInstallation], bool],
    places: Iterable[str] = USUAL_PLACES,
) -> list[JavaInstallation]:
    """What JAVA_HOME, PATH and the usual places have, up to the first fit one and no further.

    A fit Java elsewhere is preferred to an unfit one that the environment names.
    """
    found: list[JavaInstallation] = []
    for home, source in _candidates(environment, places):
        if any(_same(home, other.home) for other in found):
            continue
        found.append(JavaInstallation(home=home, source=source, version=probe_java(home)))
        if fits(found[-1]):
            break
    return found


def parse_java_version(text: str) -> int | None:
    """The major release in what `java -version` prints: `17.0.15` is 17, `1.8.0_392` is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def probe_java(home: Path) -> int | None:
    """Ask a Java for its version; None when it does not start or does not say."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"],
            env=without_own_variables(os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=_PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def _candidates(
    environment: Mapping[str, str], places: Iterable[str]
) -> Iterator[tuple[Path, str]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(on_path).resolve().parent.parent, "PATH"
    for place in places:
        pattern = Path(place).expanduser()
        # Path.glob takes relative patterns only.
        for home_directory in sorted(Path(pattern.anchor).glob(str(pattern)[1:])):
            if (home_directory / "bin" / "java").is_file():
                yield home_directory, "installed"


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
