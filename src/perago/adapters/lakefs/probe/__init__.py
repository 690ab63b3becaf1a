"""Looks a lakeFS server over for `perago doctor`, as the one who would work on it.

Nothing but the throw-away branches of `trial` is ever changed.
"""

from perago.adapters.lakefs.probe.probe import probe_lakefs

__all__ = ["probe_lakefs"]
