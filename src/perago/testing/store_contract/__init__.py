"""The contract of the WorkspaceStore port, as a suite that every adapter passes.

Subclass `WorkspaceStoreContract` in a test module and give it a `bench` fixture::

    class TestMyStore(WorkspaceStoreContract):
        @pytest.fixture
        def bench(self, tmp_path: Path) -> StoreBench:
            ...

Where `fencing` is soft, the races are judged by what a caller finds out afterwards. An adapter
whose stored bytes a test can damage also takes on `CorruptionContract`, and one whose tree ids
depend on content alone `CanonicalTreeContract`. `DirectStoreContract` is for stores with an open
staging area. The suite makes repositories of its own for each
test, so it runs on a shared server too.
"""

import pytest

_PARTS = (
    "bench",
    "branches",
    "canonical",
    "changes",
    "checkout",
    "corruption",
    "direct",
    "history",
    "last_check",
    "objects",
    "publication",
    "repositories",
)
for _part in _PARTS:
    # A failing assertion then shows its values, as in any test module.
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from perago.testing.store_contract.bench import StoreBench  # noqa: E402
from perago.testing.store_contract.branches import BranchContract  # noqa: E402
from perago.testing.store_contract.canonical import CanonicalTreeContract  # noqa: E402
from perago.testing.store_contract.changes import ChangeContract  # noqa: E402
from perago.testing.store_contract.checkout import CheckoutContract  # noqa: E402
from perago.testing.store_contract.corruption import CorruptionContract  # noqa: E402
from perago.testing.store_contract.direct import DirectStoreContract  # noqa: E402
from perago.testing.store_contract.history import HistoryContract  # noqa: E402
from perago.testing.store_contract.last_check import LastCheckContract  # noqa: E402
from perago.testing.store_contract.objects import ObjectContract  # noqa: E402
from perago.testing.store_contract.publication import PublicationContract  # noqa: E402
from perago.testing.store_contract.repositories import RepositoryContract  # noqa: E402

__all__ = [
    "CanonicalTreeContract",
    "CorruptionContract",
    "DirectStoreContract",
    "StoreBench",
    "WorkspaceStoreContract",
]


class WorkspaceStoreContract(
    RepositoryContract,
    BranchContract,
    HistoryContract,
    ObjectContract,
    CheckoutContract,
    ChangeContract,
    PublicationContract,
    LastCheckContract,
):
    """Every sentence of the port."""
