"""Whatever comes out of a process that runs a body, the reader gives messages or refuses it."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perago.domain.changes import ChangeCount
from perago.domain.outcome import Completed, Failed, Phase, TerminalFailure
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.runtime.frames import NONCE_BYTES, BadFrameError, FrameReader, build_frame
from perago.runtime.messages import (
    BodyProgress,
    CleanedUp,
    Decided,
    FromExecutor,
    Moved,
    PhaseBegan,
    PhaseOver,
    Ready,
    SparkIsAt,
    Unfit,
    decode_from_executor,
    encode_from_executor,
)

NONCE = bytes(range(NONCE_BYTES))
PHASES = st.sampled_from(Phase)
COUNTS = st.integers(0, (1 << 62) - 1)
TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OUTCOMES = (
    st.builds(Completed, output=st.dictionaries(TEXTS, JSON, max_size=3))
    | st.builds(Failed, reason=TEXTS, phase=PHASES)
    | st.builds(TerminalFailure, reason=TEXTS, phase=PHASES)
)
STAGES = st.builds(SparkStage, name=TEXTS, tasks=COUNTS, tasks_done=COUNTS)
MESSAGES: st.SearchStrategy[FromExecutor] = st.one_of(
    st.just(Ready()),
    st.builds(Unfit, reason=TEXTS),
    st.builds(PhaseBegan, phase=PHASES),
    st.builds(PhaseOver, phase=PHASES, seconds=st.floats(0, 1e15)),
    st.builds(Moved, objects=COUNTS, size=COUNTS),
    st.builds(BodyProgress, message=TEXTS, fraction=st.none() | NUMBERS),
    st.builds(
        SparkIsAt,
        progress=st.builds(
            SparkProgress,
            jobs=COUNTS,
            stages=COUNTS,
            stages_done=COUNTS,
            tasks_done=COUNTS,
            tasks_failed=COUNTS,
            active=st.lists(STAGES, max_size=3).map(tuple),
        ),
        line=st.none() | TEXTS,
    ),
    st.builds(
        Decided,
        outcome=OUTCOMES,
        changes=st.none() | st.builds(ChangeCount, written=COUNTS, deleted=COUNTS),
    ),
    st.just(CleanedUp()),
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def hear(pieces: list[bytes]) -> list[FromExecutor]:
    """What is heard of pieces, each as it comes; `BadFrameError` ends it."""
    reader, messages = FrameReader(), list[FromExecutor]()
    for piece in pieces:
        reader.feed(piece)
        while (payload := reader.next(NONCE)) is not None:
            messages += decode_from_executor(payload)
    return messages


@given(
    batches=st.lists(st.lists(MESSAGES, max_size=4), max_size=4), places=st.lists(st.integers(0))
)
def test_what_is_said_is_heard_however_it_is_cut(
    batches: list[list[FromExecutor]], places: list[int]
) -> None:
    data = b"".join(build_frame(NONCE, encode_from_executor(batch)) for batch in batches)
    assert hear(cut(data, places)) == [message for batch in batches for message in batch]


@given(
    before=st.lists(MESSAGES, max_size=2),
    junk=st.binary(min_size=1, max_size=200),
    places=st.lists(st.integers(0), max_size=5),
)
def test_junk_is_refused_or_waits_and_is_never_heard(
    before: list[FromExecutor], junk: bytes, places: list[int]
) -> None:
    frame = build_frame(NONCE, encode_from_executor(before))
    try:
        heard = hear(cut(frame + junk, places))
    except BadFrameError:
        return
    # It can only be the beginning of a frame, or a whole one by a miracle.
    assert heard == before
    assert (b"PRG1" + NONCE).startswith(junk[: 4 + NONCE_BYTES])


@given(payload=st.binary(max_size=300))
def test_any_bytes_in_a_frame_are_messages_or_refused(payload: bytes) -> None:
    with contextlib.suppress(BadFrameError):
        hear([build_frame(NONCE, payload)])


@given(found=st.lists(JSON, max_size=3) | JSON)
def test_any_json_in_a_frame_is_messages_or_refused(found: object) -> None:
    with contextlib.suppress(BadFrameError):
        hear([build_frame(NONCE, json.dumps(found).encode())])


KINDS = ["ready", "unfit", "began", "over", "moved", "progress", "spark", "decided", "cleaned"]


@given(
    kind=st.sampled_from(KINDS),
    fields=st.lists(JSON | PHASES.map(str) | st.floats(), max_size=3),
)
def test_any_fields_of_a_known_kind_are_a_message_or_refused(
    kind: str, fields: list[object]
) -> None:
    payload = json.dumps([[kind, *fields]]).encode()
    with contextlib.suppress(BadFrameError):
        (message,) = hear([build_frame(NONCE, payload)])
        # What was understood can be said again: nothing in it is out of all bounds.
        assert decode_from_executor(encode_from_executor([message])) == [message]


@given(message=MESSAGES, place=st.integers(0), change=st.integers(1, 255))
def test_a_frame_with_one_wrong_byte_is_another_message_or_refused(
    message: FromExecutor, place: int, change: int
) -> None:
    frame = bytearray(build_frame(NONCE, encode_from_executor([message])))
    frame[place % len(frame)] ^= change
    with contextlib.suppress(BadFrameError):
        hear([bytes(frame)])
