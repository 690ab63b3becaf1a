"""Processes: a supervisor that keeps leases, and executors that run attempts."""
