from pathlib import Path

import pytest

from perago.cli.params import parse_value, read_json_object, read_params
from perago.domain.errors import UsageError
from perago.domain.outcome import JsonValue


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('"1"', "1"),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ("2013-01-01", "2013-01-01"),
        ("JFK", "JFK"),
        ("", ""),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("[Infinity]", "[Infinity]"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_or_else_text(text: str, value: JsonValue) -> None:
    assert parse_value(text) == value


def test_dotted_keys_nest() -> None:
    params = read_params(None, ["a.b=1", "a.c=x=y", "d=[1]"])

    assert params == {"a": {"b": 1, "c": "x=y"}, "d": [1]}


def test_the_last_of_a_key_wins_and_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"year": 2012, "deep": {"a": 1, "b": 2}}')

    params = read_params(file, ["year=1", "year=2013", "deep.a=3"])

    assert params == {"year": 2013, "deep": {"a": 3, "b": 2}}


@pytest.mark.parametrize("pair", ["year", "=1", ".a=1", "a.=1", "a..b=1", ""])
def test_a_malformed_pair_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="key=value"):
        read_params(None, [pair])


def test_a_key_below_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a\.b is a value already"):
        read_params(None, ["a.b=1", "a.b.c=2"])


def test_toml_dates_become_texts(tmp_path: Path) -> None:
    file = tmp_path / "params.toml"
    file.write_text("day = 2013-01-02\nat = 10:20:30\n[deep]\nlist = [1, 'x']\n")

    assert read_params(file, []) == {
        "day": "2013-01-02",
        "at": "10:20:30",
        "deep": {"list": [1, "x"]},
    }


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("params.yaml", "a: 1", r"\.json or \.toml"),
        ("params.json", "{", "malformed"),
        ("params.json", '{"a": NaN}', "malformed: NaN"),
        ("params.toml", "a = ", "malformed"),
        ("params.json", "[1]", "does not hold an object"),
        ("params.json", b"\xff\xfe", "malformed"),
    ],
)
def test_a_bad_params_file_is_refused(
    tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)

    with pytest.raises(UsageError) as caught:
        read_params(file, [])

    caught.match(says)


def test_a_missing_params_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: No such file"):
        read_params(tmp_path / "none.json", [])


@pytest.mark.parametrize("text", ["{", "[1]", "1", '{"a": NaN}'])
def test_only_a_json_object_can_be_an_output(text: str) -> None:
    with pytest.raises(UsageError, match="--output is not"):
        read_json_object(text, "--output")
