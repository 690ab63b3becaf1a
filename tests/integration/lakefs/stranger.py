"""Somebody else with a key to the server, who does what no attempt would do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import quote
from urllib.request import Request, urlopen

from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.experimental_api import ExperimentalApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.refs_api import RefsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ForbiddenException, NotFoundException
from lakefs_sdk.models.branch_protection_rule import BranchProtectionRule
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.repository_creation import RepositoryCreation

from perago.adapters.lakefs import LakeFSConnection
from perago.domain.ids import BranchName, CommitId, RepositoryName

_PROTECTION_SECONDS = 30


class Stranger:
    """Works on one branch with the bare SDK; a context manager."""

    def __init__(
        self, connection: LakeFSConnection, repository: RepositoryName, branch: BranchName
    ) -> None:
        configuration = Configuration(
            host=f"{connection.endpoint}/api/v1",
            username=connection.access_key_id,
            password=connection.secret_access_key,
        )
        self._client = ApiClient(configuration)
        self._repository = repository
        self._branch = branch

    def put(self, path: str, content: bytes, *, claiming: str | None = None) -> None:
        """Write an object and leave it uncommitted; `claiming` that it has a certain digest."""
        # Not through the SDK: it takes the content for the name of a file.
        address = (
            f"{self._client.configuration.host}/repositories/{self._repository}"
            f"/branches/{self._branch}/objects?path={quote(path, safe='')}"
        )
        headers = {
            "Authorization": self._client.configuration.get_basic_auth_token(),
            "Content-Type": "application/octet-stream",
        }
        if claiming is not None:
            headers["x-lakefs-meta-perago-blake3"] = claiming
        request = Request(address, data=content, headers=headers, method="POST")
        with urlopen(request, timeout=30) as response:
            assert response.status == 201

    def commit(self, files: Mapping[str, bytes]) -> CommitId:
        """Write objects, whatever their paths, and commit them."""
        for path, content in files.items():
            self.put(path, content)
        creation = CommitCreation(message="by a stranger", date=None, allow_empty=False)
        return CommitId(
            CommitsApi(self._client).commit(self._repository, self._branch, creation).id
        )

    def merge(self, source: BranchName) -> None:
        """Merge another branch into this one."""
        RefsApi(self._client).merge_into_branch(self._repository, source, self._branch)

    def address_of(self, path: str) -> str:
        """Where the server keeps an object's bytes."""
        stats = ObjectsApi(self._client).stat_object(self._repository, self._branch, path)
        return stats.physical_address

    def is_there(self, path: str) -> bool:
        """Whether the branch shows an object, committed or not."""
        try:
            self.address_of(path)
        except NotFoundException:
            return False
        return True

    def delete_repository(self) -> None:
        RepositoriesApi(self._client).delete_repository(self._repository)

    def create_read_only_repository(self, repository: RepositoryName) -> None:
        RepositoriesApi(self._client).create_repository(
            RepositoryCreation(
                name=repository,
                storage_id=None,
                storage_namespace=f"local://{repository}",
                default_branch=self._branch,
                read_only=True,
            )
        )

    def protect(self) -> None:
        """Protect the branch, and wait until the server goes by it: it keeps rules in a cache."""
        rule = BranchProtectionRule(pattern=self._branch)
        RepositoriesApi(self._client).set_branch_protection_rules(self._repository, [rule])
        deadline = time.monotonic() + _PROTECTION_SECONDS
        while self._may_reset():
            assert time.monotonic() < deadline, "the branch is still not protected"
            time.sleep(0.2)

    def _may_reset(self) -> bool:
        try:
            ExperimentalApi(self._client).hard_reset_branch(
                self._repository, self._branch, ref=self._branch
            )
        except ForbiddenException:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.rest_client.pool_manager.clear()
