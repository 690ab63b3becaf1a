"""What is told of an attempt's phases, in which order, and what a silent one is seen to do.

The executor's side is the real one, at the other end of a pipe.
"""

from __future__ import annotations

import multiprocessing
import os

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.events import AttemptEnded, Progressed, SparkProgressed, Transferred
from perago.domain.outcome import Completed, Direction, Phase
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.runtime.actions import Run
from perago.runtime.frames import FrameReader
from perago.runtime.inputs import Heard, Seen
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import (
    CleanedUp,
    Decided,
    FromExecutor,
    PhaseBegan,
    PhaseOver,
    decode_from_executor,
)
from perago.runtime.pipe_observer import PipeObserver
from perago.runtime.shared_lease import AttemptCell
from perago.runtime.supervisor_link import SupervisorLink
from tests.unit.runtime.turn_scene import DONE, TurnScene, polled

NONCE = bytes(range(16))
OVER = (Decided(outcome=DONE), CleanedUp())


class PhaseScene(TurnScene):
    """A slot whose executor is this process."""

    def __init__(self, *, is_brief: bool) -> None:
        super().__init__()
        self.seconds = 0.002 if is_brief else 1.0
        self.receive(polled("before"))
        self.now += self.seconds
        self.says(*OVER)
        self.answer_report()
        self.receive(polled("t"))
        self.events = []
        (run,) = (action for action in self.actions if isinstance(action, Run))
        self.ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self.reader = FrameReader()
        self.cell = AttemptCell(LEASE_LOST)
        self.cell.enter(Phase.VALIDATE)
        self.executor = PipeObserver(SupervisorLink(theirs, NONCE), self.cell)
        self.executor.tells_body_later = run.assignment.is_brief
        assert run.assignment.is_brief is is_brief

    def words(self) -> tuple[FromExecutor, ...]:
        """What the executor said since the last look."""
        while self.ours.poll():
            self.reader.feed(os.read(self.ours.fileno(), 1 << 16))
        messages: list[FromExecutor] = []
        while (payload := self.reader.next(NONCE)) is not None:
            messages += decode_from_executor(payload)
        return tuple(messages)

    def heard(self) -> list[str]:
        """What the worker tells after it took what there is."""
        self.step(*(Heard(slot=0, message=one) for one in self.words()))
        return self.told()

    def seen(self) -> list[str]:
        """What it tells after a look at the slot."""
        phase = self.cell.phase
        assert phase is not None
        self.step(Seen(slot=0, execution_id=self.assignment().execution_id, phase=phase))
        return self.told()

    def last_heard(self) -> list[str]:
        """What it tells after the executor died."""
        self.die(*self.words(), phase=self.cell.phase)
        return self.told()

    def enter_body(self) -> None:
        self.executor.phase_started(Phase.VALIDATE)
        self.executor.phase_ended(Phase.VALIDATE, 0.001)
        self.executor.phase_started(Phase.BODY)

    def end(self) -> AttemptEnded:
        (end,) = self.ends()
        return end


@pytest.fixture
def brief() -> PhaseScene:
    return PhaseScene(is_brief=True)


@pytest.fixture
def long() -> PhaseScene:
    return PhaseScene(is_brief=False)


def test_a_body_is_told_of_as_it_begins(long: PhaseScene) -> None:
    long.enter_body()

    assert long.heard() == ["validate begins", "validate ends", "body begins"]
    assert long.assignment().phase is Phase.BODY


def test_how_far_spark_is_is_told_and_lines_of_it_are_logged(long: PhaseScene) -> None:
    long.enter_body()
    long.heard()
    stage = SparkStage(name="count", tasks=2, tasks_done=1)
    first, second = SparkProgress(jobs=1, active=(stage,)), SparkProgress(jobs=2)

    long.executor.spark_progressed(first, None)
    long.executor.spark_progressed(second, "Spark: 2 jobs")
    long.step(*(Heard(slot=0, message=one) for one in long.words()))

    attempt = long.assignment().attempt
    assert long.events == [
        SparkProgressed(attempt=attempt, progress=first, line=None),
        SparkProgressed(attempt=attempt, progress=second, line="Spark: 2 jobs"),
    ]
    assert long.log == ["Spark: 2 jobs"]


def test_how_far_a_body_is_is_told_and_logged(long: PhaseScene) -> None:
    long.enter_body()
    long.heard()
    long.executor.progressed("half", 0.5)
    long.step(*(Heard(slot=0, message=one) for one in long.words()))

    attempt = long.assignment().attempt
    assert long.events == [Progressed(attempt=attempt, message="half", fraction=0.5)]
    assert long.log == ["half"]


def test_what_moves_is_counted_in_the_direction_of_its_phase(long: PhaseScene) -> None:
    moved = []
    for phase, objects, size in ((Phase.DOWNLOAD, 2, 10), (Phase.STAGE, 3, 20)):
        long.executor.phase_started(phase)
        long.executor.transferred(objects, size)
        long.executor.phase_ended(phase, 1.0)
    long.executor.send(Decided(outcome=DONE, changes=ChangeCount(written=3, deleted=1)))
    long.step(*(Heard(slot=0, message=one) for one in long.words()))
    moved = [one for one in long.events if isinstance(one, Transferred)]
    assert [(one.direction, one.objects, one.size) for one in moved] == [
        (Direction.DOWN, 2, 10),
        (Direction.UP, 3, 20),
    ]
    long.clean_up()
    tally = long.end().tally
    assert tally.objects == {Direction.DOWN: 2, Direction.UP: 3}
    assert tally.size == {Direction.DOWN: 10, Direction.UP: 20}
    assert tally.changes == ChangeCount(written=3, deleted=1)


def test_a_brief_attempt_is_told_of_when_it_is_over(brief: PhaseScene) -> None:
    brief.enter_body()
    assert brief.heard() == []

    brief.executor.phase_ended(Phase.BODY, 0.001)
    brief.executor.send(*OVER)

    assert brief.heard() == [
        "validate begins",
        "validate ends",
        "body begins",
        "body ends",
        "over: COMPLETED",
    ]


def test_one_that_is_not_brief_after_all_is_seen_where_it_is(brief: PhaseScene) -> None:
    brief.enter_body()

    assert brief.seen() == ["body begins"]
    assert brief.seen() == []
    brief.executor.phase_ended(Phase.BODY, 60.0)
    brief.executor.send(*OVER)
    brief.step(*(Heard(slot=0, message=one) for one in brief.words()))

    assert brief.end().tally.phases == {Phase.VALIDATE: 0.001, Phase.BODY: 60.0}
    assert brief.told() == ["body ends", "over: COMPLETED"]


def test_the_phases_after_one_that_was_seen_are_told(brief: PhaseScene) -> None:
    brief.enter_body()
    brief.seen()
    brief.executor.phase_ended(Phase.BODY, 60.0)
    brief.executor.phase_started(Phase.DIFF)
    assert brief.heard() == ["body ends", "diff begins"]


def test_a_later_phase_is_left_to_the_executor_to_tell(brief: PhaseScene) -> None:
    brief.enter_body()
    brief.seen()

    brief.cell.enter(Phase.PUBLISH)

    assert brief.seen() == []


def test_a_look_from_before_the_next_attempt_says_nothing_of_it(brief: PhaseScene) -> None:
    brief.enter_body()
    brief.executor.phase_started(Phase.CLEANUP)
    words = brief.words()
    before = brief.assignment().execution_id
    brief.says(*words, Decided(outcome=DONE))
    brief.receive(polled("next"))
    brief.told()

    cleaned = Heard(slot=0, message=CleanedUp())
    brief.step(cleaned, Seen(slot=0, execution_id=before, phase=Phase.CLEANUP))

    assert brief.running() == ["next"]
    assert brief.assignment().phase is Phase.VALIDATE
    assert brief.told() == ["over: COMPLETED"]
    brief.enter(Phase.BODY)
    assert brief.assignment().phase is Phase.BODY
    assert brief.told() == ["body begins"]


def test_a_look_at_an_attempt_that_is_over_says_nothing(brief: PhaseScene) -> None:
    execution_id = brief.assignment().execution_id
    brief.says(*OVER)
    brief.told()
    brief.step(Seen(slot=0, execution_id=execution_id, phase=Phase.BODY))
    assert brief.told() == []


def test_where_a_dead_executor_was_is_known_though_it_did_not_say(brief: PhaseScene) -> None:
    brief.enter_body()

    assert brief.last_heard() == ["body begins"]
    brief.answer_count()
    assert brief.end().tally.phase is Phase.BODY
    assert brief.told() == ["over: FAILED"]


def test_where_a_dead_executor_was_is_told_once(long: PhaseScene) -> None:
    long.enter_body()
    assert long.heard()[-1] == "body begins"
    assert long.last_heard() == []


def test_where_a_dead_executor_was_may_not_be_known(long: PhaseScene) -> None:
    long.enter_body()
    long.heard()
    long.die(phase=None)
    assert long.told() == []
    long.answer_count()
    assert long.end().tally.phase is Phase.BODY


DIRECT = (
    Phase.VALIDATE,
    Phase.PREPARE,
    Phase.PRE_CHECK,
    Phase.PREPARE,
    Phase.BODY,
    Phase.DIFF,
    Phase.STAGE,
    Phase.POST_CHECK,
    Phase.PUBLISH,
)
"""The phases of an attempt whose body works on the store itself."""


def test_every_phase_of_a_direct_attempt_is_told_and_timed(long: PhaseScene) -> None:
    for phase in DIRECT:
        long.executor.phase_started(phase)
        long.executor.phase_ended(phase, 2.0)
    long.executor.send(*OVER)
    long.step(*(Heard(slot=0, message=one) for one in long.words()))

    assert long.end().tally.phases == dict.fromkeys(DIRECT, 2.0) | {Phase.PREPARE: 4.0}
    expected = [f"{phase} {word}" for phase in DIRECT for word in ("begins", "ends")]
    assert long.told() == [*expected, "over: COMPLETED"]


def test_a_death_in_the_post_check_of_a_direct_attempt_is_one_in_post_check(
    long: PhaseScene,
) -> None:
    for phase in (Phase.BODY, Phase.DIFF, Phase.STAGE):
        long.executor.phase_started(phase)
        long.executor.phase_ended(phase, 2.0)
    long.executor.phase_started(Phase.POST_CHECK)

    long.last_heard()

    long.answer_count()
    assert long.end().tally.phase is Phase.POST_CHECK


def test_the_end_of_a_phase_that_was_passed_over_is_timed_and_not_told(brief: PhaseScene) -> None:
    """The first phases were held back while a later one was seen already."""
    execution_id = brief.assignment().execution_id
    brief.step(Seen(slot=0, execution_id=execution_id, phase=Phase.STAGE))
    for phase in (Phase.BODY, Phase.STAGE, Phase.POST_CHECK):
        brief.says(PhaseBegan(phase=phase), PhaseOver(phase=phase, seconds=2.0))
    assert brief.told() == [
        "stage begins",
        "stage ends",
        "post-check begins",
        "post-check ends",
    ]
    assert brief.assignment().tally.phases == {
        Phase.BODY: 2.0,
        Phase.STAGE: 2.0,
        Phase.POST_CHECK: 2.0,
    }


def test_an_attempt_that_said_where_it_is_is_not_looked_at(long: PhaseScene) -> None:
    assert not long.assignment().is_heard_of
    long.enter_body()
    long.heard()
    assert long.assignment().is_heard_of
    long.cell.enter(Phase.DIFF)
    assert long.seen() == []


def test_an_end_is_told_with_how_long_it_took(long: PhaseScene) -> None:
    long.executor.send(Decided(outcome=Completed(output={"result": {"n": 1}})), CleanedUp())
    long.step(*(Heard(slot=0, message=one) for one in long.words()), after=2.5)
    assert long.end().seconds == 2.5
    assert long.end().outcome == Completed(output={"result": {"n": 1}})
