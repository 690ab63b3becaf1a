"""The doctor's look at a faulty lake, by the names of its checks."""

from __future__ import annotations

from perago.adapters.lakefs import LakeFSConnection
from perago.adapters.lakefs.probe import probe_lakefs
from perago.app.diagnosis import Check
from perago.domain.ids import BranchName, RepositoryName
from tests.integration.lakefs.faulty_lake import MAIN, FaultyLake

TRIED = [
    "create branch",
    "write object",
    "write in parts",
    "delete object",
    "commit",
    "read object",
    "merge",
    "hard reset",
    "delete branch",
]
"""What is tried for real, in this order."""


def diagnose(
    lake: FaultyLake,
    *,
    connection: LakeFSConnection | None = None,
    repository: RepositoryName | None = None,
    branch: BranchName = MAIN,
    write: bool = True,
) -> dict[str, Check]:
    found = probe_lakefs(
        connection or lake.connection(), repository or lake.repository, branch, write=write
    )
    return {check.name: check for check in found}


def problems(checks: dict[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.is_problem]
