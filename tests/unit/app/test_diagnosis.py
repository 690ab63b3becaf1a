"""How `perago doctor` judges what was measured."""

from __future__ import annotations

import pytest

from perago.app.diagnosis import (
    Check,
    Verdict,
    examine,
    judge_clock,
    judge_protection,
    judge_version,
    matches_branch,
    passed,
)
from perago.domain.errors import StoreUnavailableError
from perago.domain.ids import BranchName

MAIN = BranchName("main")


def raising(error: Exception) -> Check:
    def look() -> Check:
        raise error

    return examine("place", look)


def test_a_check_that_finds_something_is_that() -> None:
    assert examine("place", lambda: passed("place", "fine")) == passed("place", "fine")


@pytest.mark.parametrize(
    ("error", "found", "advice"),
    [
        (StoreUnavailableError("no answer", hint="try again"), "no answer", "try again"),
        (PermissionError(13, "Permission denied", "/home/x"), "/home/x: Permission denied", "disk"),
        (OSError("no more"), "no more", "disk"),
        (KeyError("nobody foresaw"), "KeyError: 'nobody foresaw'", "bug"),
    ],
)
def test_whatever_a_check_raises_is_what_it_found(
    error: Exception, found: str, advice: str
) -> None:
    check = raising(error)

    assert check.is_problem
    assert check.found.endswith(found)
    assert advice in str(check.advice)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("1.86.0", Verdict.OK),
        ("v1.86.0-rc.1", Verdict.OK),
        ("1.100.2", Verdict.OK),
        ("1.85.9", Verdict.WARNING),
        ("0.113.0", Verdict.WARNING),
        ("2.0.0", Verdict.WARNING),
        ("dev", Verdict.WARNING),
        ("", Verdict.WARNING),
        (None, Verdict.WARNING),
    ],
)
def test_a_version_that_nobody_tried_is_a_warning(version: str | None, verdict: Verdict) -> None:
    assert judge_version("version", version).verdict is verdict


@pytest.mark.parametrize(
    ("skew", "verdict", "said"),
    [
        (0.0, Verdict.OK, "agree"),
        (5.0, Verdict.OK, "agree"),
        (-5.0, Verdict.OK, "agree"),
        (5.1, Verdict.WARNING, "5 s ahead of"),
        (-90.0, Verdict.WARNING, "90 s behind"),
    ],
)
def test_clocks_may_differ_by_five_seconds(skew: float, verdict: Verdict, said: str) -> None:
    check = judge_clock("clock", skew)

    assert check.verdict is verdict
    assert said in check.found


@pytest.mark.parametrize(
    ("patterns", "verdict", "said"),
    [
        ([], Verdict.OK, "no rules"),
        (["dev-*", "stable"], Verdict.OK, "main is not protected"),
        (["stable", "ma*"], Verdict.PROBLEM, "'ma*' protects main"),
        (["perago-*"], Verdict.PROBLEM, "'perago-*' protects staging"),
        (["*"], Verdict.PROBLEM, "'*' protects staging"),
    ],
)
def test_protection_must_touch_neither_target_nor_stagings(
    patterns: list[str], verdict: Verdict, said: str
) -> None:
    check = judge_protection("protection", patterns, MAIN)

    assert check.verdict is verdict
    assert said in check.found


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("main", ["main"], ["main2", "amain", "Main"]),
        ("*", ["main", "a-b"], []),
        ("ma*", ["main", "ma"], ["m"]),
        ("*-prod", ["a-prod"], ["a-prod-b"]),
        ("m?in", ["main", "m-in"], ["min"]),
        ("[a-m]ain", ["main"], ["zain"]),
        ("[!a-m]ain", ["zain"], ["main"]),
        ("[mx]*", ["main", "x"], ["ain"]),
        ("{main,prod-*}", ["main", "prod-1"], ["dev", "prod"]),
        ("v{1,2}_{a,b}", ["v1_a", "v2_b"], ["v1_c", "v1"]),
        ("a,b", ["a,b"], ["a"]),
        (r"a\*", ["a*"], ["ab"]),
        ("a.b", ["a.b"], ["axb"]),
        ("{main,x", ["main", "x"], ["{main"]),
        ("a}", ["a}"], ["a"]),
        ("m[", [], ["m", "m["]),
        ("[z-a]", [], ["z", "a", "m"]),
    ],
)
def test_rules_are_read_as_lakefs_reads_them(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    assert all(matches_branch(pattern, name) for name in matching)
    assert not any(matches_branch(pattern, name) for name in other)
