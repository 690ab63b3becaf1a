"""The workflow engine: Conductor's rules as pure functions over frozen values.

It does no I/O, reads no clock and draws no random number: the embedded orchestrator keeps its
state in SQLite, the in-memory one in a dictionary, and both decide here (ADR 0004).
"""
