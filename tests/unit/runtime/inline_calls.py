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
