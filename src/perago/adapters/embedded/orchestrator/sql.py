"""All SQL of the embedded orchestrator, named and explained.

Moments are whole microseconds since 1970 in UTC. JSON is text.
"""

from __future__ import annotations

SCHEMA_VERSION = 2

# Readers never wait for the writer. NORMAL loses nothing to a killed process; to a power cut it
# can lose the last moments, which then count as never reported and are retried.
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA foreign_keys = ON")

SCHEMA = (
    """
    CREATE TABLE task_definitions (
        name    TEXT PRIMARY KEY,
        source  TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE workflow_definitions (
        name     TEXT NOT NULL,
        version  INTEGER NOT NULL,
        source   TEXT NOT NULL,
        PRIMARY KEY (name, version)
    )
    """,
    # One row: what turns the machine's steady clock into the engine's time (see `engine_time`).
    """
    CREATE TABLE clock (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        boot    TEXT NOT NULL,
        offset  INTEGER NOT NULL
    )
    """,
    # `number` counts up, so that newest first needs no clock. `source` is the definition that the
    # instance was started with, TaskDefs included. `wake_up_at` is NULL when time changes nothing.
    """
    CREATE TABLE instances (
        number      INTEGER PRIMARY KEY AUTOINCREMENT,
        id          TEXT NOT NULL UNIQUE,
        source      TEXT NOT NULL,
        status      TEXT NOT NULL,
        input       TEXT NOT NULL,
        output      TEXT NOT NULL,
        reason      TEXT,
        started_at  INTEGER NOT NULL,
        ended_at    INTEGER,
        wake_up_at  INTEGER
    )
    """,
    "CREATE INDEX instances_to_wake ON instances (wake_up_at) WHERE wake_up_at IS NOT NULL",
    # One row per attempt; the columns are those of TaskRecord.
    """
    CREATE TABLE attempts (
        instance         INTEGER NOT NULL REFERENCES instances (number),
        seq              INTEGER NOT NULL,
        task_id          TEXT NOT NULL UNIQUE,
        reference_name   TEXT NOT NULL,
        task_name        TEXT NOT NULL,
        task_type        TEXT NOT NULL,
        status           TEXT NOT NULL,
        input            TEXT NOT NULL,
        output           TEXT NOT NULL,
        retry_count      INTEGER NOT NULL,
        retried_task_id  TEXT,
        worker_id        TEXT,
        poll_count       INTEGER NOT NULL,
        reason           TEXT,
        scheduled_at     INTEGER NOT NULL,
        available_at     INTEGER NOT NULL,
        started_at       INTEGER,
        updated_at       INTEGER,
        ended_at         INTEGER,
        wait_until       INTEGER,
        PRIMARY KEY (instance, seq)
    )
    """,
    # The queue: what waits for a worker, in the order in which it is handed out, so that the head
    # for given tasks is found by reading from its start, without sorting.
    """
    CREATE INDEX attempts_waiting ON attempts (available_at, instance, seq, task_name)
        WHERE status = 'SCHEDULED'
    """,
    # For concurrentExecLimit.
    """
    CREATE INDEX attempts_in_progress ON attempts (task_name)
        WHERE status = 'IN_PROGRESS'
    """,
    # For the rate limit.
    "CREATE INDEX attempts_started ON attempts (task_name, started_at)",
    """
    CREATE TABLE logs (
        task_id  TEXT NOT NULL REFERENCES attempts (task_id),
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        at       INTEGER NOT NULL,
        line     TEXT NOT NULL
    )
    """,
    "CREATE INDEX logs_of_task ON logs (task_id, number)",
)

SELECT_CLOCK = "SELECT boot, offset FROM clock"
PUT_CLOCK = "INSERT OR REPLACE INTO clock (id, boot, offset) VALUES (1, ?, ?)"

PUT_TASK_DEFINITION = """
    INSERT INTO task_definitions (name, source) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET source = excluded.source
"""
SELECT_TASK_DEFINITION = "SELECT source FROM task_definitions WHERE name = ?"

PUT_WORKFLOW_DEFINITION = """
    INSERT INTO workflow_definitions (name, version, source) VALUES (?, ?, ?)
    ON CONFLICT (name, version) DO UPDATE SET source = excluded.source
"""
# The version that is asked for, or with NULL the newest.
SELECT_WORKFLOW_DEFINITION = """
    SELECT source FROM workflow_definitions
    WHERE name = :name AND (:version IS NULL OR version = :version)
    ORDER BY version DESC LIMIT 1
"""

INSERT_INSTANCE = """
    INSERT INTO instances
        (id, source, status, input, output, reason, started_at, ended_at, wake_up_at)
    VALUES
        (:id, :source, :status, :input, :output, :reason, :started_at, :ended_at, :wake_up_at)
"""
# Definition and input never change, and the start only with the machine's clock.
UPDATE_INSTANCE = """
    UPDATE instances
    SET started_at = :started_at, status = :status, output = :output, reason = :reason,
        ended_at = :ended_at, wake_up_at = :wake_up_at
    WHERE id = :id
"""
SELECT_INSTANCE = """
    SELECT number, id, source, status, input, output, reason, started_at, ended_at
    FROM instances WHERE id = ?
"""
SELECT_OWNER = """
    SELECT i.id FROM attempts AS a JOIN instances AS i ON i.number = a.instance
    WHERE a.task_id = ?
"""
# Of the workflow that is asked for, or with NULL of any.
SELECT_NEWEST = """
    SELECT id FROM instances
    WHERE :name IS NULL OR json_extract(source, '$.name') = :name
    ORDER BY number DESC LIMIT :limit
"""
SELECT_NEWEST_UNFINISHED = """
    SELECT id FROM instances
    WHERE status IN ('RUNNING', 'PAUSED')
        AND (:name IS NULL OR json_extract(source, '$.name') = :name)
    ORDER BY number DESC LIMIT :limit
"""
SELECT_DUE = "SELECT id FROM instances WHERE wake_up_at <= ? ORDER BY wake_up_at LIMIT 1"

# A new attempt, or the new state of one.
PUT_ATTEMPT = """
    INSERT INTO attempts
        (instance, seq, task_id, reference_name, task_name, task_type, status, input, output,
         retry_count, retried_task_id, worker_id, poll_count, reason, scheduled_at, available_at,
         started_at, updated_at, ended_at, wait_until)
    VALUES
        ((SELECT number FROM instances WHERE id = :instance_id), :seq, :task_id, :reference_name,
         :task_name, :task_type, :status, :input, :output, :retry_count, :retried_task_id,
         :worker_id, :poll_count, :reason, :scheduled_at, :available_at, :started_at, :updated_at,
         :ended_at, :wait_until)
    ON CONFLICT (instance, seq) DO UPDATE SET
        status = excluded.status, output = excluded.output, worker_id = excluded.worker_id,
        poll_count = excluded.poll_count, reason = excluded.reason,
        available_at = excluded.available_at, started_at = excluded.started_at,
        updated_at = excluded.updated_at, ended_at = excluded.ended_at,
        wait_until = excluded.wait_until
"""
SELECT_ATTEMPTS = "SELECT * FROM attempts WHERE instance = ? ORDER BY seq"
# The head of the queue over several tasks: oldest first, then by start of the workflow. The index
# is named because SQLite prefers one that would read all attempts there ever were.
SELECT_NEXT_AVAILABLE = """
    SELECT i.id, a.task_id
    FROM attempts AS a INDEXED BY attempts_waiting JOIN instances AS i ON i.number = a.instance
    WHERE a.status = 'SCHEDULED' AND a.available_at <= :now
        AND a.task_name IN (SELECT value FROM json_each(:task_names))
    ORDER BY a.available_at, a.instance, a.seq LIMIT 1
"""
COUNT_IN_PROGRESS = """
    SELECT count(*) FROM attempts INDEXED BY attempts_in_progress
    WHERE task_name = ? AND status = 'IN_PROGRESS'
"""
COUNT_STARTED_SINCE = "SELECT count(*) FROM attempts WHERE task_name = ? AND started_at > ?"

INSERT_LOG_LINE = "INSERT INTO logs (task_id, at, line) VALUES (?, ?, ?)"
SELECT_LOG = "SELECT at, line FROM logs WHERE task_id = ? ORDER BY number"
