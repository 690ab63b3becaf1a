"""Failpoints from a text such as `published=kill@clean_flights#0;staged=pause:2`.

Grammar: `POINT=ACTION[:SECONDS][@REFERENCE][#RETRY]`, separated by `;`. Actions: `kill` (SIGKILL
to this executor's process group), `kill-worker` (the supervisor first, then the executor), `pause`
(sleep), `stop` (SIGSTOP), `enospc` (a full disk), `fail` (an ordinary exception). For tests and
`perago demo --crash` only.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.errors import SettingsError
from perago.ports import Failpoint

_RULE = re.compile(
    r"(?P<point>[a-z-]+)=(?P<action>kill-worker|kill|pause|stop|enospc|fail)"
    r"(:(?P<seconds>\d+(\.\d+)?))?(@(?P<reference>[^#;]+))?(#(?P<retry>\d+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailpointRule:
    """What to do at which point, and for which attempts."""

    point: Failpoint
    action: str
    seconds: float
    reference: str | None
    retry: int | None

    def applies_to(self, point: Failpoint, attempt: Attempt) -> bool:
        """Whether the attempt at this point is meant."""
        return (
            self.point is point
            and self.reference in (None, attempt.reference_name)
            and self.retry in (None, attempt.retry_count)
        )


def parse_failpoints(text: str) -> tuple[FailpointRule, ...]:
    """Read the rules; anything malformed is refused, so that a test cannot silently do nothing."""
    rules = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        match = _RULE.fullmatch(item)
        if match is None or match["point"] not in set(Failpoint):
            raise SettingsError(
                f"bad failpoint {item!r}",
                hint="POINT=ACTION[:SECONDS][@REFERENCE][#RETRY]; points: " + ", ".join(Failpoint),
            )
        rules.append(
            FailpointRule(
                point=Failpoint(match["point"]),
                action=match["action"],
                seconds=float(match["seconds"] or 0),
                reference=match["reference"],
                retry=int(match["retry"]) if match["retry"] else None,
            )
        )
    return tuple(rules)


class RuleFailpoints:
    """Carries out the rules it was given; with none it does nothing."""

    def __init__(self, rules: Sequence[FailpointRule] = ()) -> None:
        self._rules = tuple(rules)

    def hit(self, point: Failpoint, attempt: Attempt) -> None:
        """Act on every rule that means this moment of this attempt."""
        for rule in self._rules:
            if rule.applies_to(point, attempt):
                _act(rule)


def _act(rule: FailpointRule) -> None:
    match rule.action:
        case "kill":
            os.killpg(os.getpgrp(), signal.SIGKILL)
        case "kill-worker":
            os.kill(os.getppid(), signal.SIGKILL)
            os.killpg(os.getpgrp(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "pause":
            time.sleep(rule.seconds)
        case "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"failpoint {rule.point}")
        case _:
            raise RuntimeError(f"failpoint {rule.point}")
