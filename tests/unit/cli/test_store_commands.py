from pathlib import Path

import pytest

from perago.cli.errors import ExitCode
from tests.unit.cli.conftest import Perago

ODD_NAMES = [
    "with space.txt",
    "ünïcode/数据.txt",
    "100%.txt",
    "a#b.txt",
    "a+b.txt",
    "[x].txt",
    "deep/er/empty",
]


@pytest.fixture
def files(project: Path) -> Path:
    directory = project / "files"
    for name in ODD_NAMES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name.endswith("empty") else name, encoding="utf-8")
    return directory


@pytest.fixture
def lab(perago: Perago, files: Path) -> str:
    """A repository with one import."""
    assert perago("store", "init", "lab").code == 0
    assert perago("store", "import", str(files), "lab", "--prefix", "in").code == 0
    return "lab"


def commits(perago: Perago, place: str) -> list[str]:
    found = perago("store", "log", place, "--json").json["commits"]
    assert isinstance(found, list)
    return [str(commit["id"]) for commit in found if isinstance(commit, dict)]


def test_what_goes_in_comes_out(perago: Perago, project: Path, files: Path, lab: str) -> None:
    listed = perago("store", "ls", "lab", "in").out.splitlines()
    exported = perago("store", "export", "lab", "out", "--prefix", "in")

    assert listed == sorted(f"in/{name}" for name in ODD_NAMES)
    assert exported.code == 0
    there = {
        path.relative_to(project / "out").as_posix(): path.read_bytes()
        for path in (project / "out").rglob("*")
        if path.is_file()
    }
    assert there == {name: (files / name).read_bytes() for name in ODD_NAMES}


def test_a_home_is_made_once_and_kept_out_of_git(perago: Perago, project: Path) -> None:
    perago("store", "init", "lab")

    assert (project / ".perago" / ".gitignore").read_text() == "*\n"


def test_the_same_files_make_no_commit(perago: Perago, files: Path, lab: str) -> None:
    before = commits(perago, "lab")

    again = perago("store", "import", str(files), "lab", "--prefix", "in")
    as_json = perago("store", "import", str(files), "lab", "--prefix", "in", "--json").json

    assert again.out == "nothing changed: no commit\n"
    assert as_json["commit"] is None
    assert commits(perago, "lab") == before


def test_an_import_adds_and_a_mirror_also_deletes(perago: Perago, files: Path, lab: str) -> None:
    (files / "a#b.txt").unlink()
    (files / "new.txt").write_text("new")
    perago("store", "import", str(files), "lab", "--prefix", "in", "-m", "more")
    kept = perago("store", "ls", "lab").out
    perago("store", "import", str(files), "lab", "--prefix", "in", "--mirror")
    mirrored = perago("store", "ls", "lab").out

    assert "in/a#b.txt" in kept
    assert "in/new.txt" in kept
    assert "in/a#b.txt" not in mirrored
    assert "more" in perago("store", "log", "lab").out


def test_the_history_and_a_diff(perago: Perago, files: Path, lab: str) -> None:
    (files / "100%.txt").write_text("changed")
    (files / "a#b.txt").unlink()
    (files / "new.txt").write_text("new")
    perago("store", "import", str(files), "lab", "--prefix", "in", "--mirror")
    newest, imported, first = commits(perago, "lab")

    shown = perago("store", "diff", "lab", imported[:12], "main")
    as_json = perago("store", "diff", "lab", "main", first, "--json").json

    assert shown.out.splitlines() == ["M in/100%.txt", "D in/a#b.txt", "A in/new.txt"]
    assert as_json["removed"] == sorted(
        f"in/{name}" for name in [*ODD_NAMES, "new.txt"] if name != "a#b.txt"
    )
    assert as_json["added"] == as_json["modified"] == []
    assert (as_json["from"], as_json["to"]) == (newest, first)
    assert perago("store", "log", "lab", "-n", "1", "--json").json["commits"] != []
    assert len(perago("store", "log", "lab", "-n", "1").out.splitlines()) == 2


def test_the_json_of_a_commit(perago: Perago, lab: str) -> None:
    answer = perago("store", "log", "lab", "-n", "1", "--json").json["commits"]

    assert isinstance(answer, list)
    (commit,) = answer
    assert isinstance(commit, dict)
    assert {"id", "parents", "message", "created_at", "run", "step", "task", "retry"} <= set(commit)
    assert commit["message"] == "Import files"


def test_a_listing_with_sizes_and_as_json(perago: Perago, lab: str) -> None:
    long = perago("store", "ls", "lab", "in/deep", "-l")
    as_json = perago("store", "ls", "lab@main", "in/deep", "--json").json

    assert long.out.split()[:2] == ["0", "B"]
    assert long.out.split()[-1] == "in/deep/er/empty"
    assert as_json["objects"] == [
        {"path": "in/deep/er/empty", "size": 0, "checksum": as_json["objects"][0]["checksum"]}  # type: ignore[index,call-overload] # shape asserted by the comparison
    ]


def test_repositories_and_branches(perago: Perago, lab: str) -> None:
    perago("store", "init", "zoo", "--branch", "trunk")
    made = perago("store", "branch", "lab@main", "side", "--json").json
    second = perago("store", "branch", "lab", "side")

    assert perago("store", "repos").out == "lab\nzoo\n"
    assert perago("store", "repos", "--json").json == {"repositories": ["lab", "zoo"]}
    branches = perago("store", "branches", "lab", "--json").json["branches"]
    assert isinstance(branches, list)
    assert [branch["name"] for branch in branches if isinstance(branch, dict)] == ["main", "side"]
    assert {branch["head"] for branch in branches if isinstance(branch, dict)} == {made["head"]}
    assert perago("store", "branches", "zoo").out.splitlines()[1].startswith("trunk")
    assert second.code == ExitCode.BACKEND
    assert "side" in second.err


def test_a_fresh_store_is_clean_and_has_no_garbage(perago: Perago, lab: str) -> None:
    verified = perago("store", "verify", "--json").json
    collected = perago("store", "gc", "--grace", "0s", "--json").json

    assert verified["clean"] is True
    assert verified["problems"] == []
    assert collected["stagings"] == collected["commits"] == 0
    assert perago("store", "verify").out.startswith("clean: ")
    assert perago("store", "gc").out.startswith("removed 0 stagings, 0 commits")


def test_a_damaged_object_is_found_and_named(perago: Perago, project: Path) -> None:
    (project / "big").mkdir()
    (project / "big" / "file.bin").write_bytes(bytes(range(256)) * 4096)
    perago("store", "init", "lab")
    perago("store", "import", "big", "lab")
    (stored,) = (path for path in (project / ".perago" / "objects").rglob("*") if path.is_file())
    stored.chmod(0o644)
    stored.write_bytes(b"damaged")

    answer = perago("store", "verify")
    as_json = perago("store", "verify", "--json")

    assert answer.code == as_json.code == ExitCode.FAILED
    assert "file.bin of lab@" in answer.out
    assert as_json.json["clean"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("ls", "nowhere"), ExitCode.BACKEND, "nowhere"),
        (("ls", "lab@nothing"), ExitCode.BACKEND, "nothing"),
        (("ls", "lab", "a/../b"), ExitCode.USAGE, ".."),
        (("log", "@main"), ExitCode.USAGE, "names no place"),
        (("init", "lab"), ExitCode.BACKEND, "lab"),
        (("init", "a@b"), ExitCode.USAGE, "a repository is wanted"),
        (("import", "files/100%.txt", "lab"), ExitCode.USAGE, "is not a directory"),
        (("import", ".", "lab"), ExitCode.USAGE, "Perago's own home"),
        (("import", "files", "lab@none"), ExitCode.BACKEND, "none"),
        (("export", "lab", "files"), ExitCode.USAGE, "is no empty directory"),
        (("export", "lab", "files/100%.txt"), ExitCode.USAGE, "is no empty directory"),
        (("export", "lab", "files/100%.txt/x"), ExitCode.UNFIT, "Not a directory"),
        (("branch", "lab", "bad name"), ExitCode.BACKEND, "bad name"),
        (("gc", "--grace", "soon"), ExitCode.USAGE, "is no duration"),
    ],
)
def test_what_cannot_be_done_is_said(
    perago: Perago, lab: str, arguments: tuple[str, ...], code: ExitCode, says: str
) -> None:
    answer = perago("store", *arguments)

    assert answer.code == code
    assert answer.err.startswith("error: ")
    assert says in answer.err
    assert "hint: " in answer.err


def test_a_symlink_is_not_imported(perago: Perago, files: Path, lab: str) -> None:
    (files / "link").symlink_to("/etc/hostname")

    answer = perago("store", "import", str(files), "lab")

    assert answer.code == ExitCode.FAILED
    assert "symlink" in answer.err
    assert "link" in answer.err


def test_a_home_below_a_file_is_unfit(perago: Perago, project: Path) -> None:
    (project / "file").write_text("")

    answer = perago("--home", "file/home", "store", "init", "lab")

    assert answer.code == ExitCode.UNFIT
    assert "cannot create the home" in answer.err
    assert "PERAGO_HOME" in answer.err
