"""Every statement of the store, named.

Ids of commits are hexadecimal text, ids of trees and contents are 32 bytes, times are
microseconds since 1970. `contents.data` is null when the content is a file.
"""

from __future__ import annotations

APPLICATION_ID = 0x50455241  # "PERA"
FORMAT_VERSION = 1

SCHEMA = (
    """
    CREATE TABLE repositories (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    )
    """,
    """
    CREATE TABLE branches (
        repository INTEGER NOT NULL REFERENCES repositories (id),
        name TEXT NOT NULL,
        head TEXT NOT NULL,
        hidden INTEGER NOT NULL,
        PRIMARY KEY (repository, name)
    ) WITHOUT ROWID
    """,
    # `id` is the hash of `record`, which holds everything there is to know of the commit.
    """
    CREATE TABLE commits (
        id TEXT PRIMARY KEY,
        repository INTEGER NOT NULL REFERENCES repositories (id),
        record TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX commits_by_age ON commits (created_at)",
    # The roots and leaves of manifests; `id` is the hash of `body`.
    """
    CREATE TABLE trees (
        id BLOB PRIMARY KEY,
        body BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE contents (
        digest BLOB PRIMARY KEY,
        size INTEGER NOT NULL,
        data BLOB,
        created_at INTEGER NOT NULL
    )
    """,
    # Writes under way; `pinned` is a run of 32-byte digests that must not be collected.
    """
    CREATE TABLE sessions (
        token TEXT PRIMARY KEY,
        pinned BLOB NOT NULL
    ) WITHOUT ROWID
    """,
)

# -- repositories and branches

INSERT_REPOSITORY = "INSERT INTO repositories (name) VALUES (?) ON CONFLICT DO NOTHING"
SELECT_REPOSITORY = "SELECT id FROM repositories WHERE name = ?"
SELECT_REPOSITORIES = "SELECT name FROM repositories ORDER BY name"
INSERT_BRANCH = """
    INSERT INTO branches (repository, name, head, hidden) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
SELECT_HEAD = "SELECT head FROM branches WHERE repository = ? AND name = ?"
SELECT_BRANCHES = """
    SELECT name, head, hidden FROM branches
    WHERE repository = ? AND hidden <= ? ORDER BY name
"""
SELECT_ALL_HEADS = "SELECT head FROM branches"
SELECT_ALL_BRANCHES = """
    SELECT repositories.name, branches.name, branches.head
    FROM branches JOIN repositories ON repositories.id = branches.repository
"""
UPDATE_HEAD = "UPDATE branches SET head = ? WHERE repository = ? AND name = ?"
DELETE_BRANCH = "DELETE FROM branches WHERE repository = ? AND name = ?"

# -- commits and trees

INSERT_COMMIT = "INSERT INTO commits (repository, id, record, created_at) VALUES (?, ?, ?, ?)"
SELECT_COMMIT = "SELECT record FROM commits WHERE repository = ? AND id = ?"
SELECT_COMMIT_ANYWHERE = "SELECT record FROM commits WHERE id = ?"
# Ids are lower-case hexadecimal, so "g" ends every range of a prefix.
SELECT_COMMITS_BY_PREFIX = """
    SELECT id FROM commits WHERE repository = ? AND id >= ? AND id < ? || 'g' LIMIT 2
"""
SELECT_COMMIT_IDS = "SELECT id FROM commits"
SELECT_YOUNG_COMMITS = "SELECT id FROM commits WHERE created_at > ?"
SELECT_ALL_COMMITS = """
    SELECT repositories.name, commits.id, commits.record
    FROM commits JOIN repositories ON repositories.id = commits.repository
"""
DELETE_COMMIT = "DELETE FROM commits WHERE id = ?"
INSERT_TREE = "INSERT INTO trees (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
SELECT_TREE = "SELECT body FROM trees WHERE id = ?"
SELECT_ALL_TREES = "SELECT id, body FROM trees"
SELECT_TREE_SIZES = "SELECT id, length(body) FROM trees"
DELETE_TREE = "DELETE FROM trees WHERE id = ?"

# -- contents and the writes under way

# A content that is written again replaces one that was damaged.
UPSERT_CONTENT = """
    INSERT INTO contents (digest, size, data, created_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (digest) DO UPDATE SET data = excluded.data, size = excluded.size
"""
SELECT_CONTENT_IS_FILE = "SELECT data IS NULL FROM contents WHERE digest = ?"
SELECT_OLD_CONTENTS = "SELECT digest, size FROM contents WHERE created_at <= ?"
SELECT_ALL_CONTENTS = "SELECT digest, size, CAST(data AS BLOB) FROM contents"
DELETE_CONTENT = "DELETE FROM contents WHERE digest = ?"
INSERT_SESSION = "INSERT INTO sessions (token, pinned) VALUES (?, ?)"
SELECT_SESSIONS = "SELECT token, pinned FROM sessions"
DELETE_SESSION = "DELETE FROM sessions WHERE token = ?"


def select_stored(count: int) -> str:
    """Which of `count` digests are stored, and whether as a file."""
    marks = ",".join("?" * count)
    return f"SELECT digest, size, data IS NULL FROM contents WHERE digest IN ({marks})"  # noqa: S608 - marks only


def select_data(count: int) -> str:
    """The data of `count` digests; the cast keeps a damaged row from being taken for text."""
    marks = ",".join("?" * count)
    return f"SELECT digest, CAST(data AS BLOB) FROM contents WHERE digest IN ({marks})"  # noqa: S608 - marks only
