"""Which lakeFS server, as whom, and how hard it may be worked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSConnection:
    """Everything that a client of one server needs; its repr shows no secret.

    `timeout_seconds` bounds every call but a publication, whose bound comes from its task's
    `PublishBudget`. A call that may be repeated is, for `retry_seconds` after its first failure; a
    server that was never reached is given up sooner. `storage_namespace` is where
    `create_repository` puts new repositories: a directory-like address (`s3://bucket/lake`), below
    which each gets a place of its own; the server's own default where it is None. `etag_is_md5`
    says that a checksum that looks like an MD5 is one; on block stores that encrypt with their own
    keys it is not. A file of at least `multipart_bytes` is sent in parts of `part_bytes`. `presign`
    lets larger objects go between this host and the block store directly, where the server can sign
    addresses for that.
    """

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    ca_file: Path | None = None
    timeout_seconds: float = 30.0
    retry_seconds: float = 30.0
    concurrency: int = 16
    storage_namespace: str | None = None
    etag_is_md5: bool = True
    multipart_bytes: int = 128 << 20
    part_bytes: int = 16 << 20
    presign: bool = False
