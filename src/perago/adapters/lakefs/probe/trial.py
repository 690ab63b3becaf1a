"""Tries for real what an attempt does, on two throw-away branches.

Invariants: the target branch is never named in a call, and both branches are removed in the end,
however that comes. What stays is what lakeFS's own garbage collection removes: three small
objects and two commits that no branch leads to.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from blake3 import blake3

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi, parse_object
from perago.adapters.lakefs.calls import Call
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.deletes import read_refusals
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.lookup import read_id
from perago.adapters.lakefs.part_upload import NewObject
from perago.adapters.lakefs.probe.permission import (
    Permission,
    examine_allowed,
    on_branch,
    on_objects,
)
from perago.adapters.lakefs.values import read_each, read_part, to_commit
from perago.app.diagnosis import Check, Verdict, passed, skipped
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    PeragoError,
    StoreAccessError,
)
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.domain.outcome import JsonObject
from perago.domain.staging import STAGING_PREFIX

_PREFIX = f"{STAGING_PREFIX}doctor-"
_NAME = re.compile(re.escape(_PREFIX) + r"(\d{1,12})-[0-9a-f]{32}-\w+")
_LEFT_BEHIND_SECONDS = 3600
"""A trial takes seconds: one that began so long ago was killed."""

_CONTENT = b"written by `perago doctor`\n"
_DIGEST = Digest(blake3(_CONTENT).hexdigest())
_MESSAGE = "A trial of `perago doctor`"
_STEPS = (
    "create branch",
    "write object",
    "write in parts",
    "delete object",
    "commit",
    "read object",
    "merge",
    "hard reset",
    "delete branch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts of the store's client that a trial works with: the same that an attempt has."""

    api: LakeFSApi
    history: History
    data: DataPlane
    timeout_seconds: float


class Trial:
    """One trial in one repository, from one commit."""

    def __init__(self, tools: Tools, repository: RepositoryName, source: CommitId) -> None:
        self._tools = tools
        self._repository = repository
        self._source = source
        name = f"{_PREFIX}{int(time.time())}-{uuid.uuid4().hex}"
        self._staging = BranchName(f"{name}-staging")
        self._target = BranchName(f"{name}-target")
        self._kept = ObjectPath(f"{name}/kept")
        self._deleted = ObjectPath(f"{name}/deleted")
        self._parted = ObjectPath(f"{name}/parted")
        self._staged = source
        self._checks: dict[str, Check] = {}
        self._left: list[BranchName] = []

    def run(self) -> list[Check]:
        """One check for each thing that an attempt does."""
        self._remove_left_behind()
        try:
            if self._try("create branch", "fs:CreateBranch", self._create):
                if self._try("write object", "fs:WriteObject", self._write):
                    self._try("write in parts", "fs:WriteObject", self._write_in_parts)
                    self._try("delete object", "fs:DeleteObject", self._delete)
                    if self._try("commit", "fs:CreateCommit", self._commit):
                        self._try("read object", "fs:ReadObject", self._read)
                        self._try("merge", "fs:CreateCommit", self._merge)
                self._try("hard reset", "fs:RevertBranch", self._reset)
        finally:
            self._try("delete branch", "fs:DeleteBranch", self._remove)
        if self._left:
            check = self._checks["delete branch"]
            found = f"{check.found}; left behind: {', '.join(self._left)}"
            self._checks["delete branch"] = replace(check, found=found)
        not_tried = "needs what failed before it"
        return [self._checks.get(step) or skipped(step, not_tried) for step in _STEPS]

    def _try(self, step: str, action: str, act: Callable[[], str]) -> bool:
        self._checks[step] = examine_allowed(
            step, self._permission(action), lambda: passed(step, f"allowed ({act()})")
        )
        return self._is_ok(step)

    def _is_ok(self, step: str) -> bool:
        return self._checks[step].verdict is Verdict.OK

    def _permission(self, action: str) -> Permission:
        if action.endswith("Object"):
            return on_objects(action, self._repository)
        return on_branch(action, self._repository, f"{STAGING_PREFIX}*")

    # -- what is tried; each says what it did

    def _create(self) -> str:
        for branch in (self._staging, self._target):
            self._tools.history.create_private_branch(self._repository, branch, self._source)
        return "two throw-away branches"

    def _write(self) -> str:
        for path in (self._kept, self._deleted):
            self._tools.data.patience.retry(partial(self._upload, path))
        return "two objects"

    def _upload(self, path: ObjectPath) -> None:
        self._tools.data.upload(
            self._repository,
            self._staging,
            path,
            _CONTENT,
            size=len(_CONTENT),
            digest=_DIGEST,
        )

    def _write_in_parts(self) -> str:
        """As big files are written: by other ways, which what stands between may not know."""
        target = NewObject(
            repository=self._repository,
            branch=self._staging,
            path=self._parted,
            size=len(_CONTENT),
            digest=_DIGEST,
        )
        upload = self._tools.data.patience.retry(partial(self._tools.data.begin_parts, target))
        try:
            etag = self._tools.data.patience.retry(
                partial(upload.send, 1, [_CONTENT], len(_CONTENT))
            )
            self._tools.data.patience.retry(partial(upload.complete, [etag]))
        except BaseException:
            upload.abort()
            raise
        return "one more, as big files are"

    def _delete(self) -> str:
        api = self._tools.api
        asked = self._asked("delete an object of")
        call = calls.delete_objects(self._repository, self._staging, [self._deleted])
        answer = parse_object(asked, api.repeat(asked, call))
        for path, said in read_part(asked, read_refusals, answer).items():
            raise StoreAccessError(f"could not delete {path!r}: {said}")
        return "one of the first two"

    def _commit(self) -> str:
        call = calls.commit(self._repository, self._staging, message=_MESSAGE, metadata={})
        made = self._change("commit to", call)
        self._staged = read_part(self._asked("commit to"), to_commit, made).id
        return self._staged[:12]

    def _read(self) -> str:
        def read() -> bytes:
            with self._tools.data.open(self._repository, self._staged, self._kept) as body:
                return body.read(len(_CONTENT) + 1)

        if self._tools.data.patience.retry(read) != _CONTENT:
            raise CorruptStoreError(
                "what the server stored is not what was sent to it",
                hint="look at what stands between this machine and the server, and at its disk",
            )
        return "as it was written"

    def _merge(self) -> str:
        call = calls.merge_into_branch(
            self._repository, self._staged, self._target, message=_MESSAGE, metadata={}
        )
        self._change("merge into", call)
        return "one throw-away branch into the other"

    def _reset(self) -> str:
        self._tools.api.act(
            self._asked("reset"),
            self._tools.timeout_seconds,
            calls.hard_reset_branch(self._repository, self._target, self._source),
        )
        return "a throw-away branch, back to where it began"

    def _remove(self) -> str:
        errors: list[PeragoError] = []
        removed = 0
        for branch in (self._staging, self._target):
            try:
                removed += self._remove_branch(branch)
            except PeragoError as error:
                self._left.append(branch)
                errors.append(error)
        if errors:
            raise errors[0]
        return "both throw-away branches" if removed == 2 else f"{removed} throw-away branches"

    def _remove_branch(self, branch: BranchName) -> bool:
        try:
            self._tools.history.delete_branch(self._repository, branch)
        except NotFoundInStoreError:
            return False
        return True

    def _change(self, what: str, call: Call) -> JsonObject:
        return self._tools.api.change(self._asked(what), self._tools.timeout_seconds, call)

    def _remove_left_behind(self) -> None:
        """Remove the branches of a trial that was killed; who may not list has none to remove."""
        asked = self._asked("list")
        call = calls.list_branches(self._repository, prefix=_PREFIX, show_hidden=True)
        try:
            listed = self._tools.api.read_pages(asked, call)
            names = [BranchName(name) for name in read_each(asked, read_id, listed)]
            for name in names:
                match = _NAME.fullmatch(name)
                if match is not None and int(match[1]) < time.time() - _LEFT_BEHIND_SECONDS:
                    self._remove_branch(name)
        except StoreAccessError:
            return

    def _asked(self, what: str) -> Asked:
        return Asked(
            what=f"{what} a throw-away branch of {self._repository!r}",
            missing=f"a throw-away branch of {self._repository!r} is gone",
            changes=True,
        )
