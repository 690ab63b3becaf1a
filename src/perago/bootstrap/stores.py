"""Which store the settings choose, and how it is opened."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perago.adapters.embedded.store import Durability, EmbeddedWorkspaceStore
from perago.ports import Clock, DirectStore, Fencing, WorkspaceStore
from perago.settings import Settings, require_complete

if TYPE_CHECKING:
    from perago.adapters.lakefs import LakeFSConnection


def open_embedded_store(settings: Settings, clock: Clock) -> EmbeddedWorkspaceStore:
    """The store in the home, which must exist."""
    return EmbeddedWorkspaceStore(settings.home, clock, durability=Durability(settings.durability))


def open_store(settings: Settings, clock: Clock, stack: ExitStack) -> WorkspaceStore:
    """The store that the settings choose; the stack closes it."""
    match settings.store:
        case "embedded":
            return stack.enter_context(open_embedded_store(settings, clock))
        case "lakefs":
            # Imported only where it is used: it brings HTTP and TLS.
            from perago.adapters.lakefs import LakeFSWorkspaceStore
            from perago.adapters.object_cache import ObjectCache

            cache = None
            if settings.cache_max_bytes:
                cache = ObjectCache(
                    settings.cache_directory / "content", max_bytes=settings.cache_max_bytes
                )
                stack.callback(cache.close)
            return stack.enter_context(
                LakeFSWorkspaceStore(lakefs_connection(settings), cache=cache)
            )


def as_direct_store(settings: Settings, store: WorkspaceStore) -> DirectStore | None:
    """The store with its open staging areas; None where no other program can write to one."""
    if settings.store != "lakefs":
        return None
    from perago.adapters.lakefs import LakeFSWorkspaceStore

    assert isinstance(store, LakeFSWorkspaceStore)
    return store


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInForce:
    """Which store the settings choose, and how far its fence can be trusted."""

    kind: str
    place: str
    fencing: Fencing

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}, {self.fencing} fence"


def describe_store(settings: Settings) -> StoreInForce:
    """What a store would be, without opening it."""
    match settings.store:
        case "embedded":
            return StoreInForce(kind="embedded", place=str(settings.home), fencing=Fencing.ATOMIC)
        case "lakefs":
            return StoreInForce(
                kind="lakefs", place=settings.lakefs_endpoint or "(not set)", fencing=Fencing.SOFT
            )


def lakefs_connection(settings: Settings) -> LakeFSConnection:
    """The lakeFS part of complete settings, as its adapter takes it."""
    from perago.adapters.lakefs import LakeFSConnection

    require_complete(settings)
    secret = settings.lakefs_secret_access_key
    assert settings.lakefs_endpoint is not None
    assert settings.lakefs_access_key_id is not None
    assert secret is not None
    return LakeFSConnection(
        endpoint=settings.lakefs_endpoint,
        access_key_id=settings.lakefs_access_key_id,
        secret_access_key=secret.get_secret_value(),
        ca_file=settings.lakefs_ca_file,
        timeout_seconds=settings.lakefs_timeout_seconds,
        retry_seconds=settings.lakefs_retry_seconds,
        concurrency=settings.transfer_concurrency,
        storage_namespace=settings.lakefs_storage_namespace,
        etag_is_md5=settings.lakefs_etag_is_md5,
        presign=settings.lakefs_presign,
    )
