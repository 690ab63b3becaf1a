"""An executor as its supervisor holds it: nothing that it does or leaves undone is waited for."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.runtime.executor_process import CLOSED, ExecutorProcess, describe_exit
from perago.runtime.frames import BadFrameError, build_frame
from perago.runtime.messages import (
    CleanedUp,
    Moved,
    PhaseBegan,
    Ready,
    Reported,
    RunAttempt,
    Stop,
    encode_from_executor,
)
from perago.runtime.quotas import count_processes_by_group
from perago.runtime.supervisor_link import LOST_CONNECTION
from tests.unit.runtime.played_executors import PlayedExecutors
from tests.unit.runtime.turn_scene import polled

REPORTED = Reported(execution_id=ExecutionId("0" * 32), is_accepted=True)
FIRST, SECOND = bytes(16), bytes(range(16))


def a_run(nonce: bytes = FIRST, text: str = "") -> RunAttempt:
    return RunAttempt(
        polled=polled("a", task_input={"params": {"text": text}}),
        execution_id=ExecutionId("0" * 32),
        log_path=Path("log"),
        nonce=nonce,
        is_brief=False,
    )


@pytest.fixture
def executors() -> PlayedExecutors:
    return PlayedExecutors()


@pytest.fixture
def process(executors: PlayedExecutors) -> Iterator[ExecutorProcess]:
    process = executors.start()
    yield process
    if not process._connection.closed:
        process.kill()
        process.bury()


# -- what is said


def test_what_an_executor_says_is_read_as_far_as_it_is_there(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    assert process.read().messages == []
    executors.last.say(Ready())
    executors.last.say(PhaseBegan(phase=Phase.BODY), Moved(objects=1, size=1))
    said = process.read()
    assert said.messages == [Ready(), PhaseBegan(phase=Phase.BODY), Moved(objects=1, size=1)]
    assert said.broken is None
    assert process.is_listening


def test_half_a_message_is_not_waited_for(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    frame = build_frame(executors.last.link._nonce, encode_from_executor([Ready()]))
    executors.last.write(frame[:30])
    assert (process.read().messages, process.read().broken) == ([], None)
    executors.last.write(frame[30:])
    assert process.read().messages == [Ready()]


def test_a_flood_is_taken_as_far_as_it_is_there(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    many = [Moved(objects=1, size=1)] * 100
    frame = build_frame(executors.last.link._nonce, encode_from_executor(many))
    os.set_blocking(executors.last.connection.fileno(), False)
    written = 0
    with suppress(BlockingIOError):
        while True:
            rest = frame[written % len(frame) :]
            written += os.write(executors.last.connection.fileno(), rest)
    heard = 0
    while messages := process.read().messages:
        heard += len(messages)
    assert heard == 100 * (written // len(frame)) > 0
    assert process.is_listening


def test_a_turn_reads_a_megabyte_at_most(process: ExecutorProcess) -> None:
    process._reader = counting = _Counting()  # type: ignore[assignment]
    connection = process.pipe
    with Path("/dev/zero").open("rb") as endless:
        process.pipe = endless.fileno()
        assert process.read().broken is None
        process.pipe = connection
    assert counting.bytes == 1 << 20


def test_of_what_a_dead_executor_had_said_so_much_is_read_at_most(
    process: ExecutorProcess,
) -> None:
    process._reader = counting = _Counting()  # type: ignore[assignment]
    connection = process.pipe
    with Path("/dev/zero").open("rb") as endless:
        process.pipe = endless.fileno()
        assert process.read_last() == []
        process.pipe = connection
    assert counting.bytes == 64 << 20


class _Counting:
    """A reader that counts, and never has a whole frame."""

    def __init__(self) -> None:
        self.bytes = 0

    def feed(self, data: bytes) -> None:
        self.bytes += len(data)

    def next(self, nonce: bytes) -> None:
        return None


@pytest.mark.parametrize(
    "junk",
    [
        b"Traceback (most recent call last)",
        b"\x80\x04\x95",
        b"\0\0\0\0\xff",
        build_frame(SECOND, encode_from_executor([CleanedUp()])),
    ],
)
def test_what_is_no_message_breaks_the_connection_and_what_came_before_counts(
    executors: PlayedExecutors, process: ExecutorProcess, junk: bytes
) -> None:
    executors.last.say(Ready())
    executors.last.write(junk)
    said = process.read()
    assert said.messages == [Ready()]
    assert said.broken == "its connection carried bytes that are no message of its executor"
    assert not process.is_listening

    executors.last.say(Ready())
    assert (process.read().messages, process.read().broken) == ([], None)
    assert process.read_last() == [], "nothing is believed any more"


def test_what_was_announced_as_too_long_breaks_the_connection(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    frame = build_frame(executors.last.link._nonce, b"")
    executors.last.write(frame[:-4] + b"\xff\xff\xff\xff")
    broken = process.read().broken
    assert broken == "its connection carried a message of 4294967295 bytes was announced"


def test_messages_that_cannot_be_read_break_the_connection(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    executors.last.write(build_frame(executors.last.link._nonce, b"[[]]"))
    assert process.read().broken == "its connection carried a message of no known kind"


def test_a_closed_connection_is_told_once(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    executors.last.say(Ready())
    executors.last.close()
    said = process.read()
    assert (said.messages, said.broken) == ([Ready()], CLOSED)
    assert process.read().broken is None
    assert not process.is_listening
    process.send(Stop())
    assert not process.has_unsent, "nobody is there to take it"


def test_the_end_of_what_was_said_is_seen_in_the_same_look() -> None:
    executors = PlayedExecutors()
    process = executors.start()
    executors.last.say(Ready())
    executors.last.die()
    executors.last.close()
    assert process.read_last() == [Ready()]
    process.bury()


def test_all_that_a_dead_executor_had_said_is_read_however_much_it_was(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    nonce = executors.last.link._nonce
    chatter = [Moved(objects=1, size=1)] * 150
    executors.last.say(*chatter)
    executors.last.write(build_frame(nonce, encode_from_executor([Ready()]))[:-1])
    executors.last.die()
    assert process.read_last() == chatter, "half a message is none"


def test_a_connection_that_was_reset_is_closed(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    process.send(Stop())
    executors.last.close()  # with something unread in it
    assert process.read().broken == CLOSED


# -- what is told


def test_what_an_executor_is_told_it_hears_in_order(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    process.send(a_run())
    process.send(REPORTED)
    process.send(Stop())
    assert not process.has_unsent
    assert [executors.last.hear() for _ in range(3)] == [a_run(), REPORTED, Stop()]


def test_an_executor_that_does_not_read_is_not_waited_for(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    run = a_run(text="x" * 3_000_000)
    process.send(run)
    process.send(REPORTED)
    process.flush()
    assert process.has_unsent

    reader = select.poll()
    reader.register(executors.last.connection.fileno(), select.POLLIN)
    received = bytearray()
    while reader.poll(0):
        received += os.read(executors.last.connection.fileno(), 1 << 20)
        process.flush()
    executors.last.link._reader.feed(bytes(received))
    assert [executors.last.hear(), executors.last.hear()] == [run, REPORTED]
    assert bytes(process._unsent) == b""


def test_an_executor_that_is_gone_is_told_nothing(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    executors.last.die()
    executors.last.close()
    process.send(Stop())
    assert process.is_dead


def test_from_an_attempt_on_its_messages_carry_its_own_nonce(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    before = executors.last.link._nonce
    process.send(a_run(SECOND))
    executors.last.hear()
    executors.last.say(PhaseBegan(phase=Phase.BODY))
    assert process.read().messages == [PhaseBegan(phase=Phase.BODY)]
    executors.last.write(build_frame(before, encode_from_executor([CleanedUp()])))
    assert process.read().broken is not None


def test_nonces_differ_from_executor_to_executor(executors: PlayedExecutors) -> None:
    processes = [executors.start(number) for number in range(2)]
    first, second = (played.link._nonce for played in executors.started)
    assert first != second
    assert len(first) == 16
    for process in processes:
        process.kill()
        process.bury()


def test_an_input_that_is_too_long_is_refused_and_nothing_of_it_is_sent(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    with pytest.raises(BadFrameError, match="is too long"):
        process.send(a_run(SECOND, text="x" * (17 << 20)))
    process.send(Stop())
    assert executors.last.hear() == Stop()


# -- the process


def test_an_executor_begins_without_a_lease_and_its_phase_is_seen(
    process: ExecutorProcess,
) -> None:
    assert process.cell.deadline == -1.0
    process.cell.enter(Phase.STAGE)
    assert process.phase is Phase.STAGE
    process.cell.phase_number = 99
    assert process.phase is None


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM])
def test_a_start_that_is_refused_says_so_and_leaves_nothing_open(
    executors: PlayedExecutors, number: int
) -> None:
    executors.error = OSError(number, os.strerror(number))
    with pytest.raises(OSError, match=os.strerror(number)):
        executors.start()
    assert executors.pipe is not None
    assert [end.closed for end in executors.pipe] == [True, True]


def test_an_executor_is_killed_with_all_that_it_started(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    child = subprocess.Popen(["/bin/sleep", "600"], process_group=process.pid)
    assert not process.is_dead
    process.kill()
    child.wait()
    assert child.returncode == -signal.SIGKILL
    process._process.join()
    assert process.is_dead


def test_an_executor_without_a_group_of_its_own_is_killed_too(executors: PlayedExecutors) -> None:
    executors.lead_groups = False
    process = executors.start()
    process.kill()
    process._process.join()
    assert process.bury() == "killed by SIGKILL"


def test_what_a_dead_executor_left_running_is_ended_when_it_is_buried(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    child = subprocess.Popen(["/bin/sleep", "600"], process_group=process.pid)
    executors.last.die()
    assert process.is_dead
    assert process.bury() == "killed by SIGKILL"
    child.wait()
    assert child.returncode == -signal.SIGKILL
    assert not process.is_listening
    assert executors.last.process is not None
    assert executors.last.process.is_closed


def test_an_executor_that_does_not_end_by_itself_is_ended(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    pid, played = process.pid, executors.last.process
    process.end(-1.0)
    assert pid not in count_processes_by_group()
    assert played is not None
    assert played.joined == [0.0, None]


def test_what_an_executor_holds_in_memory_is_told(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    assert process.memory_bytes > 0


def test_an_executor_that_is_gone_holds_nothing(
    executors: PlayedExecutors, process: ExecutorProcess
) -> None:
    executors.last.die()
    assert process.memory_bytes == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (70, "exit code 70"),
        (LOST_CONNECTION, "its body closed the executor's connection to the supervisor"),
        (-9, "killed by SIGKILL"),
        (-11, "killed by SIGSEGV"),
        (-40, "killed by signal 40"),
    ],
)
def test_how_an_executor_ended_is_said_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
