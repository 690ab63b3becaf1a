"""Which attempt has Spark: one at a time in a process, for pyspark has one current session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError


class Claim:
    """Held by one attempt, or nobody."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: str | None = None

    @contextmanager
    def held_by(self, attempt: Attempt) -> Iterator[None]:
        """Raise if another attempt has it."""
        name = f"{attempt.reference_name} ({attempt.task_id})"
        with self._lock:
            if self._holder is not None:
                raise EnvironmentUnfitError(
                    f"{name} cannot have Spark: this process already runs {self._holder} on it",
                    hint="a process runs one attempt on Spark at a time; start more executors",
                )
            self._holder = name
        try:
            yield
        finally:
            with self._lock:
                self._holder = None


CLAIM = Claim()
