"""`REPO`, `REPO@REF`: how a command line names a place in the store."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perago.domain.errors import UsageError
from perago.domain.ids import RepositoryName

_GRACE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """A repository and, where given, a ref of it: a branch, a commit or a short commit id."""

    repository: RepositoryName
    ref: str | None


def parse_place(text: str) -> StorePlace:
    """Read `REPO` or `REPO@REF`."""
    repository, at, ref = text.partition("@")
    if not repository or (at and not ref):
        raise UsageError(
            f"{text!r} names no place in the store",
            hint="write REPO or REPO@REF, such as flights@main or flights@3f2a9c41",
        )
    return StorePlace(repository=RepositoryName(repository), ref=ref or None)


def parse_repository(text: str) -> RepositoryName:
    """Read `REPO`, where a ref makes no sense."""
    place = parse_place(text)
    if place.ref is not None:
        raise UsageError(
            f"{text!r} names a ref, and a repository is wanted",
            hint=f"write {place.repository}",
        )
    return place.repository


def parse_duration(text: str) -> float:
    """Read `24h`, `90s`, `30m`, `2d` or plain seconds, as seconds."""
    match = _GRACE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no duration", hint="such as 24h, 30m, 90s or 2d")
    return float(match[1]) * _UNIT_SECONDS[match[2]]
