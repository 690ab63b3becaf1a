"""What is decided once about every attempt."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPolicy:
    """Choices that are the same for all attempts of a worker."""

    replace_unlabelled: bool = True
    """Whether a head without Perago metadata may be taken for an abandoned publication."""

    keep_failed_staging: bool = False
    """Whether a failed attempt leaves its staging branch for people to look at."""

    leave_report_to_caller: bool = False
    """Whether whoever runs the attempt reports it, where it leaves nothing to clean up."""

    access: Access = Access.LOCAL
    """How Spark bodies reach their files, where a task does not say."""
