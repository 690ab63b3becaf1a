"""The modes of writing to a direct workspace, through a Spark Connect server: none may differ."""

from __future__ import annotations

from tests.integration.direct.test_direct_writes import (  # noqa: F401 - pytest runs them
    lease,
    pytestmark,
    test_a_write_that_fails_changes_nothing,
    test_an_append_keeps_what_is_there,
    test_an_overwrite_replaces_the_table,
    test_partitions_are_replaced_one_by_one,
    test_sorted_rows_lie_in_order,
    workspace,
)
