"""Every handler gets every event, and a broken one harms nobody."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from perago.domain.events import AttemptEvent, Event, Polled, PollFailed
from perago.runtime.events import FanOut
from tests.unit.runtime.executions import an_execution
from tests.unit.runtime.told_attempt import Recorder, every_event_of


class Broken:
    def handle(self, event: Event) -> None:
        raise RuntimeError("a bug")


def every_event() -> list[Event]:
    return [*every_event_of(an_execution()), Polled(tasks=3), PollFailed(reason="no answer")]


def test_the_story_has_every_event() -> None:
    assert {type(event) for event in every_event()} == set(get_args(Event))


def test_every_event_of_an_attempt_says_which_attempt() -> None:
    attempt = an_execution().attempt
    of_attempt = get_args(AttemptEvent)

    told = [event for event in every_event() if isinstance(event, of_attempt)]

    assert {event.attempt for event in told} == {attempt}
    assert {type(event) for event in told} == set(of_attempt)


def test_a_broken_handler_is_logged_once_and_the_others_get_every_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = every_event()
    first, last = Recorder(), Recorder()
    fan_out = FanOut([first, Broken(), last])
    with caplog.at_level(logging.ERROR):
        for event in events:
            fan_out.handle(event)

    assert first.heard == last.heard == events
    assert len(caplog.records) == 1
    assert "Broken failed" in caplog.text
    assert "a bug" in caplog.text


def test_two_broken_handlers_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    fan_out = FanOut([Broken(), Broken()])
    with caplog.at_level(logging.ERROR):
        for event in every_event():
            fan_out.handle(event)

    assert len(caplog.records) == 2
