"""The machine that figures are of."""

import os
import platform


def describe_machine() -> dict[str, object]:
    """What to keep beside figures."""
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
