"""The calls that only a probe makes."""

from __future__ import annotations

from lakefs_sdk.api.auth_api import AuthApi
from lakefs_sdk.api.health_check_api import HealthCheckApi

from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.patience import Patience


class ProbeApi(LakeFSApi):
    """The groups of calls that the store has, and two more."""

    def __init__(self, connection: LakeFSConnection, patience: Patience) -> None:
        super().__init__(connection, patience)
        self.auth = AuthApi(self._client)
        self.health = HealthCheckApi(self._client)
