"""Writes local files to a private branch as objects.

Invariant: what the server stored is what was scanned: the file's digest is checked while it is
read, before its last byte is sent, and the server's MD5 of what arrived is compared with ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.multipart import MultipartUpload, garbled
from perago.adapters.lakefs.part_upload import NewObject
from perago.adapters.lakefs.parted_file import (
    PartedFile,
    PartPlan,
    plan_parts,
    plan_whole,
)
from perago.adapters.lakefs.transfers import OnBytes, Transfers
from perago.domain.ids import BranchName, ObjectPath, RepositoryName
from perago.ports import LocalFile, OnTransfer


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is sent, and tried again, by itself: a file, or one part of a big one."""

    path: ObjectPath
    send: Callable[[OnBytes], None]


def upload_files(
    data: DataPlane,
    repository: RepositoryName,
    branch: BranchName,
    writes: Mapping[ObjectPath, LocalFile],
    *,
    concurrency: int,
    on_transfer: OnTransfer,
) -> None:
    """Upload every file, side by side; a big one in parts, which go side by side too."""
    with ExitStack() as stack:
        uploads = _Uploads(data, repository, branch, stack, on_transfer)
        # A part is no object, so those are counted where one is done.
        transfers = Transfers(concurrency, data.patience, lambda _, count: on_transfer(0, count))
        transfers.run(
            uploads.plan(writes),
            lambda piece, on_bytes: piece.send(on_bytes),
            total=len(writes),
            object_of=lambda piece: piece.path,
        )


class _Uploads:
    """Cuts the work into pieces that can be sent, and tried again, one by one."""

    def __init__(
        self,
        data: DataPlane,
        repository: RepositoryName,
        branch: BranchName,
        stack: ExitStack,
        on_transfer: OnTransfer,
    ) -> None:
        self._data = data
        self._repository = repository
        self._branch = branch
        self._stack = stack
        self._on_transfer = on_transfer

    def plan(self, writes: Mapping[ObjectPath, LocalFile]) -> Iterator[_Piece]:
        """The pieces, those of big files first, so that none of them is alone in the end."""
        for path, file in writes.items():
            if (plan := self._plan_parts(file)) is not None:
                target = self._describe(path, file)
                upload = MultipartUpload(self._data, target, file, plan)
                self._stack.callback(upload.close)
                for number in plan.numbers:
                    yield _Piece(path, partial(self._send_part, upload, target, file, number))
        for path, file in writes.items():
            if self._plan_parts(file) is None:
                yield _Piece(path, partial(self._send_whole, self._describe(path, file), file))

    def _plan_parts(self, file: LocalFile) -> PartPlan | None:
        """How a file is cut; None where it is sent in one piece."""
        if not self._data.wants_parts(file.size):
            return None
        return plan_parts(file.size, self._data.part_bytes)

    def _describe(self, path: ObjectPath, file: LocalFile) -> NewObject:
        return NewObject(
            repository=self._repository,
            branch=self._branch,
            path=path,
            size=file.size,
            digest=file.digest,
        )

    def _send_part(
        self,
        upload: MultipartUpload,
        target: NewObject,
        file: LocalFile,
        number: int,
        on_bytes: OnBytes,
    ) -> None:
        if upload.begin(on_bytes):
            if upload.send(number, on_bytes):
                upload.complete(on_bytes)
                self._on_transfer(1, 0)
        elif number == 1:
            self._send_whole(target, file, on_bytes)

    def _send_whole(self, target: NewObject, file: LocalFile, on_bytes: OnBytes) -> None:
        source = PartedFile(file, plan_whole(file.size))
        try:
            body = source.whole(on_bytes)
            received = self._data.upload(
                target.repository,
                target.branch,
                target.path,
                body,
                size=target.size,
                digest=target.digest,
            )
        finally:
            source.close()
        if received != body.md5.hex():
            raise garbled(target)
        self._on_transfer(1, 0)
