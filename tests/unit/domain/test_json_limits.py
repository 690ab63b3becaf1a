"""What JSON is read, cut and refused, and that nothing else comes out of it."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.json_limits import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NAME_CHARACTERS,
    build_unreadable,
    explain_unusable_json,
    find_unreadable,
    is_larger_json,
    read_json,
    read_members,
    split_json,
)
from perago.domain.outcome import JsonValue
from tests.poison import draw_poison

IN_LITTLE_MEMORY = """
import resource
from perago.domain.json_limits import MAX_DIGITS, explain_unusable_json, read_json
resource.setrlimit(resource.RLIMIT_AS, (350_000_000, resource.getrlimit(resource.RLIMIT_AS)[1]))
text = b"\\\\n" * 4_000_000
found = read_json(b'{"text":"' + text + b'","n":' + b"7" * 5_000 + b"}")
assert len(found["text"]) == 4_000_000
assert "digits" in explain_unusable_json(found["n"])
"""

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # No lone surrogates.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('ab"\\{}[],:é'), inner),
    max_leaves=8,
)


def nest(levels: int, inside: JsonValue = None) -> JsonValue:
    value = inside
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@given(json_values)
def test_json_is_read_as_it_is_and_can_be_carried(value: JsonValue) -> None:
    assert read_json(json.dumps(value).encode()) == value
    assert read_json(json.dumps(value, ensure_ascii=False).encode()) == value
    assert explain_unusable_json(value) is None


@given(st.lists(json_values, max_size=4))
def test_a_list_is_split_into_its_items(values: list[JsonValue]) -> None:
    items = split_json(json.dumps(values).encode())
    assert [json.loads(item) for item in items] == values


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_an_object_is_read_member_by_member(value: dict[str, JsonValue]) -> None:
    assert read_members(json.dumps(value).encode()) == (value, {})


@given(st.binary())
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    for given_bytes in (data, b'"' + data, b"[" + data + b"]", b'{"a":' + data + b"}"):
        read_members(given_bytes)
        split_json(given_bytes)
        try:
            explain_unusable_json(read_json(given_bytes))
        except ValueError as error:
            str(error).encode()


def test_poison_is_a_value_or_a_value_error() -> None:
    chance = random.Random(14)
    for _ in range(500):
        poison = draw_poison(chance)
        try:
            reason = explain_unusable_json(read_json(poison.data))
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            reason.encode()
            assert len(reason) < 200


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (nest(MAX_DEPTH + 1), "nested deeper than 200 levels"),
        (nest(900), "nested deeper"),
        (nest(MAX_DEPTH, {"k": nest(5)}), "nested deeper"),
        ({"n": [10**MAX_DIGITS]}, r"^n\[0\] is a number of more than 1,000 digits"),
        (-(10**MAX_DIGITS), "^it is a number of more"),
        ({"a": {"b": math.nan}}, "^a.b is nan"),
        ([math.inf], r"^it\[0\] is inf"),
        (["\ud800"], "not valid Unicode"),
        ({"\udfff": 1}, "a name that is not valid Unicode"),
        ({"k" * (MAX_NAME_CHARACTERS + 1): 1}, "a name of more than 50,000"),
        ({"a": (1, 2)}, "^a is a tuple"),
        ({1: 2}, "a name that is no text"),
        ({"k" * 500: {"l" * 500: [b""]}}, "^k+… is a bytes"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_what_cannot_be_carried_is_named(value: object, reason: str) -> None:
    found = explain_unusable_json(value)
    assert found is not None
    assert re.search(reason, found), found


@pytest.mark.parametrize(
    "value",
    [nest(MAX_DEPTH), 10**MAX_DIGITS - 1, "\U0001f600ß", {"k" * MAX_NAME_CHARACTERS: 0.1}, True],
    ids=str,
)
def test_what_is_just_within_the_limits_can_be_carried(value: JsonValue) -> None:
    assert explain_unusable_json(value) is None
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize("levels", [300, 900, 5_000, 200_000])
def test_what_is_too_deep_spoils_nothing_beside_it(levels: int) -> None:
    deep = b'{"a":[' * levels + b"1" + b"]}" * levels
    found = read_json(b'[{"id":"x","input":' + deep + b',"after":["]}"]}]')
    assert isinstance(found, list)
    (task,) = found
    assert isinstance(task, dict)
    assert (task["id"], task["after"]) == ("x", ["]}"])
    assert "nested deeper" in (explain_unusable_json(task["input"]) or "")


def test_a_number_that_is_too_long_spoils_nothing_beside_it() -> None:
    found = read_json(b'{"n":-' + b"7" * 5000 + b',"text":"' + b"7" * 5000 + b'"}')
    assert isinstance(found, dict)
    assert found["text"] == "7" * 5000
    assert "digits" in (explain_unusable_json(found["n"]) or "")


def test_a_long_text_beside_a_number_that_is_too_long_takes_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_what_is_not_utf8_spoils_nothing_beside_it() -> None:
    found = read_json(b'{"good":"\xc3\xbc","bad":"\xff"}')
    assert isinstance(found, dict)
    assert found["good"] == "ü"
    assert "not valid Unicode" in (explain_unusable_json(found["bad"]) or "")


def test_the_last_of_two_members_of_one_name_counts() -> None:
    text = b'{"a":1,"a":2,"b":tru,"b":3,"c":4,"c":nul}'
    assert read_members(text) == ({"a": 2, "b": 3}, {"c": "it is no JSON: Expecting value, at 0"})
    assert read_json(b'{"a":1,"a":2}') == {"a": 2}


def test_of_what_is_cut_off_the_complete_part_is_there() -> None:
    assert split_json(b'[{"a":1}, {"b":[2]},{"c":') == [b'{"a":1}', b'{"b":[2]}']
    assert split_json(b'["a, not ended') == []
    assert read_members(b'{"a":1,"b":"x') == ({"a": 1}, {})


def test_what_is_no_member_is_left_out() -> None:
    text = b'{"a":1, b:2, "c", 3:4, "\\x":5, "d" : 6}'
    assert read_members(text) == ({"a": 1, "d": 6}, {})


@pytest.mark.parametrize(
    ("value", "characters", "is_larger"),
    [
        ("x" * 98, 100, False),
        ("x" * 99, 100, True),
        ({"k" * 50: ["x" * 50]}, 100, True),
        ({"k" * 20: ["x" * 20]}, 100, False),
        ({1: 2}, 100, False),
        ([0] * 101, 100, True),
        ([["x" * 60]] * 2, 100, True),
        (None, 1, True),
    ],
    ids=lambda one: str(one)[:10],
)
def test_a_size_is_told_without_writing_it(
    value: object, characters: int, *, is_larger: bool
) -> None:
    assert is_larger_json(value, characters) is is_larger


def test_the_size_of_a_value_in_many_places_is_told_at_once() -> None:
    value: JsonValue = ["x" * 1_000]
    for _ in range(60):
        value = [value, value]
    assert is_larger_json(value, 1_000_000)


def test_many_quotation_marks_in_a_text_without_an_end_are_read_once() -> None:
    assert split_json(b'["' + b'\\"' * 200_000) == []


def test_an_unreadable_object_says_why() -> None:
    assert find_unreadable(build_unreadable("too deep")) == "too deep"
    assert find_unreadable({"a": 1}) is None
    assert find_unreadable({}) is None
