import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.visible_text import indent_rest, visible, visible_json, visible_lines

COMMANDS = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    *("\ud800", "\udcff", "\udfff"),
]


@pytest.mark.parametrize("character", COMMANDS)
def test_what_commands_a_terminal_is_shown_as_an_escape(character: str) -> None:
    shown = visible(f"a{character}b")

    assert shown.isascii()
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{character}b"


@pytest.mark.parametrize(
    "text", ["plain", "ünï 数据 مرحبا עברית", "👩\u200d🔬 e\u0301 \xa0", r"C:\new"]
)
def test_letters_of_every_script_stay_as_they_are(text: str) -> None:
    assert visible(text) == visible_lines(text) == visible_json(text) == text


def test_several_lines_keep_their_ends_and_nothing_else() -> None:
    assert visible_lines("one\n\ttwo\r\x85three\u2028") == "one\n\ttwo\\r\\x85three\\u2028"
    assert indent_rest("one\ntwo\n\n  three\n") == "one\n    two\n\n  three\n"


@given(st.text(st.one_of(st.sampled_from(COMMANDS), st.characters())))
def test_whatever_is_said_neither_commands_nor_ends_a_line(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(one) not in ("Cc", "Cs", "Zl", "Zp") for one in shown)
    assert not set(shown) & set(COMMANDS)
    assert len(shown.splitlines()) <= 1


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_means_the_same_and_can_be_printed(document: object) -> None:
    for ascii_only in (False, True):
        shown = visible_json(json.dumps(document, ensure_ascii=ascii_only))
        assert json.loads(shown) == document
        assert not set(shown) & set(COMMANDS)
