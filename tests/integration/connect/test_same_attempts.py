"""The attempts of direct workspaces, each on a Spark Connect server: nothing may differ."""

from __future__ import annotations

from tests.integration.direct.test_direct_attempts import (  # noqa: F401 - pytest runs them
    put_input,
    pytestmark,
    test_a_body_that_fails_publishes_nothing,
    test_a_deleted_file_is_a_change,
    test_a_read_only_task_makes_no_branch,
    test_a_straggler_between_judgement_and_commit_fails_the_attempt,
    test_a_write_outside_of_the_prefix_fails_the_attempt,
    test_guardrails_are_checked_on_the_commits,
    test_nothing_changed_publishes_nothing,
    test_strays_and_markers_are_not_published,
    test_what_spark_wrote_is_published_as_one_commit,
)
