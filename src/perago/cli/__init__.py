"""The command line: parse, call, render, exit.

This package imports nothing heavy: an executor process imports the script that started its
supervisor, and must not pay for a terminal that it does not have.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The `perago` command."""
    from perago.cli.app import run_app

    sys.exit(run_app(sys.argv[1:]))
