"""What a body leaves running, each on a Spark Connect server: nothing may differ."""

from __future__ import annotations

from tests.integration.direct.test_stragglers import (  # noqa: F401 - pytest runs them
    pytestmark,
    test_one_that_reads_is_ended,
    test_one_that_writes_publishes_nothing,
)
