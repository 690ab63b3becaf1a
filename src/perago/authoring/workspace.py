"""Which part of a repository a task sees, and what must hold there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perago.authoring.guardrails import Check, as_guardrails
from perago.domain.guardrail import Guardrail
from perago.domain.workspace import Prefix


@dataclass(frozen=True, slots=True, init=False)
class WorkspaceSpec:
    """The workspace of a task: `prefix` is what it sees, `/` being the whole repository.

    `pre` is checked before the body, `post` after it. A read-only task publishes nothing, whatever
    it writes locally.
    """

    prefix: Prefix
    read_only: bool
    pre: tuple[Guardrail, ...]
    post: tuple[Guardrail, ...]

    def __init__(
        self,
        prefix: str = "/",
        *,
        read_only: bool = False,
        pre: Iterable[Check] = (),
        post: Iterable[Check] = (),
    ) -> None:
        object.__setattr__(self, "prefix", Prefix.parse(prefix))
        object.__setattr__(self, "read_only", read_only)
        object.__setattr__(self, "pre", as_guardrails(pre, side="pre"))
        object.__setattr__(self, "post", as_guardrails(post, side="post"))
