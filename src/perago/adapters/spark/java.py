"""Finding a Java that Spark runs on.

Invariant: what is installed is looked at, never changed; the choice among what was found is pure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError

FIT_VERSIONS = (17, 21)
"""The Java releases that Spark 4.1 supports; tests run on 17. Java 25 has no `getSubject` left."""

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
    def is_fit(self) -> bool:
        """Whether Spark runs on it."""
        return self.version in FIT_VERSIONS

    def __str__(self) -> str:
        version = "does not start" if self.version is None else f"Java {self.version}"
        return f"{self.home} ({self.source}): {version}"


def find_java(
    environment: Mapping[str, str], places: Iterable[str] = USUAL_PLACES
) -> JavaInstallation:
    """The Java to run Spark on: JAVA_HOME's, PATH's, or the first fit one in the usual places.

    A fit Java elsewhere is preferred to an unfit one that the environment names.
    """
    found: list[JavaInstallation] = []
    for home, source in _candidates(environment, places):
        if any(_same(home, other.home) for other in found):
            continue
        found.append(JavaInstallation(home=home, source=source, version=probe_java(home)))
        if found[-1].is_fit:
            break
    chosen = decide_java(found)
    if chosen is None:
        raise explain_unfit_java(found)
    return chosen


def decide_java(found: Sequence[JavaInstallation]) -> JavaInstallation | None:
    """The first fit one, in the order in which they were found."""
    return next((java for java in found if java.is_fit), None)


def explain_unfit_java(found: Sequence[JavaInstallation]) -> EnvironmentUnfitError:
    """The error for a machine on which Spark cannot run."""
    wanted = " or ".join(str(version) for version in FIT_VERSIONS)
    seen = "; ".join(str(java) for java in found) or "no Java at all"
    return EnvironmentUnfitError(
        f"Spark needs Java {wanted}, and this machine has: {seen}",
        hint=(
            f"install Java {FIT_VERSIONS[0]} (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
            "macOS: brew install openjdk@17), or set JAVA_HOME to one that is installed"
        ),
    )


def parse_java_version(text: str) -> int | None:
    """The major release in what `java -version` prints: `17.0.15` is 17, `1.8.0_392` is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def probe_java(home: Path) -> int | None:
    """Ask a Java for its version; None when it does not start or does not say."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"],
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
