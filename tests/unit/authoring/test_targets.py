"""TARGET -> declarations, from real files in real modules."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.authoring import load_pipeline, load_targets
from perago.domain.errors import TargetError

TASKS = """
from pydantic import BaseModel
from perago import Pipeline, WorkspaceSpec, step, task

class Params(BaseModel):
    year: int = 2013

class Result(BaseModel):
    rows: int = 0

@task("clean_flights", owner_email="data@example.com")
def clean(params: Params) -> Result:
    return Result()

@task("count_flights", owner_email="data@example.com")
def count(params: Params) -> Result:
    return Result()
"""

PIPELINE = (
    TASKS
    + """
flights = Pipeline("flights_daily", 1, [clean, count])
"""
)


@pytest.fixture(autouse=True)
def import_state() -> Iterator[None]:
    """Put the import system back, so that no test sees another's modules."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(root: Path, name: str, source: str) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(source))
    return file


def names(root: Path, *targets: str) -> tuple[list[str], list[str]]:
    found = load_targets(targets, root)
    return [task.name for task in found.tasks], [pipeline.name for pipeline in found.pipelines]


def refusal_of(root: Path, *targets: str) -> str:
    with pytest.raises(TargetError) as caught:
        load_targets(targets, root)
    return str(caught.value)


# -- found


@pytest.mark.parametrize("target", ["jobs_a", "jobs_a.py", "./jobs_a.py"])
def test_a_module_or_a_file_gives_all_that_it_declares(tmp_path: Path, target: str) -> None:
    write(tmp_path, "jobs_a.py", PIPELINE)
    assert names(tmp_path, target) == (["clean_flights", "count_flights"], ["flights_daily"])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("jobs_b:clean", (["clean_flights"], [])),
        ("jobs_b:clean_flights", (["clean_flights"], [])),
        ("jobs_b.py:count", (["count_flights"], [])),
        ("jobs_b:flights", (["clean_flights", "count_flights"], ["flights_daily"])),
        ("jobs_b.py:flights_daily", (["clean_flights", "count_flights"], ["flights_daily"])),
    ],
)
def test_a_name_is_a_variable_or_a_declared_name(
    tmp_path: Path, target: str, expected: tuple[list[str], list[str]]
) -> None:
    write(tmp_path, "jobs_b.py", PIPELINE)
    assert names(tmp_path, target) == expected


def test_several_targets_are_one_set(tmp_path: Path) -> None:
    write(tmp_path, "jobs_c.py", PIPELINE)
    found = names(tmp_path, "jobs_c", "jobs_c.py:clean", "jobs_c:flights")
    assert found == (["clean_flights", "count_flights"], ["flights_daily"])


def test_tasks_that_a_pipeline_imports_from_elsewhere_come_along(tmp_path: Path) -> None:
    write(tmp_path, "jobs_d/tasks.py", TASKS)
    write(
        tmp_path,
        "jobs_d/main.py",
        """
        from perago import Pipeline
        from jobs_d import tasks
        flights = Pipeline("flights", 1, [tasks.clean])
        """,
    )
    assert names(tmp_path, "jobs_d/main.py") == (["clean_flights"], ["flights"])
    assert names(tmp_path, "jobs_d.main") == (["clean_flights"], ["flights"])


def test_a_file_in_a_package_is_imported_under_its_package(tmp_path: Path) -> None:
    write(tmp_path, "src/package_e/__init__.py", "")
    write(tmp_path, "src/package_e/tasks.py", TASKS)
    write(tmp_path, "src/package_e/main.py", "from .tasks import clean")
    assert names(tmp_path, "src/package_e/main.py") == (["clean_flights"], [])
    assert "package_e.main" in sys.modules


def test_a_package_itself_is_a_target(tmp_path: Path) -> None:
    write(tmp_path, "package_f/__init__.py", TASKS)
    assert names(tmp_path, "package_f/__init__.py") == names(tmp_path, "package_f")


def test_a_file_whose_name_is_taken_is_imported_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, "json.py", TASKS)
    assert names(tmp_path, "json.py") == (["clean_flights", "count_flights"], [])
    assert sys.modules["json"].__file__ != str(tmp_path / "json.py")


def test_a_file_below_a_directory_that_a_module_hides(tmp_path: Path) -> None:
    write(tmp_path, "hidden_w.py", "")
    write(tmp_path, "hidden_w/job.py", TASKS)
    assert names(tmp_path, "hidden_w/job.py") == (["clean_flights", "count_flights"], [])


def test_a_file_elsewhere_with_any_name_sees_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "else", "neighbour_g.py", TASKS)
    file = write(tmp_path / "else", "my-job 2.py", "from neighbour_g import clean, count")
    (tmp_path / "here").mkdir()
    found = load_targets([str(file)], tmp_path / "here")
    again = load_targets([f"{file}:clean"], tmp_path / "here")
    assert [task.name for task in found.tasks] == ["clean_flights", "count_flights"]
    assert again.tasks[0] is found.tasks[0]


def test_another_process_finds_the_same_module(tmp_path: Path) -> None:
    write(tmp_path, "deep/er/json.py", TASKS)
    write(tmp_path, "deep/er/plain.py", TASKS.replace("_flights", "_planes"))
    targets = ["deep/er/json.py", "deep/er/plain.py"]
    report = (
        "import sys; from pathlib import Path; from perago.authoring import load_targets\n"
        "found = load_targets(sys.argv[2:], Path(sys.argv[1]))\n"
        "print([task.function.__module__ for task in found.tasks])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", report, str(tmp_path), *targets],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    found = load_targets(targets, tmp_path)
    assert answer.stdout.strip() == str([task.function.__module__ for task in found.tasks])


# -- refused


@pytest.mark.parametrize("target", ["", ":name", "module:", "a.py:"])
def test_what_is_no_target_is_refused(tmp_path: Path, target: str) -> None:
    assert "is no TARGET" in refusal_of(tmp_path, target)


def test_a_missing_file_is_named_with_its_likes(tmp_path: Path) -> None:
    write(tmp_path, "flights.py", TASKS)
    message = refusal_of(tmp_path, "fligths.py")
    assert (
        f"there is no file {str(tmp_path / 'fligths.py')!r} (did you mean 'flights.py'?)" in message
    )
    assert "there is no file" in refusal_of(tmp_path, "no/where.py:x")


@pytest.mark.parametrize(("target", "missing"), [("no_such_h", "no_such_h"), ("no_i.x", "no_i")])
def test_a_missing_module_is_named(tmp_path: Path, target: str, missing: str) -> None:
    assert f"there is no module {missing!r}" in refusal_of(tmp_path, target)


def test_a_module_missing_in_a_package_is_named(tmp_path: Path) -> None:
    write(tmp_path, "package_j/__init__.py", "")
    assert "there is no module 'package_j.x'" in refusal_of(tmp_path, "package_j.x")


def test_what_is_no_module_name_is_refused(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "my-job")
    assert "'my-job' is no module name" in message
    assert "a file ends in .py" in message


@pytest.mark.parametrize(
    ("source", "shown", "line"),
    [
        ("import no_such_package_k", "No module named 'no_such_package_k'", 1),
        ("x = 1\n\nx / 0", "ZeroDivisionError: division by zero", 3),
        ("def f(:\n    pass", "SyntaxError", 1),
        ("import sys\nsys.exit(3)", "SystemExit: 3", 2),
    ],
)
@pytest.mark.parametrize("name", ["broken_k.py", "broken-k.py"])
def test_an_unimportable_module_shows_what_went_wrong_and_where(
    tmp_path: Path, source: str, shown: str, line: int, name: str
) -> None:
    file = write(tmp_path, name, source)
    with pytest.raises(TargetError) as caught:
        load_targets([name], tmp_path)
    assert f"{name} cannot be imported: " in caught.value.message
    assert shown in caught.value.message
    assert f"({file}:{line})" in caught.value.message
    assert caught.value.__cause__ is not None
    assert not [key for key in sys.modules if key.startswith("perago_target_")]


def test_a_module_that_imports_something_broken_shows_the_innermost_place(tmp_path: Path) -> None:
    inner = write(tmp_path, "inner_l.py", "\nraise RuntimeError('no luck')")
    write(tmp_path, "outer_l.py", "import inner_l")
    assert f"RuntimeError: no luck ({inner}:2)" in refusal_of(tmp_path, "outer_l")


def test_a_wrong_declaration_keeps_its_own_words_and_gains_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, "wrong_m.py", "from perago import RetryPolicy\nRetryPolicy(count=-1)")
    assert f"RetryPolicy.count must be a whole number of at least 0, not -1 ({file}:2)" in (
        refusal_of(tmp_path, "wrong_m")
    )


def test_a_package_that_fails_on_the_way_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "package_n/__init__.py", "1 / 0")
    write(tmp_path, "package_n/tasks.py", TASKS)
    assert "ZeroDivisionError" in refusal_of(tmp_path, "package_n/tasks.py")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("x = 1", "has no task and no pipeline\n"),
        ("def clean(): ...", "'clean' is a plain function: decorate it with @task(...)"),
        (
            "from os.path import join\ndef a(): ...\ndef b(): ...\ndef _c(): ...",
            "'a', 'b' are plain functions: decorate them with @task(...)",
        ),
    ],
)
def test_a_module_without_declarations_says_what_it_has(
    tmp_path: Path, source: str, shown: str
) -> None:
    write(tmp_path, "plain_o.py", source)
    assert shown in refusal_of(tmp_path, "plain_o.py")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("cleen", "there is no task or pipeline 'cleen' (did you mean 'clean'?)"),
        ("Params", "'Params' is a ModelMetaclass, neither a task nor a pipeline"),
        ("helper", "'helper' is a plain function"),
        ("both", "'both' names more than one thing"),
    ],
)
def test_a_wrong_name_is_explained(tmp_path: Path, name: str, shown: str) -> None:
    source = PIPELINE + (
        "def helper(): ...\n"
        'one = Pipeline("both", 1, [clean])\n'
        'two = Pipeline("both", 2, [clean])\n'
    )
    write(tmp_path, "jobs_p.py", source)
    assert shown in refusal_of(tmp_path, f"jobs_p:{name}")


def test_two_tasks_of_one_name_in_a_module_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "twins_q.py", TASKS.replace("count_flights", "clean_flights"))
    message = refusal_of(tmp_path, "twins_q")
    assert f"two tasks are named 'clean_flights': {file}:" in message


def test_two_tasks_of_one_name_in_two_modules_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "twin_r.py", TASKS)
    write(tmp_path, "twin_s.py", TASKS)
    assert "two tasks are named 'clean_flights'" in refusal_of(tmp_path, "twin_r", "twin_s")


# -- the one pipeline to run


def test_the_only_pipeline_is_run(tmp_path: Path) -> None:
    write(tmp_path, "jobs_t.py", PIPELINE)
    assert load_pipeline("jobs_t", tmp_path).name == "flights_daily"


def test_a_task_is_run_as_a_pipeline_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "jobs_u.py", PIPELINE)
    pipeline = load_pipeline("jobs_u:clean", tmp_path)
    assert (pipeline.name, len(pipeline.steps)) == ("clean_flights", 1)


@pytest.mark.parametrize(
    ("source", "shown", "hint"),
    [
        (TASKS, "declares 2 tasks: 'clean_flights', 'count_flights'", "jobs_v:clean_flights"),
        (
            PIPELINE + 'more = Pipeline("more", 1, [clean])',
            "declares 2 pipelines: 'flights_daily', 'more'",
            "jobs_v:flights_daily",
        ),
    ],
)
def test_more_than_one_candidate_is_ambiguous(
    tmp_path: Path, source: str, shown: str, hint: str
) -> None:
    write(tmp_path, "jobs_v.py", source)
    with pytest.raises(TargetError) as caught:
        load_pipeline("jobs_v", tmp_path)
    assert shown in caught.value.message
    assert hint in str(caught.value.hint)
