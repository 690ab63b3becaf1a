"""Ports on the local machine: attempt directories, locks, guardrails, the clock.

Import from the modules: the guardrails need pyarrow, and nothing else here does.
"""
