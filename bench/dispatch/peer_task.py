"""The task as the peer declares it. Runs in the peer's environment, where `perago` is the peer."""
# mypy: ignore-errors

from pydantic import BaseModel

from perago import task


class Params(BaseModel):
    """What tells one task from another."""

    number: int


class Result(BaseModel):
    """Proof that the body saw its params."""

    number: int


@task(name="dispatch_peer", owner_email="bench@example.com")
def answer(params: Params) -> Result:
    """Do as little as a body can."""
    return Result(number=params.number)
