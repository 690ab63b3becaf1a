"""Calls that are answered before `submit` returns: no threads, nothing to wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from perago.domain.errors import PeragoError

T = TypeVar("T")


class InlineCalls:
    """Makes each call at once."""

    def submit(self, call: Callable[[], T], then: Callable[[T | PeragoError], None]) -> None:
        answer: T | PeragoError
        try:
            answer = call()
        except PeragoError as error:
            answer = error
        then(answer)


class HeldCalls(InlineCalls):
    """Makes each call only when told to: a server that takes its time."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, call: Callable[[], T], then: Callable[[T | PeragoError], None]) -> None:
        self.held.append(lambda: InlineCalls.submit(self, call, then))

    def answer(self) -> None:
        """Answer everything that was asked so far."""
        held, self.held = self.held, []
        for answer in held:
            answer()
