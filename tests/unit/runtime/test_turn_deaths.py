"""Executors that die, are ended, or cannot be started: what is reported, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.errors import EnvironmentUnfitError, NotFoundInOrchestratorError
from perago.domain.events import ExecutorDied
from perago.domain.outcome import Failed, Phase, TerminalFailure
from perago.runtime.actions import Collect, Kill, Retire, Spawn
from perago.runtime.inputs import Broken, QuotaExceeded, SpawnFailed
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import (
    CleanedUp,
    Decided,
    FromExecutor,
    Moved,
    PhaseBegan,
    PhaseOver,
    Ready,
    Unfit,
)
from tests.unit.runtime.turn_scene import (
    BEAT,
    BROKE,
    DONE,
    LEASE,
    MERGE_SECONDS,
    OPTIONS,
    SILENCE,
    TurnScene,
    polled,
)

PUBLISHING = PhaseBegan(phase=Phase.PUBLISH)
ATOMIC = replace(OPTIONS, publish_may_outlive_executor=False)


def staging(options: object = OPTIONS) -> TurnScene:
    """An attempt that stages."""
    assert isinstance(options, type(OPTIONS))
    scene = TurnScene(1, options)
    scene.receive(polled("a"))
    scene.enter(Phase.STAGE)
    scene.told()
    return scene


@pytest.fixture
def soft() -> TurnScene:
    """Its store is a server, which may carry out what was sent last."""
    return staging()


@pytest.fixture
def atomic() -> TurnScene:
    return staging(ATOMIC)


def reported(scene: TurnScene) -> list[object]:
    return [report.outcome for report in scene.reports]


def died_in(phase: Phase, how: str = "killed by SIGKILL", deaths: int = 1) -> Failed:
    reason = f"the executor died in phase {phase}: {how} ({deaths} of 3)"
    return Failed(reason=reason, phase=phase)


# -- deaths


def test_a_death_before_publishing_is_reported_at_once(soft: TurnScene) -> None:
    soft.die()
    attempt = polled("a").attempt
    died = ExecutorDied(attempt=attempt, phase=Phase.STAGE, how="killed by SIGKILL")
    assert died in soft.events
    assert soft.collected == [f"{1:032x}"]
    assert (soft.reports, soft.ends()) == ([], []), "deaths are counted first"

    soft.answer_count()
    assert reported(soft) == [died_in(Phase.STAGE)]
    assert [end.outcome for end in soft.ends()] == [died_in(Phase.STAGE)]
    soft.answer_report()
    assert soft.turn.reports.is_empty


@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_deaths_are_those_that_the_orchestrator_counted_and_this_one(
    soft: TurnScene, before: int
) -> None:
    soft.die()
    soft.answer_count(before)
    (outcome,) = reported(soft)
    if before < 2:
        assert outcome == died_in(Phase.STAGE, deaths=before + 1)
    else:
        assert isinstance(outcome, TerminalFailure)
        assert f"killed {before + 1} executors" in outcome.reason


def test_the_limit_of_deaths_is_a_setting() -> None:
    scene = staging(replace(OPTIONS, death_limit=1))
    scene.die()
    scene.answer_count()
    assert isinstance(reported(scene)[0], TerminalFailure)


def test_a_count_that_is_not_answered_is_asked_for_again(soft: TurnScene) -> None:
    soft.die()
    soft.answer_count(SILENCE)
    assert (soft.reports, soft.ends(), soft.counts) == ([], [], [])
    soft.step(after=0.5)
    soft.answer_count(1)
    assert reported(soft) == [died_in(Phase.STAGE, deaths=2)]


def test_a_count_that_will_never_be_answered_leaves_the_attempt_to_others(soft: TurnScene) -> None:
    soft.die()
    soft.answer_count(NotFoundInOrchestratorError("there is no such workflow"))
    assert soft.turn.reports.is_empty
    assert [end.status for end in soft.ends()] == ["GIVEN_UP"]


def test_a_death_in_a_post_check_that_follows_the_stage_is_reported_as_one(
    soft: TurnScene,
) -> None:
    over = PhaseOver(phase=Phase.STAGE, seconds=1.0)
    soft.die(over, PhaseBegan(phase=Phase.POST_CHECK))
    soft.answer_count()
    assert reported(soft) == [died_in(Phase.POST_CHECK)]


def test_a_death_while_publishing_to_a_server_is_reported_after_the_merge_time_out(
    soft: TurnScene,
) -> None:
    soft.die(PUBLISHING)
    soft.answer_count()
    assert soft.turn.seconds_to_last_report(soft.now) == MERGE_SECONDS
    soft.step(after=MERGE_SECONDS - 1)
    assert reported(soft) == []
    assert soft.turn.next_due(soft.now, 60.0) <= soft.now + 1
    soft.step(after=1)
    assert reported(soft) == [died_in(Phase.PUBLISH)]


def test_the_merge_time_out_runs_from_the_death_not_from_when_it_was_counted(
    soft: TurnScene,
) -> None:
    soft.die(PUBLISHING)
    soft.step(after=MERGE_SECONDS - 1)
    soft.answer_count()
    soft.step(after=1)
    assert reported(soft) == [died_in(Phase.PUBLISH)]


def test_a_task_without_a_merge_time_out_has_the_default_one() -> None:
    scene = TurnScene()
    attempt = polled("a", task="other").attempt
    assert scene.turn.seconds_to_land(polled("a").attempt) == MERGE_SECONDS
    assert scene.turn.seconds_to_land(attempt) == 60.0


def test_a_store_that_dies_with_its_process_is_not_waited_for(atomic: TurnScene) -> None:
    atomic.die(PUBLISHING)
    atomic.answer_count()
    assert reported(atomic) == [died_in(Phase.PUBLISH)]


def test_all_that_a_dead_executor_said_counts_however_much_it_was(soft: TurnScene) -> None:
    chatter: list[FromExecutor] = [Moved(objects=1, size=1)] * 150
    soft.die(*chatter, PUBLISHING)
    soft.answer_count()
    assert reported(soft) == []
    soft.step(after=MERGE_SECONDS)
    assert reported(soft) == [died_in(Phase.PUBLISH)]


def test_where_shared_memory_says_that_it_published_it_did(soft: TurnScene) -> None:
    soft.die(phase=Phase.PUBLISH)
    soft.answer_count()
    assert reported(soft) == []


def test_an_outcome_outlives_its_executor(soft: TurnScene) -> None:
    soft.decide()
    soft.fail_report()
    soft.enter(Phase.CLEANUP)
    soft.die()
    assert [end.outcome for end in soft.ends()] == [DONE]
    soft.pass_time(599.0)
    soft.reports = soft.reports[:1]
    assert reported(soft) == [DONE]
    assert soft.counts == []

    soft.answer_report()
    assert soft.turn.reports.is_empty


def test_a_death_after_the_outcome_was_said_is_no_death_of_the_attempt(soft: TurnScene) -> None:
    soft.die(Decided(outcome=DONE))
    assert (soft.counts, reported(soft)) == ([], [DONE])
    assert [end.outcome for end in soft.ends()] == [DONE]


# -- executors come and go


def test_a_dead_executor_is_replaced_after_a_back_off_that_grows() -> None:
    scene = TurnScene()
    pauses = []
    for _ in range(4):
        scene.die()
        assert [event for event in scene.events if isinstance(event, ExecutorDied)][-1] == (
            ExecutorDied(attempt=None, phase=None, how="killed by SIGKILL")
        )
        pauses.append(scene.turn.slots[0].respawn_at - scene.now)
        scene.step(after=pauses[-1] - 0.01)
        assert not any(isinstance(action, Spawn) for action in scene.actions)
        assert scene.turn.next_due(scene.now, 60.0) == scene.turn.slots[0].respawn_at
        scene.step(after=0.02)
        assert any(isinstance(action, Spawn) for action in scene.actions)
        scene.says(Ready())
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert scene.turn.crash_looping == 1


def test_an_attempt_that_ends_well_ends_a_row_of_deaths() -> None:
    scene = TurnScene()
    for _ in range(3):
        scene.die()
        scene.step(after=10.0)
        scene.says(Ready())
    assert scene.turn.crash_looping == 1
    scene.receive(polled("a"))
    scene.says(Decided(outcome=DONE), CleanedUp())
    assert scene.turn.crash_looping == 0


def test_an_attempt_that_ends_shortens_the_wait_of_slots_whose_attempts_were_deadly() -> None:
    scene = TurnScene(slots=2)
    scene.receive(polled("good"))
    for number in range(6):
        scene.receive(polled(f"deadly-{number}"))
        scene.die(slot=1)
        scene.step(after=4.0)
        scene.says(Ready(), slot=1)
    scene.receive(polled("deadly"))
    scene.die(slot=1)
    assert scene.turn.slots[1].respawn_at == pytest.approx(scene.now + 6.4)
    scene.says(Decided(outcome=DONE), CleanedUp(), slot=0)
    assert scene.turn.slots[1].respawn_at == pytest.approx(scene.now + 0.4)
    scene.receive(polled("another"))
    scene.says(Decided(outcome=DONE), CleanedUp(), slot=0)
    assert scene.turn.crash_looping == 0
    assert scene.turn.slots[1].respawn_at == pytest.approx(scene.now + 0.1)


def test_a_slot_whose_executors_die_by_themselves_goes_on_waiting() -> None:
    scene = TurnScene(slots=2)
    scene.receive(polled("good"))
    for _ in range(6):
        scene.die(slot=1)
        scene.step(after=10.0)
        scene.says(Ready(), slot=1)
    scene.die(slot=1)
    scene.says(Decided(outcome=DONE), CleanedUp(), slot=0)
    assert scene.turn.crash_looping == 1
    assert scene.turn.slots[1].respawn_at > scene.now + 3


def test_two_deaths_are_no_crash_loop() -> None:
    scene = TurnScene()
    for _ in range(2):
        scene.die()
        scene.step(after=10.0)
        scene.says(Ready())
    assert scene.turn.crash_looping == 0


def test_a_refused_process_start_is_a_death_with_back_off() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.answer_report()
    scene.receive(polled("b"))
    scene.die()
    scene.step(after=0.1)
    refused = SpawnFailed(slot=0, reason="Resource temporarily unavailable")
    for pause in (0.2, 0.4, 0.8, 1.6, 3.2):
        before = len(scene.spawned)
        scene.step(refused)
        how = "it could not be started: Resource temporarily unavailable"
        assert scene.events[-1] == ExecutorDied(attempt=None, phase=None, how=how)
        scene.step(after=pause - 0.01)
        assert len(scene.spawned) == before
        scene.step(after=0.02)
        assert len(scene.spawned) == before + 1
    scene.says(Ready())
    scene.receive(polled("c"))
    assert scene.running() == ["c"]


def test_a_refused_process_start_harms_no_other_attempt() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.die(slot=1)
    scene.step(after=0.1)
    for _ in range(6):
        scene.step(SpawnFailed(slot=1, reason="Too many open files"))
        scene.step(after=0.1)
    assert scene.running() == ["a", ""]
    assert scene.killed == []
    assert scene.turn.crash_looping == 1


def test_a_start_that_is_refused_again_and_again_before_anybody_was_ready_is_hopeless() -> None:
    scene = TurnScene(is_ready=False)
    scene.step()
    for _ in range(3):
        scene.step(SpawnFailed(slot=0, reason="Cannot allocate memory"))
        scene.step(after=60.0)
    with pytest.raises(EnvironmentUnfitError, match="Cannot allocate memory") as raised:
        scene.step(SpawnFailed(slot=0, reason="Cannot allocate memory"))
    assert raised.value.hint is not None
    assert raised.value.hint.endswith("executor-0.log")


def test_executors_that_die_while_starting_are_hopeless_after_some_tries() -> None:
    scene = TurnScene(is_ready=False)
    scene.step()
    for _ in range(3):
        scene.die()
        scene.step(after=60.0)
    with pytest.raises(EnvironmentUnfitError, match="die while starting: killed by SIGKILL"):
        scene.die()


def test_executors_that_die_after_one_was_ready_are_not_hopeless() -> None:
    scene = TurnScene(is_ready=False)
    scene.step()
    scene.die(Ready())
    for _ in range(10):
        scene.step(after=60.0)
        scene.die()
    assert len(scene.spawned) == 11


def test_an_executor_that_cannot_be_built_ends_the_worker() -> None:
    scene = TurnScene(is_ready=False)
    scene.step()
    with pytest.raises(EnvironmentUnfitError, match="cannot be built: no Java"):
        scene.says(Unfit(reason="no Java"))


def test_an_executor_that_cannot_be_built_is_heard_though_it_has_ended() -> None:
    scene = TurnScene(is_ready=False)
    scene.step()
    with pytest.raises(EnvironmentUnfitError, match="cannot be built: no Java"):
        scene.die(Unfit(reason="no Java"))


def test_an_executor_that_was_ready_cannot_end_the_worker(soft: TurnScene) -> None:
    soft.says(Unfit(reason="a body said so"))
    assert soft.killed == [0]
    soft.die()
    soft.answer_count()
    (outcome,) = reported(soft)
    assert isinstance(outcome, Failed)
    assert "died in phase stage" in outcome.reason


@pytest.mark.parametrize(
    ("options", "memory", "is_replaced"),
    [
        (replace(OPTIONS, recycle_after_attempts=2), 0, False),
        (replace(OPTIONS, recycle_after_attempts=1), 0, True),
        (replace(OPTIONS, recycle_above_bytes=100), 100, False),
        (replace(OPTIONS, recycle_above_bytes=100), 101, True),
        (OPTIONS, 1 << 40, False),
    ],
)
def test_an_executor_that_did_or_holds_enough_is_replaced(
    options: object, memory: int, is_replaced: bool
) -> None:
    scene = staging(options)
    scene.decide()
    scene.clean_up(memory=memory)
    assert (scene.retired == [0]) is is_replaced
    assert scene.turn.slots[0].is_idle is not is_replaced
    assert (scene.turn.room == 1) is not is_replaced


def test_the_attempts_that_count_for_replacement_are_those_of_this_process() -> None:
    scene = TurnScene(1, replace(OPTIONS, recycle_after_attempts=2))
    for number in range(4):
        scene.receive(polled(f"a{number}"))
        scene.says(Decided(outcome=DONE), CleanedUp())
        scene.answer_report()
        if scene.retired:
            scene.retired.clear()
            scene.die()
            scene.step()
            scene.says(Ready())
            assert number in (1, 3)


def test_a_replaced_executor_did_not_die() -> None:
    scene = staging(replace(OPTIONS, recycle_after_attempts=1))
    scene.decide()
    scene.clean_up()
    assert any(isinstance(action, Retire) for action in scene.actions)
    scene.die(how="exit code 0")
    assert not any(isinstance(event, ExecutorDied) for event in scene.events)
    assert scene.turn.slots[0].deaths_in_a_row == 0
    assert scene.spawned == [0, 0], "at once"
    scene.says(Ready())
    assert scene.turn.slots[0].is_idle


def test_an_executor_that_does_not_end_when_it_is_asked_is_killed() -> None:
    scene = staging(replace(OPTIONS, recycle_after_attempts=1))
    scene.decide()
    scene.clean_up()
    scene.step(after=9.9)
    assert scene.killed == []
    scene.step(after=0.1)
    scene.step(after=1.0)
    assert scene.killed == [0]


def test_words_of_an_executor_that_is_asked_to_end_bring_it_no_work() -> None:
    scene = staging(replace(OPTIONS, recycle_after_attempts=1))
    scene.decide()
    scene.clean_up()
    scene.receive(polled("b"))
    assert scene.handed_back == ["b/1"]


# -- executors that are ended


def test_what_is_no_message_ends_its_executor_and_nobody_else() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"), polled("b"))
    scene.step(Broken(slot=0, reason="its connection carried bytes that are no message"))
    assert scene.killed == [0]
    scene.die()
    scene.answer_count()
    how = "its connection carried bytes that are no message"
    assert reported(scene) == [died_in(Phase.VALIDATE, how)]
    assert scene.running() == ["", "b"]

    scene.step(after=0.1)
    scene.says(Ready())
    scene.die()
    assert [e.how for e in scene.events if isinstance(e, ExecutorDied)][-1] == "killed by SIGKILL"


def test_an_outcome_outlives_the_executor_whose_connection_broke(soft: TurnScene) -> None:
    soft.decide()
    soft.step(Broken(slot=0, reason="its connection was closed"))
    soft.die()
    soft.answer_report()
    assert soft.turn.reports.is_empty
    assert [end.outcome for end in soft.ends()] == [DONE]


def test_an_idle_executor_whose_connection_broke_is_replaced() -> None:
    scene = TurnScene()
    scene.step(Broken(slot=0, reason="its connection was closed"))
    assert scene.killed == [0]
    scene.die()
    how = "its connection was closed"
    assert ExecutorDied(attempt=None, phase=None, how=how) in scene.events


def test_what_is_said_of_a_process_that_was_never_started_ends_nothing() -> None:
    scene = TurnScene(is_ready=False)
    scene.step(Broken(slot=0, reason="its connection was closed"))
    assert (scene.killed, scene.spawned) == ([], [0])


def test_an_attempt_that_takes_too_much_is_failed_by_name(soft: TurnScene) -> None:
    soft.exceed("the attempt runs 99 processes, and 9 are allowed")
    assert soft.killed == [0]
    assert soft.cells[0] == (LEASE_LOST, 1), "it publishes nothing from now on"
    assert reported(soft) == []
    soft.die()
    failed = Failed(reason="the attempt runs 99 processes, and 9 are allowed", phase=Phase.STAGE)
    assert (soft.counts, reported(soft)) == ([], [failed])
    assert [end.outcome for end in soft.ends()] == [failed]


def test_the_first_reason_to_end_an_attempt_stays(soft: TurnScene) -> None:
    soft.exceed("its log has too many bytes")
    soft.exceed("it runs too many processes")
    assert soft.killed == [0]
    soft.die()
    assert [getattr(outcome, "reason", "") for outcome in reported(soft)] == [
        "its log has too many bytes"
    ]


def test_what_another_attempt_took_too_much_of_is_not_this_ones_fault(soft: TurnScene) -> None:
    before = soft.assignment().execution_id
    soft.decide()
    soft.clean_up()
    soft.step(QuotaExceeded(slot=0, execution_id=before, reason="too much"))
    soft.receive(polled("b"))
    soft.step(QuotaExceeded(slot=0, execution_id=before, reason="too much"))
    assert soft.killed == []


def test_an_attempt_that_failed_while_it_was_ended_says_why_it_was(soft: TurnScene) -> None:
    soft.exceed("its log has too many bytes")
    soft.decide(Failed(reason="its lease was lost", phase=Phase.PUBLISH))
    assert reported(soft) == [Failed(reason="its log has too many bytes", phase=Phase.STAGE)]


def test_an_attempt_that_was_complete_when_it_was_ended_is_complete(soft: TurnScene) -> None:
    soft.exceed("its log has too many bytes")
    soft.decide(DONE)
    assert reported(soft) == [DONE]


def test_an_outcome_outlives_a_quota(soft: TurnScene) -> None:
    soft.decide()
    cell = soft.cells[0]
    soft.exceed("it runs too many processes")
    assert soft.killed == [0], "what it left running is ended"
    assert (soft.cells[0], soft.assignment().failure) == (cell, None)
    soft.die()
    assert [end.outcome for end in soft.ends()] == [DONE]
    assert len(soft.reports) == 1


def test_an_attempt_that_takes_too_much_while_publishing_is_failed_when_nothing_can_land(
    soft: TurnScene,
) -> None:
    soft.enter(Phase.PUBLISH)
    soft.exceed("it runs too many processes")
    soft.die()
    soft.step(after=MERGE_SECONDS - 1)
    assert reported(soft) == []
    soft.step(after=1)
    assert reported(soft) == [Failed(reason="it runs too many processes", phase=Phase.PUBLISH)]


def test_an_attempt_that_was_ended_has_its_lease_kept_by_nobody(soft: TurnScene) -> None:
    soft.exceed("it runs too many processes")
    soft.step(after=BEAT)
    assert soft.beats == []
    assert soft.turn.next_due(soft.now, 0.25) == soft.now + 0.25, "the loop may rest"


# -- what an earlier worker held


@pytest.mark.parametrize("outlives", [True, False])
def test_what_an_earlier_worker_held_is_failed_when_its_call_can_no_longer_land(
    outlives: bool,
) -> None:
    scene = TurnScene(1, OPTIONS if outlives else ATOMIC)
    scene.turn.fail_for_dead_worker(polled("a").attempt, scene.now)
    assert scene.turn.seconds_to_last_report(scene.now) == (MERGE_SECONDS if outlives else 0)

    scene.step()
    assert (reported(scene) == []) is outlives
    scene.step(after=MERGE_SECONDS)
    failed = Failed(reason="the worker that held it died", phase=Phase.BODY)
    assert reported(scene) == [failed]
    assert not scene.is_finished()
    scene.answer_report()
    assert scene.turn.seconds_to_last_report(scene.now) == 0
    assert scene.ends() == [], "nobody saw it begin"


def test_the_last_report_is_waited_for_as_long_as_it_takes() -> None:
    scene = TurnScene()
    scene.turn.fail_for_dead_worker(polled("a").attempt, scene.now)
    scene.step(after=40.0)
    assert scene.turn.seconds_to_last_report(scene.now) == MERGE_SECONDS - 40.0
    assert scene.turn.seconds_to_last_report(scene.now) == MERGE_SECONDS - 40.0


# -- the end of the worker


def test_a_stop_takes_what_the_executor_said_last_into_account(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    soft.step(after=30.0)
    assert soft.killed == [0]
    soft.die(PUBLISHING)
    assert (reported(soft), soft.counts) == ([], [])
    assert [end.outcome for end in soft.ends()] == [None], "only the lease can tell"
    assert soft.is_finished() or soft.polls


def test_a_stop_does_not_fail_what_had_ended(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    soft.step(after=30.0)
    soft.die(Decided(outcome=DONE))
    soft.answer_beat()
    assert reported(soft) == [DONE]


def test_a_stop_fails_what_it_ends_and_says_so(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    soft.step(after=29.9)
    assert (soft.killed, soft.spawned) == ([], [0])
    soft.step(after=0.1)
    assert soft.killed == [0]
    soft.die()
    soft.answer_beat()
    assert reported(soft) == [Failed(reason="the worker was stopped", phase=Phase.STAGE)]
    soft.step(after=0.5)
    assert soft.spawned == [0], "nobody is started any more"
    assert not soft.is_finished()
    soft.answer_polls()
    soft.answer_report()
    assert soft.is_finished()


def test_a_store_that_is_atomic_leaves_nothing_to_the_lease_when_a_worker_stops(
    atomic: TurnScene,
) -> None:
    atomic.enter(Phase.PUBLISH)
    atomic.turn.request_stop(atomic.now)
    atomic.step(after=30.0)
    atomic.die()
    atomic.answer_beat()
    assert reported(atomic) == [Failed(reason="the worker was stopped", phase=Phase.PUBLISH)]


def test_a_death_while_publishing_is_not_waited_for_by_a_worker_that_stops(
    soft: TurnScene,
) -> None:
    soft.die(PUBLISHING)
    soft.answer_count()
    soft.turn.request_stop(soft.now)
    soft.step(after=30.0)
    assert soft.is_finished()
    assert reported(soft) == []


def test_what_is_tried_again_is_tried_again_at_the_end_of_a_drain(soft: TurnScene) -> None:
    soft.decide()
    soft.clean_up()
    soft.turn.request_stop(soft.now)
    soft.step(after=29.9)
    soft.fail_report()
    soft.step(after=0.5)
    assert reported(soft) == [DONE]


def test_a_stop_does_not_wait_for_what_is_left_to_the_lease() -> None:
    scene = TurnScene()
    scene.turn.fail_for_dead_worker(polled("a").attempt, scene.now)
    scene.step()
    scene.answer_polls()
    scene.turn.request_stop(scene.now)
    assert not scene.is_finished(), "it may still be reported while the worker drains"
    scene.step(after=30.0)
    assert scene.is_finished()
    assert reported(scene) == []


def test_a_second_request_to_stop_ends_the_drain(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    soft.step(after=1.0)
    assert soft.killed == []
    soft.turn.request_stop(soft.now)
    soft.step()
    assert soft.killed == [0]


def test_two_requests_to_stop_at_once_leave_nothing_waiting(soft: TurnScene) -> None:
    soft.decide()
    soft.receive(polled("b"))
    soft.turn.request_stop(soft.now)
    soft.turn.request_stop(soft.now)
    soft.step()
    assert soft.handed_back == ["b/1"]
    assert soft.turn.room == 0
    soft.receive(polled("c"))
    assert soft.handed_back == ["b/1", "c/1"]


def test_a_late_second_request_to_stop_does_not_prolong_the_drain(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    deadline = soft.turn.stop_deadline
    soft.step(after=40.0)
    soft.turn.request_stop(soft.now)
    assert soft.turn.stop_deadline == deadline


def test_a_drain_lets_what_runs_end_well(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    for _ in range(4):
        soft.step(after=BEAT)
        soft.answer_beat()
    assert not soft.is_finished()
    soft.says(Decided(outcome=DONE), CleanedUp())
    soft.answer_polls()
    assert not soft.is_finished()
    soft.answer_report()
    assert soft.is_finished()


def test_an_orchestrator_that_hears_nothing_at_all_does_not_keep_a_worker(
    soft: TurnScene, caplog: pytest.LogCaptureFixture
) -> None:
    soft.decide()
    soft.clean_up()
    soft.turn.request_stop(soft.now)
    soft.step(after=34.9)
    assert not soft.is_finished()
    soft.step(after=0.1)
    assert soft.is_finished()
    assert "does not answer" in caplog.text


def test_a_worker_ends_when_its_caller_is_done_and_its_polls_are_answered() -> None:
    scene = TurnScene()
    assert not scene.is_finished(is_done=False)
    assert not scene.is_finished(is_done=True), "a poll is open"
    scene.receive(polled("a"))
    assert scene.handed_back == ["a/1"]
    assert not scene.is_finished(is_done=True), "nobody knows yet that it was handed back"
    scene.answer_hand_backs()
    assert scene.is_finished(is_done=True)


def test_a_worker_that_is_done_carries_out_what_it_decided_last() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.answer_report()
    scene.says(CleanedUp())
    scene.decide(BROKE)
    scene.answer_report()
    scene.receive(polled("c"))
    scene.clean_up()
    scene.decide()
    scene.answer_report()
    scene.clean_up()
    assert scene.runs == ["a", "b", "c"]
    scene.answer_polls()
    assert not scene.is_finished(is_done=False)
    scene.answer_polls()
    scene.turn.request_stop(scene.now)
    assert scene.is_finished()


def test_a_worker_with_an_attempt_is_neither_finished_nor_out_of_work(soft: TurnScene) -> None:
    assert soft.turn.is_busy
    assert not soft.is_finished(is_done=True)
    assert not soft.turn.is_out_of_work


def test_a_worker_whose_other_slots_found_nothing_is_not_out_of_work() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.answer_polls()
    assert scene.turn.polls.found_nothing
    assert not scene.turn.is_out_of_work


def test_a_worker_has_not_had_enough_before_it_took_all() -> None:
    scene = TurnScene(1, replace(OPTIONS, max_attempts=2))
    scene.receive(polled("a"))
    scene.says(Decided(outcome=DONE), CleanedUp())
    scene.answer_report()
    scene.answer_polls()
    assert not scene.is_finished()
    assert scene.turn.room == 1


def test_a_worker_is_out_of_work_when_it_looked_and_found_nothing() -> None:
    scene = TurnScene()
    assert not scene.turn.is_out_of_work
    scene.answer_polls()
    assert scene.turn.is_out_of_work


# -- when the loop turns


def test_the_loop_turns_when_something_is_due() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    turn = scene.turn
    assert turn.next_due(scene.now, 60.0) == scene.now + BEAT
    assert turn.next_due(scene.now, 0.25) == scene.now + 0.25
    turn.request_stop(scene.now)
    scene.step(after=29.0)
    assert turn.next_due(scene.now, 60.0) == scene.now + 1.0


def test_an_idle_worker_that_drains_waits_for_nothing_of_its_own() -> None:
    scene = TurnScene()
    scene.turn.request_stop(scene.now)
    scene.step()
    assert scene.turn.next_due(scene.now, 60.0) == scene.now + 60.0


def test_the_loop_rests_while_a_killed_executor_takes_its_time_to_die(soft: TurnScene) -> None:
    soft.turn.request_stop(soft.now)
    soft.step(after=31.0)
    assert soft.killed == [0]
    assert soft.turn.next_due(soft.now, 0.25) == soft.now + 0.25


def test_the_loop_rests_while_all_polls_are_open() -> None:
    scene = TurnScene()
    assert scene.polls
    assert scene.turn.next_due(scene.now, 60.0) == scene.now + 60.0
    scene.answer_polls()
    assert scene.polls == []
    assert scene.turn.next_due(scene.now, 60.0) == pytest.approx(scene.now + 0.02)


def test_an_executor_that_drains_is_not_started_again() -> None:
    scene = TurnScene(2)
    scene.turn.request_stop(scene.now)
    scene.die(slot=1)
    scene.step(after=0.2)
    assert scene.spawned == [0, 1]
    assert scene.turn.next_due(scene.now, 60.0) == scene.now + 60.0


def test_a_kill_is_asked_for_once(soft: TurnScene) -> None:
    soft.pass_time(LEASE + 10.0)
    assert soft.killed == [0]
    soft.step(Broken(slot=0, reason="its connection was closed"))
    soft.exceed("it runs too many processes")
    assert soft.killed == [0]
    assert not any(isinstance(action, Kill) for action in soft.actions)


def test_the_directory_of_a_dead_attempt_is_removed_before_it_is_reported(
    soft: TurnScene,
) -> None:
    soft.exceed("it runs too many processes")
    soft.die()
    kinds = [type(action).__name__ for action in soft.actions]
    assert kinds.index("Collect") < kinds.index("SendReport")
    (collect,) = (action for action in soft.actions if isinstance(action, Collect))
    assert collect.assignment.execution_id == f"{1:032x}"
