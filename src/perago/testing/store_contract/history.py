"""Commits: read whole, resolved, followed back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perago.domain.errors import NotFoundInStoreError
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.testing.store_contract.bench import MAIN, NOWHERE, StoreBench, ignore_transfer


class HistoryContract:
    """What the port says of commits."""

    def test_a_commit_reads_as_it_was_made(self, bench: StoreBench) -> None:
        repository = bench.repository()
        metadata = {"perago.task": "säubern", "鍵": "値 😀", "quote": "\"'\\", "empty": ""}
        before = bench.head(repository)
        made = bench.store.commit_changes(
            repository,
            MAIN,
            writes={ObjectPath("a"): bench.file(b"1")},
            deletes=(),
            message="Straße, 道路 🛣\n\nsecond paragraph",
            metadata=metadata,
            on_transfer=ignore_transfer,
        )
        assert made.parents == (before,)
        assert made.message == "Straße, 道路 🛣\n\nsecond paragraph"
        assert dict(made.metadata) == metadata
        assert bench.second.read_commit(repository, made.id) == made
        assert bench.second.head(repository, MAIN) == made

    def test_commits_carry_the_time_in_utc(self, bench: StoreBench) -> None:
        repository = bench.repository()
        first = bench.commit(repository, MAIN, {"a": b"1"})
        second = bench.commit(repository, MAIN, {"a": b"2"})
        assert first.created_at.utcoffset() == timedelta(0)
        assert first.created_at <= second.created_at

    def test_two_equal_changes_are_two_commits(self, bench: StoreBench) -> None:
        repository = bench.repository()
        one = bench.stage(repository, bench.head(repository), {"a": b"1"})
        other = bench.stage(repository, bench.head(repository), {"a": b"1"})
        assert one.commit != other.commit

    def test_a_commit_is_read_by_its_whole_id_only(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        head = bench.head(repository)
        for wrong in (head[:12], MAIN, NOWHERE, ""):
            with pytest.raises(NotFoundInStoreError):
                bench.store.read_commit(repository, CommitId(wrong))
        with pytest.raises(NotFoundInStoreError, match="unknown"):
            bench.store.read_commit(RepositoryName("unknown"), head)

    def test_resolve_takes_a_branch_an_id_or_a_unique_beginning(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        new = bench.commit(repository, MAIN, {"a": b"2"}).id
        assert bench.second.resolve(repository, MAIN) == new
        for commit in (old, new):
            for ref in (commit, commit[:8], commit[:20]):
                assert bench.second.resolve(repository, ref) == commit

    def test_resolve_refuses_the_rest(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        head = bench.head(repository)
        elsewhere = bench.commit(bench.repository(), MAIN, {"a": b"1"}).id
        for wrong in (head[:7], head + "0", NOWHERE, NOWHERE[:8], "no-such-branch", "", elsewhere):
            with pytest.raises(NotFoundInStoreError):
                bench.store.resolve(repository, wrong)
        with pytest.raises(NotFoundInStoreError, match="unknown"):
            bench.store.resolve(RepositoryName("unknown"), MAIN)

    def test_a_deleted_branch_no_longer_resolves_but_its_commit_does(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository()
        staged = bench.stage(repository, bench.head(repository), {"a": b"1"})
        bench.store.delete_branch(repository, staged.branch)
        with pytest.raises(NotFoundInStoreError, match=staged.branch):
            bench.store.resolve(repository, staged.branch)
        assert bench.store.resolve(repository, staged.commit[:12]) == staged.commit

    def test_the_log_goes_from_newest_to_oldest(self, bench: StoreBench) -> None:
        repository = bench.repository()
        commits = [bench.store.head(repository, MAIN)]
        commits += [bench.commit(repository, MAIN, {"a": bytes([n])}) for n in range(5)]
        assert list(bench.second.log(repository, commits[-1].id)) == commits[::-1]
        assert list(bench.second.log(repository, commits[2].id)) == commits[2::-1]

    def test_the_log_of_a_branch_leaves_out_other_branches(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        fork = bench.head(repository)
        bench.store.create_branch(repository, BranchName("work"), fork)
        bench.commit(repository, MAIN, {"a": b"main"})
        own = bench.commit(repository, BranchName("work"), {"a": b"work"})
        log = [commit.id for commit in bench.store.log(repository, own.id)]
        assert log[:2] == [own.id, fork]
        assert len(log) == 3

    def test_the_log_of_what_is_not_there_is_refused(self, bench: StoreBench) -> None:
        repository = bench.repository()
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            list(bench.store.log(repository, NOWHERE))
        with pytest.raises(NotFoundInStoreError, match="unknown"):
            list(bench.store.log(RepositoryName("unknown"), bench.head(repository)))
