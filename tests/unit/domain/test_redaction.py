"""Secrets are hidden in every spelling, once, and nothing else is."""

from __future__ import annotations

import base64
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.outcome import Completed, Failed, JsonObject, Phase, TerminalFailure
from perago.domain.redaction import HIDDEN, NOTHING_KNOWN, Redactor

SECRETS = ("s3cr3t/+key", 'qu"o\\te-ü', "s3cr3t/+key-and-more")
REDACTOR = Redactor(SECRETS)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_known_secret_is_hidden(secret: str) -> None:
    assert REDACTOR.apply(f"a {secret} b") == f"a {HIDDEN} b"
    for ascii_only in (True, False):
        document = json.dumps({"text": f"a {secret} b"}, ensure_ascii=ascii_only)
        assert json.loads(REDACTOR.apply_in_json(document)) == {"text": f"a {HIDDEN} b"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET http://x/y?X-Amz-Signature=abc0123&a=b", f"GET http://x/y?X-Amz-Signature={HIDDEN}&a=b"),
        ("sc://host:15002/;token=abc0123;use_ssl=true", f"sc://host:15002/;token={HIDDEN};use_ssl=true"),
        ("{'Authorization': 'Bearer abc0123'}", f"{{'Authorization': 'Bearer {HIDDEN}'}}"),
        ("authorization: Basic abc0123", f"authorization: Basic {HIDDEN}"),
        ("jdbc:x://joe:pa-ss@db:5432/a", f"jdbc:x://joe:{HIDDEN}@db:5432/a"),
        ("https://0123456789abcdef0123@host/a", f"https://{HIDDEN}@host/a"),
        ("ssh://git@host/a and spark://a:7077,b:7077", "ssh://git@host/a and spark://a:7077,b:7077"),
        ("joe@example.com sees http://a:80/b@c", "joe@example.com sees http://a:80/b@c"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden_without_being_known(text: str, shown: str) -> None:
    assert NOTHING_KNOWN.apply(text) == shown
    assert NOTHING_KNOWN.apply(shown) == shown, "hiding twice changes nothing"


def test_the_beginning_of_a_secret_that_was_cut_is_hidden() -> None:
    assert REDACTOR.apply("the key is s3cr3t/+") == f"the key is {HIDDEN}"
    assert REDACTOR.apply("the key is s3cr3t/+k… (cut)") == f"the key is {HIDDEN}… (cut)"
    assert REDACTOR.apply("it is s3cr3") == "it is s3cr3", "too little to matter"


@given(st.text(), st.text())
def test_hiding_twice_is_hiding_once(before: str, after: str) -> None:
    once = REDACTOR.apply(f"{before}{SECRETS[0]}{after}")

    assert REDACTOR.apply(once) == once
    assert SECRETS[0] not in once


def test_texts_of_one_or_two_letters_are_no_secrets() -> None:
    assert Redactor(("a", "abc", "")) == NOTHING_KNOWN


def test_a_document_keeps_its_shape() -> None:
    document: JsonObject = {"a": [SECRETS[0], 1, None, True], "b": {"c": f"x{SECRETS[1]}"}}

    assert REDACTOR.apply_to_json(document) == {
        "a": [HIDDEN, 1, None, True],
        "b": {"c": f"x{HIDDEN}"},
    }


def test_a_reason_is_hidden_and_an_output_is_the_bodys_own() -> None:
    said = f"ValueError: {SECRETS[0]}"
    output = Completed(output={"result": {"said": said}})

    for kind in (Failed, TerminalFailure):
        shown = REDACTOR.apply_to_outcome(kind(reason=said, phase=Phase.BODY))
        assert shown == kind(reason=f"ValueError: {HIDDEN}", phase=Phase.BODY)
    assert REDACTOR.apply_to_outcome(output) is output


def test_places_in_bytes() -> None:
    said = f"\xff {SECRETS[1]} and {json.dumps(SECRETS[1])} http://joe:pass@host \xfe"
    data = said.encode()
    spans = REDACTOR.find_spans(data)

    shown = bytearray(data)
    for begin, end in spans:
        shown[begin:end] = b"*" * (end - begin)
    assert len(shown) == len(data)
    assert b"joe:****@host" in shown
    assert SECRETS[1].encode() not in shown
    assert json.dumps(SECRETS[1])[1:-1].encode() not in shown
    assert not REDACTOR.find_spans(base64.b64encode(b"nothing to hide"))


def test_a_redactor_shows_nothing_itself_and_arrives_in_another_process() -> None:
    copy = pickle.loads(pickle.dumps(REDACTOR))

    assert copy == REDACTOR
    assert copy.apply(SECRETS[0]) == HIDDEN
    assert "s3cr3t" not in repr(REDACTOR)


def test_a_secret_that_repeats_its_own_beginning_is_found_where_it_was_cut() -> None:
    redactor = Redactor(("abcabcabcX-abcabcabcY",))

    for length in range(6, 21):
        said = "abcabcabcX-abcabcabcY"[:length]
        assert redactor.apply(f"it is abcabd {said}") == f"it is abcabd {HIDDEN}", length


def test_a_beginning_that_goes_on_otherwise_hides_nothing_but_the_cut_secret_after_it() -> None:
    redactor = Redactor(("abcdef-and-a-long-rest",))

    assert redactor.apply("abcdefg abcdef-an") == f"abcdefg {HIDDEN}"
    assert redactor.apply("abcdefg abcdefh") == "abcdefg abcdefh"
