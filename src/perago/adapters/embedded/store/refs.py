"""Repositories, branches and commits, as queries inside a caller's transaction.

Invariant: whatever is not there raises `NotFoundInStoreError` naming it, here and nowhere else.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from datetime import datetime

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.records import identify_record, microseconds, read_record
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    HeadMovedError,
    NotFoundInStoreError,
    StoreError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit

_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_COMMIT_PREFIX = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as the database knows it."""

    key: int
    name: RepositoryName


def insert_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository:
    """Create-if-absent."""
    try:
        made = connection.execute(sql.INSERT_REPOSITORY, (name,)).rowcount
    except UnicodeEncodeError as error:
        raise StoreError(f"{name!r} cannot be the name of a repository: it is no text") from error
    if made == 0:
        raise AlreadyExistsInStoreError(
            f"there is already a repository {name!r}", hint="use it, or choose another name"
        )
    return require_repository(connection, name)


def require_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository:
    """The repository, or `NotFoundInStoreError`."""
    row = _select(connection, sql.SELECT_REPOSITORY, name)
    if row is None:
        raise NotFoundInStoreError(
            f"no repository {name!r} in this store",
            hint="`perago store init` makes one; check the spelling and PERAGO_HOME",
        )
    return Repository(int(row[0]), name)


def require_head(
    connection: sqlite3.Connection, repository: Repository, branch: BranchName
) -> CommitId:
    """Where a branch stands, or `NotFoundInStoreError`."""
    row = _select(connection, sql.SELECT_HEAD, repository.key, branch)
    if row is None:
        raise NotFoundInStoreError(
            f"no branch {branch!r} in repository {repository.name!r}",
            hint="check the spelling; a staging branch is gone once its attempt is over",
        )
    return CommitId(str(row[0]))


def require_commit(
    connection: sqlite3.Connection, repository: Repository, commit: CommitId
) -> Commit:
    """The commit of that whole id, or `NotFoundInStoreError`."""
    row = _select(connection, sql.SELECT_COMMIT, repository.key, commit)
    if row is None:
        raise NotFoundInStoreError(
            f"no commit {commit!r} in repository {repository.name!r}",
            hint="`perago store log` shows what there is; gc collects commits that no branch "
            "leads to",
        )
    return read_record(commit, str(row[0]))


def require_unmoved(
    connection: sqlite3.Connection,
    repository: Repository,
    branch: BranchName,
    expected: CommitId,
) -> None:
    """The fence: raise `HeadMovedError` unless the branch stands at the expected commit."""
    actual = require_head(connection, repository, branch)
    if actual != expected:
        raise HeadMovedError(
            repository=repository.name, branch=branch, expected=expected, actual=actual
        )


def insert_branch(
    connection: sqlite3.Connection,
    repository: Repository,
    branch: BranchName,
    head: CommitId,
    *,
    hidden: bool,
) -> None:
    """Create-if-absent; an illegal name raises `StoreError`."""
    if not _BRANCH_NAME.fullmatch(branch):
        raise StoreError(
            f"{branch!r} cannot be the name of a branch",
            hint="use ASCII letters, digits, `_` and `-`, and do not begin with `-`",
        )
    values = (repository.key, branch, head, hidden)
    if connection.execute(sql.INSERT_BRANCH, values).rowcount == 0:
        raise AlreadyExistsInStoreError(
            f"repository {repository.name!r} already has a branch {branch!r}",
            hint="choose another name, or delete the branch first",
        )


def insert_commit(
    connection: sqlite3.Connection, repository: Repository, record: str, created_at: datetime
) -> Commit:
    """Add a commit; no branch leads to it yet."""
    commit = identify_record(record)
    values = (repository.key, commit, record, microseconds(created_at))
    connection.execute(sql.INSERT_COMMIT, values)
    return read_record(commit, record)


def resolve_ref(connection: sqlite3.Connection, repository: Repository, ref: str) -> CommitId:
    """A branch, a commit id, or a unique prefix of one, in this order."""
    row = _select(connection, sql.SELECT_HEAD, repository.key, ref)
    if row is not None:
        return CommitId(str(row[0]))
    found: list[tuple[str]] = []
    if _COMMIT_PREFIX.fullmatch(ref):
        values = (repository.key, ref, ref)
        found = connection.execute(sql.SELECT_COMMITS_BY_PREFIX, values).fetchall()
    if len(found) > 1:
        raise StoreError(
            f"{ref!r} is the beginning of more than one commit of {repository.name!r}",
            hint="give more characters of the commit id",
        )
    if not found:
        raise NotFoundInStoreError(
            f"{ref!r} is no branch and no commit of repository {repository.name!r}",
            hint="give a branch, a commit id, or at least 8 characters of one",
        )
    return CommitId(found[0][0])


def _select(
    connection: sqlite3.Connection, statement: str, *values: int | str
) -> tuple[int | str, ...] | None:
    """One row; None also for text that no name in the database can be."""
    try:
        row: tuple[int | str, ...] | None = connection.execute(statement, values).fetchone()
    except UnicodeEncodeError:
        return None
    return row
