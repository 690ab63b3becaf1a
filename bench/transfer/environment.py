"""What has to be there first: lakeFS, lakectl, and the peer in an environment of its own.

All of it is made once and kept in Perago's cache directory.
"""

import os
import subprocess
import sys
from pathlib import Path

from perago.adapters.servers import Binary, GoProgram, Progress, provide_binary
from perago.settings import resolve_settings

PEER = "0.6.1"
REQUIREMENTS = Path(__file__).with_name("peer-requirements.txt")


def provide(program: GoProgram) -> Binary:
    """The program from PATH or the cache; else it is built, which takes minutes."""
    return provide_binary(
        program,
        cache=cache_directory(),
        environment=os.environ,
        progress=Progress(say=lambda line: print(line, flush=True)),
    )


def make_peer_environment() -> Path:
    """The Python of an environment that holds the peer and what it needs, all of it pinned."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = cache_directory() / "bench" / f"peer-{PEER}-python-{version}"
    python, stamp = directory / "bin" / "python", directory / "complete"
    if not stamp.exists() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        print(f"installing the peer, perago {PEER}, into {directory} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        install = ("install", "--quiet", "--require-hashes", "-r", REQUIREMENTS)
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *install], check=True)
        # Written last, so that an interrupted installation starts again.
        stamp.write_bytes(REQUIREMENTS.read_bytes())
    return python


def cache_directory() -> Path:
    """Where Perago keeps tools."""
    return resolve_settings().settings.cache_directory
