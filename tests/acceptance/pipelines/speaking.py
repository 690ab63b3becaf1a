"""A body that logs in every way."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from pydantic import BaseModel

from perago import Pipeline, WorkspaceSpec, task

log = logging.getLogger("speaking")


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


@task("speak", owner_email="data@example.com", workspace=WorkspaceSpec())
def speak(workspace: Path, params: Params) -> Result:
    print("printed")
    # By descriptor, as a program that it starts would.
    os.write(1, b"a secret without a logger: hunter22\n")
    log.info("from the body")
    log.info("a secret: %s", "hunter22")
    thread = threading.Thread(target=log.info, args=("from a thread",))
    thread.start()
    thread.join()
    (workspace / "spoken.txt").write_text("yes")
    return Result()


speaking = Pipeline.of_task(speak)
