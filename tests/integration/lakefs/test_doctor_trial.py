"""What `perago doctor` tries for real: whatever goes wrong is told, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

from perago.app.diagnosis import Verdict
from perago.domain.ids import BranchName
from tests.fault_proxy import Action, Answer, CallBefore, Fault, LoseResponse, Match
from tests.integration.lakefs.diagnosis import TRIED, diagnose, problems
from tests.integration.lakefs.faulty_lake import CALLS, FaultyLake

pytestmark = pytest.mark.lakefs

MERGE = Match("POST", "/merge/")
PARTS = Match("POST", r"/parted\?uploads=")


@pytest.mark.parametrize(
    ("step", "match", "not_tried"),
    [
        ("create branch", CALLS["create staging"], TRIED[1:-1]),
        ("write object", CALLS["upload"], [*TRIED[2:7]]),
        ("write in parts", PARTS, []),
        ("delete object", CALLS["delete objects"], []),
        ("commit", CALLS["commit"], ["read object", "merge"]),
        ("read object", CALLS["download"], []),
        ("merge", MERGE, []),
        ("hard reset", CALLS["reset"], []),
    ],
)
def test_what_is_refused_is_told_and_the_rest_is_tried(
    untouched: FaultyLake, step: str, match: Match, not_tried: list[str]
) -> None:
    refusal = Answer(status=401, body=b'{"message": "insufficient permissions"}')
    untouched.proxy.add(Fault(match=match, action=refusal, times=None))

    checks = diagnose(untouched)

    assert problems(checks) == [step]
    assert "fs:" in checks[step].found
    assert [name for name in TRIED if checks[name].verdict is Verdict.SKIPPED] == not_tried


@pytest.mark.parametrize("step", ["create staging", "commit", "reset", "delete staging"])
@pytest.mark.parametrize("action", [LoseResponse(), Answer(status=500)], ids=["lost", "failed"])
def test_nothing_is_left_behind_when_an_answer_fails(
    untouched: FaultyLake, step: str, action: Action
) -> None:
    untouched.fault(step, action)

    diagnose(untouched)

    assert untouched.struck(step) == 1


def test_nothing_is_left_behind_by_an_interruption(untouched: FaultyLake) -> None:
    made: list[list[BranchName]] = []
    # The call must still be waiting when the interruption comes, on a slow machine too.
    untouched.timeout_seconds = 60

    def interrupt() -> None:
        made.append(untouched.stagings)
        os.kill(os.getpid(), signal.SIGINT)

    untouched.proxy.add(Fault(match=CALLS["commit"], action=CallBefore(callback=interrupt)))

    with pytest.raises(KeyboardInterrupt):
        diagnose(untouched)

    assert [len(names) for names in made] == [2]


def test_what_cannot_be_removed_is_named(lake: FaultyLake) -> None:
    lake.fault("delete staging", Answer(status=403, body=b'{"message": "no"}'), times=None)

    checks = diagnose(lake)

    assert problems(checks) == ["delete branch"]
    assert len(lake.stagings) == 2
    assert all(name in checks["delete branch"].found for name in lake.stagings)


def test_what_a_killed_doctor_left_is_removed_after_an_hour(lake: FaultyLake) -> None:
    began = {"old": int(time.time()) - 4000, "young": int(time.time()) - 60}
    names = {
        age: BranchName(f"perago-staging-doctor-{moment}-{uuid.uuid4().hex}-target")
        for age, moment in began.items()
    }
    other = BranchName("perago-staging-doctor-of-another-kind")
    for name in (*names.values(), other):
        lake.direct.create_branch(lake.repository, name, lake.head.id, hidden=True)

    assert not problems(diagnose(lake))

    assert lake.stagings == sorted([names["young"], other])
