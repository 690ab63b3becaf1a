"""The task as Perago declares it."""

from pydantic import BaseModel

from perago import task

NAME = "dispatch_perago"


class Params(BaseModel):
    """What tells one task from another."""

    number: int


class Result(BaseModel):
    """Proof that the body saw its params."""

    number: int


@task(NAME, owner_email="bench@example.com")
def answer(params: Params) -> Result:
    """Do as little as a body can."""
    return Result(number=params.number)
