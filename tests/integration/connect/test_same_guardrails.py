"""The guardrails of direct workspaces, checked by a Spark Connect server: nothing may differ."""

from __future__ import annotations

from tests.integration.direct.test_direct_guardrails import (  # noqa: F401 - pytest runs them
    local,
    pytestmark,
    test_both_find_the_same,
    test_the_sample_shows_the_rows,
    test_what_cannot_be_read_is_a_violation,
    workspace,
)
