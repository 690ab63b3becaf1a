"""Every SQL statement of the cache's index.

A value of a damaged page may be of any type: what is read is cast, so that it cannot surprise.
`used` and `serial` count changes instead of telling the time, so no clock can confuse the order.
"""

from __future__ import annotations

APPLICATION_ID = 0x50524F43
FORMAT_VERSION = 1

# A power loss may lose the newest rows, but damages nothing.
SYNCHRONOUS = "PRAGMA synchronous = NORMAL"

SCHEMA = (
    """
    CREATE TABLE entries (
        digest BLOB PRIMARY KEY, disk INTEGER NOT NULL, used INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX entries_by_use ON entries (used)",
    # An identity's digest is true for ever, so it stays when the entry goes, and in one cell with
    # the identity: whatever page is lost, the two cannot be mixed up.
    """
    CREATE TABLE identities (
        identity BLOB PRIMARY KEY, digest BLOB NOT NULL, serial INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX identities_by_serial ON identities (serial)",
    "CREATE TABLE totals (entries INTEGER NOT NULL, disk INTEGER NOT NULL)",
    "INSERT INTO totals VALUES (0, 0)",
    """
    CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
        UPDATE totals SET entries = entries + 1, disk = disk + new.disk;
    END
    """,
    """
    CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
        UPDATE totals SET entries = entries - 1, disk = disk - old.disk;
    END
    """,
    """
    CREATE TRIGGER entry_resized AFTER UPDATE OF disk ON entries BEGIN
        UPDATE totals SET disk = disk - old.disk + new.disk;
    END
    """,
)

UPSERT_ENTRY = (
    "INSERT INTO entries VALUES (?, ?, (SELECT coalesce(max(used), 0) + 1 FROM entries))"
    " ON CONFLICT (digest) DO UPDATE SET disk = excluded.disk, used = excluded.used"
)
TOUCH_ENTRY = "UPDATE entries SET used = (SELECT max(used) + 1 FROM entries) WHERE digest = ?"
DELETE_ENTRY = "DELETE FROM entries WHERE digest = ?"
SELECT_BY_USE = "SELECT lower(hex(digest)), CAST(disk AS INTEGER) FROM entries ORDER BY used"
SELECT_TOTALS = "SELECT CAST(entries AS INTEGER), CAST(disk AS INTEGER) FROM totals"

UPSERT_IDENTITY = (
    "INSERT INTO identities VALUES"
    " (?, ?, (SELECT coalesce(max(serial), 0) + 1 FROM identities))"
    " ON CONFLICT (identity) DO UPDATE SET digest = excluded.digest, serial = excluded.serial"
)
# One hot content can have a new identity every day: the index keeps the newest million of all.
TRIM_IDENTITIES = (
    "DELETE FROM identities WHERE serial <= (SELECT max(serial) FROM identities) - 1000000"
)
_SELECT_IDENTITIES = (
    "SELECT identity, lower(hex(digest)) FROM identities JOIN entries USING (digest)"
    " WHERE identity IN"
)


def select_identities(count: int) -> str:
    """Which of so many identities lead to an entry, and to which."""
    marks = ",".join("?" * count)
    return f"{_SELECT_IDENTITIES} ({marks})"
