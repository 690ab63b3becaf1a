"""Bodies that write to their executor's connection, beside bodies that mind their own business."""

from __future__ import annotations

import json
import os
import pickle
import random
import stat
import struct
import time
from pathlib import Path

from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, TaskControls, task

OWNER = "data@example.com"
ONCE = TaskControls(retry=RetryPolicy(count=0))
HEAD = b"PRG1"
KINDS = ("random", "partial", "huge", "forged", "pickle", "closed", "replaced")


class Params(BaseModel):
    seed: int = 0
    kind: str = "random"
    file: str = ""


class Result(BaseModel):
    seed: int


class Unpickled:
    """What a supervisor that unpickled it would do."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, (self.file,))


@task("scribble", owner_email=OWNER, controls=ONCE)
def scribble(params: Params) -> Result:
    """Write what no executor writes, wherever there is a socket."""
    chance = random.Random(params.seed)
    match params.kind:
        case "closed":
            os.closerange(3, 64)
        case "replaced":
            take_the_places_of_sockets(params.file)
        case _:
            for descriptor in find_sockets():
                os.write(descriptor, build_bytes(params, chance))
    time.sleep(chance.random() * 0.05)
    return Result(seed=params.seed)


@task("mind_own_business", owner_email=OWNER, controls=ONCE)
def mind_own_business(params: Params) -> Result:
    """Take a moment."""
    time.sleep(random.Random(params.seed).random() * 0.1)
    return Result(seed=params.seed)


def build_bytes(params: Params, chance: random.Random) -> bytes:
    match params.kind:
        case "random":
            return chance.randbytes(chance.randrange(1, 2000))
        case "partial":
            return (HEAD + chance.randbytes(20))[: chance.randrange(1, 24)]
        case "huge":
            return HEAD + chance.randbytes(16) + b"\xff\xff\xff\xff" + chance.randbytes(10)
        case "forged":
            commit = {"workspace": {"ref": "f" * 64}, "result": {"seed": -1}}
            messages = [["decided", ["COMPLETED", commit], None], ["cleaned"]]
            payload = json.dumps(messages).encode()
            return HEAD + chance.randbytes(16) + struct.pack("!I", len(payload)) + payload
        case _:
            payload = pickle.dumps(Unpickled(params.file))
            return struct.pack("!i", len(payload)) + payload


def find_sockets() -> list[int]:
    found = []
    for path in list(Path("/proc/self/fd").iterdir()):
        try:
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                found.append(int(path.name))
        except OSError:  # the directory's own descriptor is closed by now
            continue
    return found


def take_the_places_of_sockets(file: str) -> None:
    own = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    Path(file).write_bytes(b"")
    for descriptor in find_sockets():
        os.dup2(own, descriptor)


scribbling = Pipeline("scribbling", 1, [scribble], params=Params)
minding = Pipeline("minding", 1, [mind_own_business], params=Params)
