import pytest

from perago.cli.references import parse_duration, parse_place, parse_repository
from perago.domain.errors import UsageError


@pytest.mark.parametrize(
    ("text", "repository", "ref"),
    [("flights", "flights", None), ("flights@main", "flights", "main"), ("a@b@c", "a", "b@c")],
)
def test_a_place_is_a_repository_and_maybe_a_ref(
    text: str, repository: str, ref: str | None
) -> None:
    place = parse_place(text)

    assert (place.repository, place.ref) == (repository, ref)


@pytest.mark.parametrize("text", ["", "@main", "flights@"])
def test_half_a_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no place"):
        parse_place(text)


def test_a_ref_is_refused_where_a_repository_is_wanted() -> None:
    with pytest.raises(UsageError, match="a repository is wanted") as caught:
        parse_repository("flights@main")

    assert caught.value.hint == "write flights"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86_400), ("30m", 1_800), ("90s", 90), ("2d", 172_800), ("15", 15), ("0.5h", 1_800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1 week", "1h30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration"):
        parse_duration(text)
