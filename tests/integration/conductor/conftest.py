"""A proxied client of the session's server for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conductor_server import SharedConductor
from tests.integration.conductor.faulty_conductor import FaultyConductor, faulty_conductor


@pytest.fixture
def conductor(conductor_server: SharedConductor) -> Iterator[FaultyConductor]:
    with faulty_conductor(conductor_server.endpoint) as faulty:
        yield faulty
