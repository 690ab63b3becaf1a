"""An executor's end of its connection: a body that takes it away cannot make it write elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.runtime.executor import EXIT_CODES
from perago.runtime.frames import FrameReader, build_frame
from perago.runtime.messages import (
    BodyProgress,
    CleanedUp,
    FromExecutor,
    PhaseBegan,
    Ready,
    Reported,
    RunAttempt,
    Stop,
    ToExecutor,
    decode_from_executor,
    encode_to_executor,
)
from perago.runtime.supervisor_link import LOST_CONNECTION, SupervisorLink
from tests.unit.runtime.turn_scene import polled

NONCE, NEXT = bytes(range(16)), bytes(reversed(range(16)))
REPORTED = Reported(execution_id=ExecutionId("0" * 32), is_accepted=True)
RUN = RunAttempt(
    polled=polled("a"),
    execution_id=ExecutionId("0" * 32),
    log_path=Path("log"),
    nonce=NEXT,
    is_brief=False,
)


class Scene:
    """The supervisor's end is the test's."""

    def __init__(self) -> None:
        self.ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self.theirs: Connection = theirs
        self.link = SupervisorLink(theirs, NONCE)
        self.reader = FrameReader()

    def heard(self, nonce: bytes = NONCE) -> list[FromExecutor]:
        while self.ours.poll():
            self.reader.feed(os.read(self.ours.fileno(), 1 << 16))
        messages: list[FromExecutor] = []
        while (payload := self.reader.next(nonce)) is not None:
            messages += decode_from_executor(payload)
        return messages

    def say(self, message: ToExecutor, nonce: bytes = NONCE) -> None:
        os.write(self.ours.fileno(), build_frame(nonce, encode_to_executor(message)))


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.ours.close()
    scene.theirs.close()


def test_messages_go_in_one_frame(scene: Scene) -> None:
    scene.link.tell([Ready(), PhaseBegan(phase=Phase.BODY)])
    scene.link.tell([CleanedUp()])
    assert scene.heard() == [Ready(), PhaseBegan(phase=Phase.BODY), CleanedUp()]


def test_messages_that_are_long_go_whole(scene: Scene) -> None:
    long = BodyProgress(message="x" * 2_000_000, fraction=None)
    writer = threading.Thread(target=scene.link.tell, args=([long, CleanedUp()],))
    writer.start()
    heard: list[FromExecutor] = []
    while len(heard) < 2:
        scene.reader.feed(os.read(scene.ours.fileno(), 1 << 16))
        heard += scene.heard()
    writer.join()
    assert heard == [long, CleanedUp()]


def test_what_a_supervisor_says_is_heard_one_by_one(scene: Scene) -> None:
    scene.say(RUN)
    scene.say(REPORTED, NEXT)
    scene.say(Stop(), NEXT)
    assert [scene.link.hear() for _ in range(3)] == [RUN, REPORTED, Stop()]


def test_an_attempt_speaks_with_its_own_nonce(scene: Scene) -> None:
    scene.say(RUN)
    scene.link.hear()
    scene.link.tell([PhaseBegan(phase=Phase.BODY)])
    assert scene.heard(NEXT) == [PhaseBegan(phase=Phase.BODY)]


def test_after_its_last_word_an_attempt_is_silent_until_the_next_one(scene: Scene) -> None:
    scene.link.tell([CleanedUp()], is_last=True)
    scene.link.tell([BodyProgress(message="a thread that was left behind", fraction=None)])
    assert scene.heard() == [CleanedUp()]

    scene.say(REPORTED)
    scene.link.hear()
    scene.link.tell([Ready()])
    assert scene.heard() == []
    scene.say(RUN)
    scene.link.hear()
    scene.link.tell([PhaseBegan(phase=Phase.BODY)])
    assert scene.heard(NEXT) == [PhaseBegan(phase=Phase.BODY)]


def test_what_a_body_forked_does_not_speak_for_its_attempt(scene: Scene) -> None:
    scene.link._process = os.getppid()  # as in a child, which has a copy of everything
    scene.link.tell([BodyProgress(message="from a child", fraction=None)])
    assert scene.heard() == []


def test_a_supervisor_that_is_gone_is_the_end(scene: Scene) -> None:
    scene.ours.close()
    with pytest.raises(EOFError):
        scene.link.hear()


def test_a_supervisor_that_is_gone_before_it_read_all_is_the_end(scene: Scene) -> None:
    scene.link.tell([Ready()])
    scene.ours.close()
    with pytest.raises(EOFError):
        scene.link.hear()


def test_what_became_of_a_report_is_waited_for_so_long(scene: Scene) -> None:
    assert scene.link.hear_report(0.0) is None
    scene.say(REPORTED)
    assert scene.link.hear_report(60.0) == REPORTED


def test_what_is_no_answer_to_a_report_is_none(scene: Scene) -> None:
    scene.say(Stop())
    assert scene.link.hear_report(60.0) is None


# -- what a body does to it

DEEDS = {
    "closed": "os.close(descriptor)",
    "a file": "f = open(path, 'w+b'); os.dup2(f.fileno(), descriptor)",
    "closed and opened": "os.close(descriptor)\nwhile os.open(path, 66) < descriptor: pass",
    "another connection": "a, b = context.Pipe(); os.dup2(b.fileno(), descriptor)",
    "closerange": "os.closerange(3, 64)",
    "nothing": "",
}
WORDS = {
    "tell": "link.tell([Ready()])",
    "hear": "link.hear()",
    "hear_report": "link.hear_report(0.0)",
}
BODIES = [(deed, "tell") for deed in DEEDS] + [
    ("a file", "hear"),
    ("another connection", "hear_report"),
]

EXECUTORS = """
import json, multiprocessing, os, sys
from perago.runtime.messages import Ready
from perago.runtime.supervisor_link import SupervisorLink

codes = []
for number, code in enumerate(json.load(sys.stdin)):
    path = os.path.join(sys.argv[1], str(number))
    if (pid := os.fork()) == 0:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        link, descriptor = SupervisorLink(theirs, bytes(16)), theirs.fileno()
        link.tell([Ready()])
        exec(code)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(json.dumps(codes))
"""


@pytest.fixture(scope="module")
def exit_codes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """How an executor ends for each deed of a body and each word after it; all in one process,
    since each would import Perago. What they wrote into files of the body's is added.
    """
    files = tmp_path_factory.mktemp("of_the_body")
    codes = [f"{DEEDS[deed]}\n{WORDS[word]}" for deed, word in BODIES]
    done = subprocess.run(
        [sys.executable, "-c", EXECUTORS, files],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not any(file.stat().st_size for file in files.iterdir())
    return dict(zip(BODIES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("deed", "word"), [body for body in BODIES if body[0] != "nothing"])
def test_an_executor_without_its_connection_ends_and_writes_nowhere_else(
    deed: str, word: str, exit_codes: dict[tuple[str, str], int]
) -> None:
    assert exit_codes[deed, word] == LOST_CONNECTION


def test_an_executor_whose_connection_is_left_alone_goes_on(
    exit_codes: dict[tuple[str, str], int],
) -> None:
    assert exit_codes["nothing", "tell"] == 0


def test_how_it_ended_is_said_in_words() -> None:
    assert "connection" in EXIT_CODES[LOST_CONNECTION]
