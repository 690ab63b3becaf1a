"""Which writes keep an attempt from being published."""

from __future__ import annotations

import pytest

from perago.adapters.spark.open_writes import OpenWrites
from perago.domain.errors import TaskTerminalError, UnfinishedWriteError


def test_none_that_has_ended() -> None:
    writes = OpenWrites()
    writes.begin("t")
    writes.begin("t")
    writes.end("t")
    writes.end("t")
    writes.close()


def test_each_that_has_not_once_by_name() -> None:
    writes = OpenWrites()
    for path in ("t", "u", "t", "v"):
        writes.begin(path)
    writes.end("v")
    with pytest.raises(UnfinishedWriteError, match=r"not over: t, u\n"):
        writes.close()


def test_none_begins_once_the_body_has_returned() -> None:
    writes = OpenWrites()
    writes.close()
    with pytest.raises(TaskTerminalError, match="cannot change 't' any more"):
        writes.begin("t")
    writes.close()
