"""Finding a Java that Spark runs on; the choice among what was found is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perago.adapters.localfs.java import USUAL_PLACES, JavaInstallation, look_for_java
from perago.domain.errors import EnvironmentUnfitError

FIT_VERSIONS = (17, 21)
"""The Java releases that Spark 4.1 supports; tests run on 17. Java 25 has no `getSubject` left."""


def find_java(
    environment: Mapping[str, str], places: Iterable[str] = USUAL_PLACES
) -> JavaInstallation:
    """The Java to run Spark on: JAVA_HOME's, PATH's, or the first fit one in the usual places."""
    found = look_for_java(environment, is_fit, places)
    chosen = decide_java(found)
    if chosen is None:
        raise explain_unfit_java(found)
    return chosen


def is_fit(java: JavaInstallation) -> bool:
    """Whether Spark runs on it."""
    return java.version in FIT_VERSIONS


def decide_java(found: Sequence[JavaInstallation]) -> JavaInstallation | None:
    """The first fit one, in the order in which they were found."""
    return next((java for java in found if is_fit(java)), None)


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
