import os
from pathlib import Path

import pytest

from perago.adapters.localfs.home import make_home, make_logs_directory, require_home
from perago.domain.errors import EnvironmentUnfitError, UsageError


def test_a_home_is_made_once_and_kept_out_of_git(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"

    assert make_home(home)
    (home / ".gitignore").write_text("mine\n")
    assert not make_home(home)
    require_home(home)

    assert (home / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("place", ["file", "file/home"])
def test_a_home_that_cannot_be_is_unfit(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(EnvironmentUnfitError, match="cannot create the home") as caught:
        make_home(tmp_path / place)

    assert caught.value.hint == (
        f"move the file {tmp_path / 'file'} away, or choose another home (--home or PERAGO_HOME)"
    )


def test_a_missing_home_is_the_wrong_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no Perago home"):
        require_home(tmp_path / "none")

    assert not (tmp_path / "none").exists()


def test_logs_that_cannot_be_written_are_noticed_before_an_attempt(tmp_path: Path) -> None:
    make_logs_directory(tmp_path / "logs")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [".perago-directory"]

    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentUnfitError, match="the logs of attempts cannot be in"):
        make_logs_directory(tmp_path / "file")


def test_a_directory_of_logs_that_is_somebody_else_s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs" / "nginx").mkdir(parents=True)

    with pytest.raises(EnvironmentUnfitError, match="it has 'nginx'") as caught:
        make_logs_directory(tmp_path / "logs")

    assert "PERAGO_HOME" in (caught.value.hint or "")


def test_a_home_is_for_its_user_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_home(tmp_path / "deep" / "home")
        make_logs_directory(tmp_path / "deep" / "home" / "logs")
    finally:
        os.umask(before)

    for place in ("deep", "deep/home", "deep/home/logs"):
        assert (tmp_path / place).stat().st_mode & 0o777 == 0o700
