"""The calls to a lakeFS server's control plane, each with a time-out, on the official SDK.

Invariant: `read` and `repeat` may send a call several times, `change` and `act` send it once.
The SDK's own retries are off: it would send a hard reset again, being a PUT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from lakefs_sdk.api.branches_api import BranchesApi
from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.config_api import ConfigApi
from lakefs_sdk.api.experimental_api import ExperimentalApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.refs_api import RefsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration

from perago.adapters.lakefs.answers import Asked, explain_nonsense, translated
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.patience import Patience, once

API_PATH = "/api/v1"
_Result = TypeVar("_Result")


class LakeFSApi:
    """The SDK's groups of calls on one server, and the three ways to send one."""

    def __init__(self, connection: LakeFSConnection, patience: Patience) -> None:
        configuration = Configuration(
            host=connection.endpoint + API_PATH,
            username=connection.access_key_id,
            password=connection.secret_access_key,
            ssl_ca_cert=str(connection.ca_file) if connection.ca_file else None,
        )
        configuration.retries = False  # type: ignore[assignment] # declared as None alone
        configuration.connection_pool_maxsize = connection.concurrency
        self._client = ApiClient(configuration)
        self.endpoint = connection.endpoint
        self._timeout = connection.timeout_seconds
        self._patience = patience
        self.branches = BranchesApi(self._client)
        self.commits = CommitsApi(self._client)
        self.config = ConfigApi(self._client)
        self.experimental = ExperimentalApi(self._client)
        self.objects = ObjectsApi(self._client)
        self.refs = RefsApi(self._client)
        self.repositories = RepositoriesApi(self._client)

    def read(
        self, asked: Asked, call: Callable[..., _Result], *args: object, **kw: object
    ) -> _Result:
        """Send a call that changes nothing; again, when it fails in a way that may pass."""
        return self._patience.retry(
            lambda: _required(asked, self._send(asked, self._timeout, call, *args, **kw))
        )

    def repeat(
        self, asked: Asked, call: Callable[..., _Result], *args: object, **kw: object
    ) -> _Result:
        """Send a change that may be made twice with the effect of once."""
        return self._patience.retry(lambda: self._send(asked, self._timeout, call, *args, **kw))

    def change(
        self,
        asked: Asked,
        timeout_seconds: float,
        call: Callable[..., _Result],
        *args: object,
        **kw: object,
    ) -> _Result:
        """Send a change exactly once; an answer that is lost, or none, is an
        `OutcomeUnknownError`.
        """
        return once(lambda: _required(asked, self._send(asked, timeout_seconds, call, *args, **kw)))

    def act(
        self,
        asked: Asked,
        timeout_seconds: float,
        call: Callable[..., None],
        *args: object,
        **kw: object,
    ) -> None:
        """The same, for a change whose answer says nothing."""
        once(lambda: self._send(asked, timeout_seconds, call, *args, **kw))

    def close(self) -> None:
        """Give the connections back."""
        self._client.rest_client.pool_manager.clear()

    def _send(
        self,
        asked: Asked,
        timeout_seconds: float,
        call: Callable[..., _Result],
        *args: object,
        **kw: object,
    ) -> _Result:
        with translated(replace(asked, endpoint=self.endpoint)):
            return call(*args, **kw, _request_timeout=timeout_seconds)


def _required(asked: Asked, answer: _Result | None) -> _Result:
    if answer is None:
        raise explain_nonsense(asked, "it is empty")
    return answer
