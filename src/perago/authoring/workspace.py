"""Which part of a repository a task sees, and what must hold there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from perago.authoring.guardrails import Check, as_guardrails
from perago.domain.access import Access
from perago.domain.errors import DeclarationError
from perago.domain.guardrail import Guardrail
from perago.domain.workspace import Prefix


@dataclass(frozen=True, slots=True, init=False)
class WorkspaceSpec:
    """The workspace of a task: `prefix` is what it sees, `/` being the whole repository.

    `pre` is checked before the body, `post` after it. A read-only task publishes nothing, whatever
    it writes locally. `access` is for tasks on a `SparkWorkspace`: with "direct", Spark reads and
    writes the store itself, where the store can be reached; with "local", files of the worker's
    machine; by default as the worker is set.
    """

    prefix: Prefix
    read_only: bool
    access: Access | None
    pre: tuple[Guardrail, ...]
    post: tuple[Guardrail, ...]

    def __init__(
        self,
        prefix: str = "/",
        *,
        read_only: bool = False,
        access: Literal["local", "direct"] | None = None,
        pre: Iterable[Check] = (),
        post: Iterable[Check] = (),
    ) -> None:
        object.__setattr__(self, "prefix", Prefix.parse(prefix))
        object.__setattr__(self, "read_only", read_only)
        object.__setattr__(self, "access", _parse_access(access))
        object.__setattr__(self, "pre", as_guardrails(pre, side="pre"))
        object.__setattr__(self, "post", as_guardrails(post, side="post"))


def _parse_access(access: str | None) -> Access | None:
    if access is None or access in set(Access):
        return None if access is None else Access(access)
    raise DeclarationError(
        f"WorkspaceSpec(access={access!r}) is no way to reach a workspace",
        hint='access is "local" or "direct"; leave it out to have the worker decide',
    )
