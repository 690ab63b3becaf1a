"""What a call needs to be allowed, in lakeFS's own names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perago.app.diagnosis import Check, examine, failed
from perago.domain.errors import StoreAccessError
from perago.domain.ids import RepositoryName


@dataclass(frozen=True, slots=True)
class Permission:
    """An action of a lakeFS policy, on a resource."""

    action: str
    resource: str


def on_repository(action: str, repository: RepositoryName) -> Permission:
    """An action on a repository as a whole."""
    return Permission(action, f"arn:lakefs:fs:::repository/{repository}")


def on_branch(action: str, repository: RepositoryName, branch: str) -> Permission:
    """An action on a branch, or on all that a pattern matches."""
    return Permission(action, f"arn:lakefs:fs:::repository/{repository}/branch/{branch}")


def on_objects(action: str, repository: RepositoryName) -> Permission:
    """An action on objects. lakeFS does not tell the branches apart here."""
    return Permission(action, f"arn:lakefs:fs:::repository/{repository}/object/*")


def examine_allowed(name: str, needs: Permission, look: Callable[[], Check]) -> Check:
    """Make a check of one who is known to the server: a refusal is then a missing permission."""

    def explain() -> Check:
        try:
            return look()
        except StoreAccessError:
            return failed(
                name,
                f"the server refuses it to this user: {needs.action} is missing",
                f"allow it on {needs.resource} (docs/how-to/lakefs.md has a whole policy)",
            )

    return examine(name, explain)
