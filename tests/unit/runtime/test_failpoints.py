"""Failpoints read what they are told and refuse what they do not understand."""

from __future__ import annotations

import errno
import time

import pytest

from perago.domain.attempt import Attempt
from perago.domain.errors import SettingsError
from perago.domain.ids import TaskId, WorkflowId
from perago.ports import Failpoint
from perago.runtime.failpoints import RuleFailpoints, parse_failpoints


def attempt(reference: str = "clean", retry: int = 0) -> Attempt:
    return Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId("t"),
        task_name="clean",
        reference_name=reference,
        retry_count=retry,
    )


def test_nothing_is_no_rule() -> None:
    assert parse_failpoints("") == ()
    RuleFailpoints().hit(Failpoint.STAGED, attempt())


def test_a_rule_has_a_point_an_action_and_filters() -> None:
    (first, second) = parse_failpoints("published=kill@clean#1; staged=pause:2.5")

    assert (first.point, first.action) == (Failpoint.PUBLISHED, "kill")
    assert (first.reference, first.retry) == ("clean", 1)
    assert (second.seconds, second.reference, second.retry) == (2.5, None, None)
    assert first.applies_to(Failpoint.PUBLISHED, attempt(retry=1))
    assert not first.applies_to(Failpoint.PUBLISHED, attempt(retry=0))
    assert not first.applies_to(Failpoint.PUBLISHED, attempt("other", 1))
    assert not first.applies_to(Failpoint.STAGED, attempt(retry=1))


@pytest.mark.parametrize("text", ["published", "nowhere=kill", "staged=explode", "staged=kill@"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="bad failpoint"):
        parse_failpoints(text)


def test_a_full_disk_looks_like_one() -> None:
    points = RuleFailpoints(parse_failpoints("staged=enospc"))

    with pytest.raises(OSError, match="No space left") as caught:
        points.hit(Failpoint.STAGED, attempt())

    assert caught.value.errno == errno.ENOSPC


def test_fail_is_an_ordinary_exception() -> None:
    with pytest.raises(RuntimeError, match="failpoint staged"):
        RuleFailpoints(parse_failpoints("staged=fail")).hit(Failpoint.STAGED, attempt())


def test_pause_waits() -> None:
    began = time.monotonic()

    RuleFailpoints(parse_failpoints("staged=pause:0.05")).hit(Failpoint.STAGED, attempt())

    assert time.monotonic() - began >= 0.05
