"""Both ports without a server, on SQLite and plain files: the default, for one machine."""
