"""Brings the objects of a commit here as files: from the host's cache, else from the server.

Invariant: every file that is delivered was hashed on its way and agrees with all that is known of
the object: its size, Perago's digest where its writer left one, else the server's MD5. Only what
was compared so is cached, under an identity that holds the server, the repository and the hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from blake3 import blake3

from perago.adapters.lakefs.answers import damaged
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.transfers import OnBytes, Transfers
from perago.adapters.lakefs.wire import CHUNK_BYTES, ObjectBody
from perago.adapters.localfs.copying import create_target, write_whole
from perago.adapters.localfs.disk_errors import disk_errors
from perago.adapters.object_cache import CacheWriter, Intake, ObjectCache
from perago.adapters.patience import TransientError
from perago.domain.errors import CorruptStoreError
from perago.domain.ids import CommitId, Digest, ObjectPath, RelativePath, RepositoryName
from perago.domain.workspace import ObjectEntry, disk_use, parents_of
from perago.ports import OnTransfer

_MD5 = re.compile(r"[0-9a-f]{32}")
"""What the MD5 of a content looks like. After an upload in parts the gateway's checksum does too,
but is made of the MD5s of the parts; the API's has a count behind it."""

_LEAST_PART_BYTES = 5 << 20
"""No part but the last is smaller on S3, so a smaller object has one part at the most."""


_SMALL_BYTES = 64 * 1024
_COPY_THREADS = min(4, os.cpu_count() or 1)
"""A copy from the cache costs processor time only: more threads than that get in each other's way,
and for small files, where Python itself is most of the cost, any second one does."""

_File = tuple[RelativePath, ObjectEntry]


class Download:
    """One checkout."""

    def __init__(
        self,
        data: DataPlane,
        cache: ObjectCache | None,
        repository: RepositoryName,
        commit: CommitId,
        *,
        server: str,
        trust_md5: bool,
    ) -> None:
        self._server = server
        self._data = data
        self._cache = cache
        self._repository = repository
        self._commit = commit
        self._trust_md5 = trust_md5
        self._digests: dict[RelativePath, Digest] = {}

    def write_files(
        self,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        concurrency: int,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        """Write every object below a directory; the digest of each file."""
        with disk_errors(directory, "write to"):
            for parent in sorted({parent for path in files for parent in parents_of(path)}):
                (directory / parent).mkdir(exist_ok=True)
            missing = self._deliver_cached(files, directory, on_transfer)
            with self._open_intake(missing, directory) as intake:

                def fetch(file: _File, on_bytes: OnBytes) -> None:
                    path, entry = file
                    self._digests[path] = self._keep(entry, f"{directory}/{path}", intake, on_bytes)

                Transfers(concurrency, self._data.patience, on_transfer).run(
                    missing, fetch, total=len(missing)
                )
        return {path: self._digests[path] for path in files}

    def _deliver_cached(
        self,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> list[_File]:
        """Copy what this host has; return what it has not, or no longer whole."""
        cache = self._cache
        if cache is None:
            return list(files.items())
        known = self._find_cached(cache, files.values())
        missing = [(path, entry) for path, entry in files.items() if entry.path not in known]
        cached = [(path, entry) for path, entry in files.items() if entry.path in known]

        def deliver(file: _File, on_bytes: OnBytes) -> None:
            path, entry = file
            moved = 0

            def count(size: int) -> None:
                nonlocal moved
                moved += size
                on_bytes(size)

            digest = known[entry.path]
            if cache.deliver(digest, entry.size, f"{directory}/{path}", count):
                self._digests[path] = digest
            else:
                # It will be counted when it is downloaded.
                on_transfer(-1, -moved)
                missing.append(file)

        for is_small, threads in ((True, 1), (False, _COPY_THREADS)):
            part = [file for file in cached if (file[1].size <= _SMALL_BYTES) is is_small]
            Transfers(threads, self._data.patience, on_transfer).run(part, deliver, total=len(part))
        return missing

    def _find_cached(
        self, cache: ObjectCache, entries: Collection[ObjectEntry]
    ) -> dict[ObjectPath, Digest]:
        """Which objects this host has seen, unless their writer says that it was something else."""
        identities = {
            entry.path: identity for entry in entries if (identity := self._identify(entry))
        }
        found = cache.find(set(identities.values()))
        return {
            entry.path: digest
            for entry in entries
            if (digest := found.get(identities.get(entry.path, ""))) is not None
            and entry.digest in (None, digest)
        }

    def _open_intake(
        self, missing: Collection[_File], directory: Path
    ) -> AbstractContextManager[Intake | None]:
        if self._cache is None:
            return nullcontext()
        still_to_write = sum(disk_use(entry.size) for _, entry in missing)
        return self._cache.intake(keep_free=still_to_write, directory=directory)

    def _keep(
        self, entry: ObjectEntry, target: str, intake: Intake | None, on_bytes: OnBytes
    ) -> Digest:
        """Download one object, into the cache too where there is room."""
        identity = self._identify(entry)
        writer = intake.begin(entry.size) if intake is not None and identity else None
        try:
            digest = self._fetch(entry, target, writer, on_bytes)
        except BaseException:
            if writer is not None:
                writer.discard()
            raise
        if writer is not None and identity:
            writer.keep(identity, digest)
        if intake is not None:
            intake.note_written(entry.size)
        return digest

    def _fetch(
        self, entry: ObjectEntry, target: str, writer: CacheWriter | None, on_bytes: OnBytes
    ) -> Digest:
        """Download one object into a new file; a file that is not right is removed again."""
        descriptor = create_target(target)
        try:
            try:
                digest = self._stream(entry, descriptor, writer, on_bytes)
            finally:
                os.close(descriptor)
        except BaseException:
            Path(target).unlink(missing_ok=True)
            raise
        return digest

    def _stream(
        self, entry: ObjectEntry, descriptor: int, writer: CacheWriter | None, on_bytes: OnBytes
    ) -> Digest:
        hasher, total = blake3(), 0
        md5 = hashlib.md5(usedforsecurity=False) if self._needs_md5(entry) else None
        with self._open(entry) as body:
            while chunk := body.read(CHUNK_BYTES):
                total += len(chunk)
                if total > entry.size:
                    break
                hasher.update(chunk)
                if md5 is not None:
                    md5.update(chunk)
                write_whole(descriptor, chunk)
                if writer is not None:
                    writer.write(chunk)
                on_bytes(len(chunk))
        digest = Digest(hasher.hexdigest())
        if total != entry.size:
            raise self._damaged(entry, f"{entry.size} bytes were listed, and {total} or more came")
        if entry.digest is not None and entry.digest != digest:
            raise self._damaged(entry, "its content does not match its BLAKE3 hash")
        if md5 is not None and not self._agrees(entry, md5.digest(), digest, on_bytes):
            raise self._damaged(entry, "its content does not match its MD5 checksum")
        return digest

    def _agrees(self, entry: ObjectEntry, md5: bytes, digest: Digest, on_bytes: OnBytes) -> bool:
        """Whether a content may be the one that a checksum of the server stands for.

        That of several parts cannot be computed without knowing how they were cut. Then the object
        is read once more: the network does not garble it twice in the same way.
        """
        of_one_part = hashlib.md5(md5, usedforsecurity=False).hexdigest()
        if entry.checksum in (md5.hex(), of_one_part):
            return True
        if entry.size < _LEAST_PART_BYTES:
            return False
        again = blake3()
        with self._open(entry) as body:
            while chunk := body.read(CHUNK_BYTES):
                again.update(chunk)
                on_bytes(0)
        return again.hexdigest() == digest

    def _open(self, entry: ObjectEntry) -> AbstractContextManager[ObjectBody]:
        return self._data.open(self._repository, self._commit, entry.path, size=entry.size)

    def _needs_md5(self, entry: ObjectEntry) -> bool:
        """MD5 is slow: it is asked only where the writer left no better hash."""
        return (
            self._trust_md5 and entry.digest is None and _MD5.fullmatch(entry.checksum) is not None
        )

    def _identify(self, entry: ObjectEntry) -> str | None:
        """The name of an object in the cache; None where no hash will prove its content."""
        if entry.digest is None and not self._needs_md5(entry):
            return None
        return identify(self._server, self._repository, entry)

    def _damaged(self, entry: ObjectEntry, reason: str) -> TransientError:
        return damaged(
            CorruptStoreError(
                f"object {entry.path!r} of commit {self._commit} is damaged: {reason}",
                hint="compare it with its source; restore it, or start from another commit",
            )
        )


def identify(server: str, repository: RepositoryName, entry: ObjectEntry) -> str | None:
    """The name of an object's stored content: never used again for other content.

    Addresses and checksums are a server's word: those of two servers may be the same. The digest
    belongs to it, too: it may be what the content was proven by.
    """
    if entry.address is None:
        return None
    # As JSON, in which no two lists look alike whatever a name holds.
    return json.dumps([server, repository, entry.address, entry.checksum, entry.size, entry.digest])
