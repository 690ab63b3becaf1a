"""Deletes objects on a private branch, many with one call.

The server answers such a call with a success also where it deleted some of them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import PAGE, LakeFSApi, parse_object
from perago.adapters.lakefs.values import read_objects, read_part, read_text
from perago.adapters.patience import Patience, RetryAfter, TransientError
from perago.domain.errors import StoreError
from perago.domain.ids import BranchName, ObjectPath, RepositoryName
from perago.domain.outcome import JsonObject

_TRIES = 3
_NAMED = 5
"""How many objects an error names."""


class Deletes:
    """The deletes on one branch."""

    def __init__(
        self, api: LakeFSApi, patience: Patience, repository: RepositoryName, branch: BranchName
    ) -> None:
        self._api = api
        self._patience = patience
        self._repository = repository
        self._branch = branch

    def run(self, paths: Sequence[ObjectPath]) -> None:
        """Delete every object; those that the server did not delete are sent again."""
        for start in range(0, len(paths), PAGE):
            left = list(paths[start : start + PAGE])
            self._patience.retry(partial(self._delete, left))

    def _delete(self, left: list[ObjectPath]) -> None:
        """Delete what is left, and leave what is still there."""
        asked = Asked(
            what=f"delete objects on {self._repository}/{self._branch}",
            missing=f"no branch {self._branch!r} in repository {self._repository!r}",
        )
        call = calls.delete_objects(self._repository, self._branch, left)
        said = read_part(asked, read_refusals, parse_object(asked, self._api.repeat(asked, call)))
        if not said:
            return
        still_there = [path for path in left if path in said]
        # Where it does not say which they are, all are sent again.
        if len(still_there) == len(said):
            left[:] = still_there
        raise TransientError(self._refused(said), RetryAfter(), tries=_TRIES)

    def _refused(self, said: Mapping[str | None, str]) -> StoreError:
        shown = [f"{path!r}: {message}" for path, message in said.items()][:_NAMED]
        more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        return StoreError(
            f"could not delete on {self._repository}/{self._branch}: {'; '.join(shown)}{more}",
            hint="look at the server's answer; nothing was published",
        )


def read_refusals(found: JsonObject) -> dict[str | None, str]:
    """Why objects were not deleted, by path; None where the server does not say which."""
    return {
        None if error.get("path") is None else read_text(error, "path"): read_text(error, "message")
        for error in read_objects(found.get("errors"))
    }
