"""The writes of direct workspaces, each through a Spark Connect server: nothing may differ."""

from __future__ import annotations

from tests.integration.direct.test_direct_writes import (  # noqa: F401 - pytest runs them
    lease,
    pytestmark,
    test_a_partition_is_one_file_unless_told_otherwise,
    test_a_path_that_leaves_the_workspace_is_refused,
    test_a_table_may_be_overwritten_from_itself,
    test_a_table_that_is_there_is_left_alone_where_it_must_not_be,
    test_a_write_that_fails_changes_nothing,
    test_an_append_keeps_what_is_there,
    test_an_overwrite_replaces_the_table,
    test_files_are_listed_and_deleted,
    test_partitions_are_replaced_one_by_one,
    test_reading_shows_the_input_and_writing_the_staging,
    test_sorted_rows_lie_in_order,
    workspace,
)
