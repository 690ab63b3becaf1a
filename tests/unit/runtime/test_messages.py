"""Messages: the same after the journey, and refused where no executor would say such a thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Completed, Failed, JsonValue, Phase, TerminalFailure
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.runtime.frames import BadFrameError
from perago.runtime.messages import (
    BodyProgress,
    CleanedUp,
    Decided,
    FromAttempt,
    FromExecutor,
    Moved,
    PhaseBegan,
    PhaseOver,
    Ready,
    Reported,
    RunAttempt,
    SparkIsAt,
    Stop,
    ToExecutor,
    Unfit,
    decode_from_executor,
    decode_from_supervisor,
    encode_from_executor,
    encode_to_executor,
)
from tests.unit.runtime.turn_scene import polled

MOST = (1 << 62) - 1

FROM_EXECUTOR: list[FromExecutor] = [
    Ready(),
    Unfit(reason="no Java"),
    *(PhaseBegan(phase=phase) for phase in Phase),
    PhaseOver(phase=Phase.POST_CHECK, seconds=1.5),
    PhaseOver(phase=Phase.BODY, seconds=0.0),
    Moved(objects=0, size=0),
    Moved(objects=3, size=MOST),
    BodyProgress(message="half, or “½”", fraction=0.5),
    BodyProgress(message="a name that is no UTF-8: \udcff", fraction=-1.0),
    BodyProgress(message="", fraction=None),
    SparkIsAt(progress=SparkProgress(jobs=1), line=None),
    SparkIsAt(
        progress=SparkProgress(
            jobs=1,
            stages=5,
            stages_done=2,
            tasks_done=3,
            tasks_failed=4,
            active=(
                SparkStage(name="count", tasks=9, tasks_done=1),
                SparkStage(name="", tasks=0, tasks_done=0),
            ),
        ),
        line="Spark: 1 job",
    ),
    Decided(outcome=Completed(output={"result": {"a": [1, None, {"b": 1.5}]}})),
    Decided(
        outcome=Completed(output={}),
        changes=ChangeCount(written=2, deleted=7),
    ),
    Decided(outcome=Failed(reason="it broke", phase=Phase.BODY)),
    Decided(outcome=TerminalFailure(reason="never", phase=Phase.PRE_CHECK)),
    CleanedUp(),
]

NOT_MESSAGES: list[JsonValue] = [
    None,
    7,
    "ready",
    {},
    [],
    [[]],
    ["unknown"],
    ["ready", 1],
    ["unfit"],
    ["unfit", 7],
    ["began", "lunch"],
    ["began", 7],
    ["over", "body"],
    ["over", "body", "1"],
    ["over", "body", -1.0],
    ["over", "body", 1e300],
    ["over", "body", 1 << 62],
    ["over", "body", True],
    ["moved", 1],
    ["moved", 1, 1.5],
    ["moved", -1, 1],
    ["moved", 1, -1],
    ["moved", 1 << 62, 1],
    ["moved", 1, 1 << 62],
    ["moved", True, 1],
    ["progress", "half"],
    ["progress", 7, None],
    ["progress", "half", "0.5"],
    ["progress", "half", True],
    ["progress", "half", False],
    ["progress", "half", 10**400],
    ["spark", [1, 1, 1, 1, 1], None],
    ["spark", [1, 1, 1, 1, 1, 1], None],
    ["spark", [-1, 1, 1, 1, 1, []], None],
    ["spark", [1, -1, 1, 1, 1, []], None],
    ["spark", [1, 1, -1, 1, 1, []], None],
    ["spark", [1, 1, 1, -1, 1, []], None],
    ["spark", [1, 1, 1, 1, -1, []], None],
    ["spark", [1, 1, 1, 1, 1, [["count", 1]]], None],
    ["spark", [1, 1, 1, 1, 1, [["count", -1, 1]]], None],
    ["spark", [1, 1, 1, 1, 1, [["count", 1, -1]]], None],
    ["spark", [1, 1, 1, 1, 1, []], 7],
    ["decided", ["COMPLETED", {}]],
    ["decided", ["COMPLETED", []], None],
    ["decided", ["COMPLETED"], None],
    ["decided", ["CANCELED", "reason", "body"], None],
    ["decided", ["FAILED", "reason"], None],
    ["decided", ["FAILED", "reason", "lunch"], None],
    ["decided", ["FAILED", 7, "body"], None],
    ["decided", ["FAILED_WITH_TERMINAL_ERROR", "reason", "lunch"], None],
    ["decided", ["COMPLETED", {}], [1]],
    ["decided", ["COMPLETED", {}], [-1, 1]],
    ["decided", ["COMPLETED", {}], [1, -1]],
    ["cleaned", 1],
]

DEEP = 100_000


@pytest.mark.parametrize("message", FROM_EXECUTOR, ids=repr)
def test_what_an_executor_says_is_what_is_heard(message: FromExecutor) -> None:
    assert decode_from_executor(encode_from_executor([message])) == [message]


def test_every_kind_of_message_is_among_those() -> None:
    kinds = {*get_args(FromExecutor), *get_args(FromAttempt)}
    assert {type(message) for message in FROM_EXECUTOR} == kinds


def test_messages_keep_their_order() -> None:
    assert decode_from_executor(encode_from_executor(FROM_EXECUTOR)) == FROM_EXECUTOR
    assert decode_from_executor(encode_from_executor([])) == []


@pytest.mark.parametrize("found", NOT_MESSAGES, ids=lambda found: str(found)[:60])
def test_what_no_executor_says_is_refused(found: JsonValue) -> None:
    with pytest.raises(BadFrameError):
        decode_from_executor(json.dumps([["ready"], found]).encode())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"null",
        b'"ready"',
        b"[",
        b"\xff\xfe\xff",
        b"\x80\x04N.",
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'[["decided",["COMPLETED",' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"],null]]",
        b'[["moved",1,' + b"9" * 10_000 + b"]]",
        b'[["over","body",' + b"9" * 400 + b"]]",
        b'[["over","body",NaN]]',
        b'[["over","body",1e999]]',
        b'[["progress","half",NaN]]',
        b'[["progress","half",Infinity]]',
        b'[["progress","half",1e999]]',
        b'[["decided",["COMPLETED",{"result":NaN}],null]]',
        b'[["decided",["COMPLETED",{"result":[-Infinity]}],null]]',
    ],
    ids=lambda payload: repr(payload[:40]),
)
def test_a_payload_that_is_no_list_of_messages_is_refused(payload: bytes) -> None:
    with pytest.raises(BadFrameError):
        decode_from_executor(payload)


def test_a_number_without_a_point_is_a_duration_too() -> None:
    assert decode_from_executor(b'[["over","body",2]]') == [
        PhaseOver(phase=Phase.BODY, seconds=2.0)
    ]
    assert decode_from_executor(b'[["progress","half",1]]') == [
        BodyProgress(message="half", fraction=1.0)
    ]


def test_nothing_that_a_server_could_not_read_is_sent() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_from_executor([Decided(outcome=Completed(output={"result": float("nan")}))])


def test_what_a_supervisor_says_is_what_is_heard() -> None:
    run = RunAttempt(
        polled=polled("a", task_input={"params": {"a": [1]}}),
        execution_id=ExecutionId("0" * 32),
        log_path=Path("log"),
        nonce=bytes(16),
        is_brief=True,
    )
    messages: list[ToExecutor] = [
        run,
        Reported(execution_id=ExecutionId("0" * 32), is_accepted=True),
        Stop(),
    ]
    heard = [decode_from_supervisor(encode_to_executor(message)) for message in messages]
    assert heard == messages


def test_an_input_that_is_nested_too_deeply_is_refused_by_name() -> None:
    nested: JsonValue = 1
    for _ in range(DEEP):
        nested = [nested]
    run = RunAttempt(
        polled=polled("a", task_input={"params": nested}),
        execution_id=ExecutionId("0" * 32),
        log_path=Path("log"),
        nonce=bytes(16),
        is_brief=False,
    )
    with pytest.raises(BadFrameError, match="nested too deeply"):
        encode_to_executor(run)
