"""The suite's own test: each broken store fails the test that is there to catch it."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import pytest

from perago.testing.store_contract import (
    CanonicalTreeContract,
    CorruptionContract,
    DirectStoreContract,
    WorkspaceStoreContract,
)
from perago.testing.store_contract.branches import BranchContract
from perago.testing.store_contract.changes import ChangeContract
from perago.testing.store_contract.checkout import CheckoutContract
from perago.testing.store_contract.history import HistoryContract
from perago.testing.store_contract.last_check import LastCheckContract
from perago.testing.store_contract.objects import ObjectContract
from perago.testing.store_contract.publication import PublicationContract
from perago.testing.store_contract.repositories import RepositoryContract

BROKEN: Mapping[str, tuple[str, ...]] = {
    "CheckThenAct": (
        "test_of_racing_merges_exactly_one_is_published",
        "test_of_racing_relocations_exactly_one_moves_the_branch",
        "test_a_merge_and_a_relocation_never_both_succeed",
        "test_a_commit_that_lands_during_the_last_check_of_a_merge_stays_and_is_found_out",
    ),
    "MergeIgnoresExpectedHead": (
        "test_a_merge_into_a_branch_that_is_elsewhere_is_found_out",
        "test_of_racing_merges_exactly_one_is_published",
    ),
    "RelocateIgnoresExpectedHead": (
        "test_a_branch_that_is_elsewhere_is_not_relocated",
        "test_of_racing_relocations_exactly_one_moves_the_branch",
    ),
    "MergeKeepsTwoParents": (
        "test_a_merge_has_the_expected_parent_and_the_staged_tree",
        "test_there_is_never_an_empty_merge",
    ),
    "BranchesAreOverwritten": ("test_an_existing_branch_is_never_overwritten",),
    "BranchCreationIsNotAtomic": ("test_of_racing_branch_creations_exactly_one_succeeds",),
    "DeletingTakesCommitsAlong": ("test_a_deleted_branch_is_gone_and_its_commits_stay_readable",),
    "HiddenBranchesShow": ("test_branches_are_listed_sorted_and_hidden_ones_only_when_asked_for",),
    "CheckoutHardLinks": ("test_files_are_private_writable_copies",),
    "CheckoutWritesOver": ("test_nothing_is_written_over",),
    "RoomAtAnyPrice": ("test_making_room_takes_nothing_that_anybody_needs",),
    "CheckoutTrustsItsContent": ("test_damaged_content_is_refused_and_named",),
    "ListsInUtf16Order": ("test_a_listing_is_in_the_order_of_utf8_bytes",),
    "PrefixIsADirectory": ("test_a_prefix_is_the_beginning_of_a_path",),
    "PathsAreNormalised": ("test_any_text_is_stored_and_listed_verbatim",),
    "CommitDropsTheUntouched": ("test_a_commit_differs_in_exactly_the_given_objects",),
    "TreesDependOnHistory": ("test_equal_content_has_the_equal_tree_whatever_led_to_it",),
    "CommitTrustsTheScan": ("test_a_file_that_changed_after_its_scan_is_refused",),
    "DeletesWhatIsNotThere": ("test_a_delete_of_what_is_not_there_is_refused",),
    "ReadsWhatIsNotThere": ("test_an_object_that_is_not_there_is_named",),
    "NobodyIsAsked": (
        "test_the_last_check_is_asked_once_before_the_branch_moves",
        "test_what_the_last_check_raises_keeps_the_branch_where_it_is",
    ),
    "NobodyLooksAtTheClock": (
        "test_the_last_check_is_asked_once_before_the_branch_moves",
        "test_what_the_last_check_raises_keeps_the_branch_where_it_is",
    ),
    "SoftStoreThatLooksTooEarly": (
        "test_a_commit_that_lands_during_the_last_check_is_never_relocated_away",
    ),
    "SoftStoreThatLies": ("test_of_racing_merges_exactly_one_is_published",),
    "SoftStoreThatMovesNothing": ("test_a_relocated_branch_stands_where_it_was_sent",),
}

BROKEN_DIRECT: Mapping[str, tuple[str, ...]] = {
    "OverlooksTheRemoved": ("test_changes_are_seen_before_they_are_committed",),
    "CommitsAnywhere": ("test_a_staging_that_stands_elsewhere_is_not_committed",),
    "CommitsNothing": ("test_what_was_written_can_be_removed_again",),
    "OneAreaForAll": ("test_one_staging_does_not_show_what_is_on_another",),
    "ComparesBackwards": ("test_a_commit_holds_exactly_what_the_branch_showed",),
    "MarkersDoNotShow": ("test_a_marker_is_an_object_like_any_other",),
}

CASES = [
    (kind, test) for kind, tests in [*BROKEN.items(), *BROKEN_DIRECT.items()] for test in tests
]

PARTS = (
    RepositoryContract,
    BranchContract,
    HistoryContract,
    ObjectContract,
    CheckoutContract,
    ChangeContract,
    PublicationContract,
    LastCheckContract,
    CanonicalTreeContract,
    CorruptionContract,
    DirectStoreContract,
)

Results = Mapping[tuple[str, str], set[str]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Results:
    """What became of each (class, test): a set, for a test may have parameters."""
    chosen = [
        *_node_ids("broken_stores", BROKEN, controls=("Sound", "SoftStore")),
        *_node_ids("broken_direct_stores", BROKEN_DIRECT, controls=("SoundDirect",)),
    ]
    report = tmp_path_factory.mktemp("report") / "junit.xml"
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_", "PERAGO_"))
    }
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            f"--junitxml={report}",
            *chosen,
        ],
        cwd=project_root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == pytest.ExitCode.TESTS_FAILED, answer.stdout + answer.stderr
    found: dict[tuple[str, str], set[str]] = {}
    for case in ET.parse(report).iter("testcase"):
        kind = case.attrib["classname"].rpartition(".Test")[2]
        test = case.attrib["name"].partition("[")[0]
        outcome = next((child.tag for child in case), "passed")
        found.setdefault((kind, test), set()).add(outcome)
    return found


def _node_ids(
    module: str, broken: Mapping[str, tuple[str, ...]], *, controls: tuple[str, ...]
) -> list[str]:
    """The tests that the broken stores fail, and the same ones for stores that are sound."""
    every = sorted({test for tests in broken.values() for test in tests})
    return [
        f"tests/contract/{module}.py::Test{kind}::{test}"
        for kind, tests in [*broken.items(), *((control, every) for control in controls)]
        for test in tests
    ]


def test_no_part_of_the_suite_hides_a_test_of_another() -> None:
    class Whole(
        WorkspaceStoreContract, CanonicalTreeContract, CorruptionContract, DirectStoreContract
    ):
        pass

    defined = [name for part in PARTS for name in vars(part) if name.startswith("test_")]
    assert sorted(defined) == sorted(name for name in dir(Whole) if name.startswith("test_"))


@pytest.mark.parametrize(("kind", "test"), CASES)
def test_a_broken_store_fails(results: Results, kind: str, test: str) -> None:
    outcomes = results[kind, test]
    assert "failure" in outcomes
    assert outcomes <= {"failure", "passed"}


@pytest.mark.parametrize("kind", ["Sound", "SoftStore", "SoundDirect"])
def test_a_store_that_keeps_the_contract_passes(results: Results, kind: str) -> None:
    outcomes = [outcome for (ran, _), outcome in results.items() if ran == kind]
    assert len(outcomes) > 5
    assert all(outcome == {"passed"} for outcome in outcomes)
