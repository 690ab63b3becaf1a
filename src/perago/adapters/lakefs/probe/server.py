"""Whether a lakeFS server answers, as what, and to whom."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.values import read_object, read_objects, read_part
from perago.app.diagnosis import (
    Check,
    examine,
    failed,
    judge_clock,
    judge_version,
    passed,
    warned,
)
from perago.domain.errors import StoreAccessError
from perago.domain.outcome import JsonObject

_CHECK_KEYS = "check PERAGO_LAKEFS_ACCESS_KEY_ID and PERAGO_LAKEFS_SECRET_ACCESS_KEY"
_TIMES = 3
_LONGEST_SECONDS = 10.0
_HALF_A_SECOND = 0.5
"""A date in a header has its fraction cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One answer of the server's health check."""

    status: int
    seconds: float
    asked_at: float
    date: str | None


class ServerCheck:
    """The checks that need no repository."""

    def __init__(self, api: LakeFSApi, connection: LakeFSConnection) -> None:
        self._api = api
        self._endpoint = connection.endpoint
        self._timeout = min(connection.timeout_seconds, _LONGEST_SECONDS)
        self._quickest: _Answer | None = None

    def endpoint(self) -> Check:
        """Reach it; sent without retries, so that a dead server is found at once."""
        return examine("endpoint", self._reach)

    def credentials(self) -> Check:
        """Ask who the server thinks this is."""
        return examine("credentials", self._ask_who)

    def clock(self) -> Check:
        """Compare the clocks, by the answer that `endpoint` got."""
        return examine("clock", self._compare_clocks)

    def configuration(self) -> Iterator[Check]:
        """The version and the block store."""
        configs: list[JsonObject] = []
        asked = Asked(
            what="read the server's configuration",
            missing="no configuration",
            finds_server=True,
        )

        def read_version() -> Check:
            config = self._api.read(asked, calls.get_config())
            configs.append(config)
            told = read_part(asked, lambda found: read_object(found, "version_config"), config)
            version = told.get("version")
            return judge_version("version", version if isinstance(version, str) else None)

        yield examine("version", read_version)
        if configs:
            yield examine("block store", lambda: read_part(asked, _describe_storage, configs[0]))

    def _reach(self) -> Check:
        answers = [self._ask_health() for _ in range(_TIMES)]
        self._quickest = quickest = min(answers, key=lambda answer: answer.seconds)
        if quickest.status != 204:
            return failed(
                "endpoint",
                f"what answers at {self._endpoint} ({quickest.status}) is no lakeFS server",
                "check PERAGO_LAKEFS_ENDPOINT, and what stands between it and the server",
            )
        found = f"{self._endpoint} answers in {quickest.seconds * 1000:.0f} ms"
        if _is_open_to_listeners(self._endpoint):
            return warned(
                "endpoint",
                f"{found}, without TLS: keys and data can be read on the way",
                "use an https:// endpoint",
            )
        return passed("endpoint", found)

    def _ask_health(self) -> _Answer:
        asked = Asked(
            what="reach the server",
            missing=f"what answers at {self._endpoint} is no lakeFS server",
            finds_server=True,
        )
        at, before = time.time(), time.perf_counter()
        answer = self._api.act(asked, self._timeout, calls.health_check())
        return _Answer(
            status=answer.status,
            seconds=time.perf_counter() - before,
            asked_at=at,
            date=answer.headers.get("Date"),
        )

    def _compare_clocks(self) -> Check:
        answer = self._quickest
        said = _parse_date(answer.date) if answer is not None and answer.date else None
        if answer is None or said is None:
            return warned(
                "clock", "the server does not say what time it is", "compare the clocks by hand"
            )
        here = answer.asked_at + answer.seconds / 2
        return judge_clock("clock", said.timestamp() + _HALF_A_SECOND - here)

    def _ask_who(self) -> Check:
        asked = Asked(what="ask who this is", missing="the server knows no users")
        try:
            found = self._api.read(asked, calls.get_current_user())
        except StoreAccessError as error:
            return failed("credentials", error.message, f"{_CHECK_KEYS}; see `settings` above")
        user = read_part(asked, lambda answer: read_object(answer, "user"), found).get("id")
        if not isinstance(user, str) or not user:
            return failed(
                "credentials",
                "the server does not say who this is",
                _CHECK_KEYS,
            )
        return passed("credentials", f"accepted as user {user!r}")


def _describe_storage(config: JsonObject) -> Check:
    several = config.get("storage_config_list")
    stores = [
        read_object(config, "storage_config"),
        *read_objects([] if several is None else several),
    ]
    described = sorted({_describe_store(store) for store in stores if store})
    if not described:
        return warned(
            "block store", "the server does not say", "its operator may allow fs:ReadConfig"
        )
    return passed("block store", "; ".join(described))


def _describe_store(store: JsonObject) -> str:
    offered = "offered" if store.get("pre_sign_support") is True else "not offered"
    return f"{store.get('blockstore_type')}, presigned URLs {offered}"


def _is_open_to_listeners(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _parse_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
