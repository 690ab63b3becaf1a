"""Conductor's jar is unpacked once and its classes archived once, with a Java that is a double."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.adapters.servers import (
    ConductorProgram,
    Progress,
    find_conductor,
    provide_conductor,
)
from perago.adapters.servers.conductor_program import QUICK_JAVA
from perago.adapters.servers.program_cache import SCRATCH_TAG, cached_path
from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import make_own_directory
from tests.unit.adapters.servers.doubles import (
    JAR,
    SMALL_CONDUCTOR,
    ToolDouble,
    make_maven,
    make_server_java,
    silent,
)

FAILS = "echo 'half a line'; echo '  at a.frame'; echo WARNING: native code >&2; exit 1"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that has the jar."""
    jar = cached_path(SMALL_CONDUCTOR, tmp_path / "cache")
    jar.parent.mkdir(parents=True)
    jar.write_text(JAR)
    return tmp_path / "cache"


@pytest.fixture
def java(tmp_path: Path) -> ToolDouble:
    return make_server_java(tmp_path / "java")


@pytest.fixture
def said() -> list[str]:
    return []


def environment_of(java: ToolDouble) -> dict[str, str]:
    return {**java.environment, "JAVA_HOME": str(java.directory.parent)}


def provide(
    java: ToolDouble,
    cache: Path,
    said: list[str] | None = None,
    progress: Progress | None = None,
) -> ConductorProgram:
    if said is not None:
        progress = Progress(say=said.append)
    return provide_conductor(
        cache=cache,
        environment=environment_of(java),
        progress=progress or silent(),
        program=SMALL_CONDUCTOR,
    )


def find(java: ToolDouble, cache: Path) -> ConductorProgram:
    found = find_conductor(cache=cache, environment=environment_of(java), program=SMALL_CONDUCTOR)
    assert found is not None
    return found


def kinds(java: ToolDouble) -> list[str]:
    """The runs of a Java, in order."""
    return ["extract" if "jarmode" in call else "archive" for call in java.calls]


def jar_of(cache: Path) -> Path:
    return cached_path(SMALL_CONDUCTOR, cache)


def unpacked_in(cache: Path) -> Path:
    return jar_of(cache).parent / "unpacked"


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in jar_of(cache).parent.iterdir())


def from_jar(cache: Path) -> list[str]:
    return [*QUICK_JAVA, "-jar", str(jar_of(cache))]


def from_unpacked(cache: Path) -> list[str]:
    return [*QUICK_JAVA, "-jar", str(unpacked_in(cache) / SMALL_CONDUCTOR.file_name)]


def from_archive(cache: Path) -> list[str]:
    archive = f"-XX:SharedArchiveFile={unpacked_in(cache) / 'classes.jsa'}"
    return [*QUICK_JAVA, archive, "-jar", str(unpacked_in(cache) / SMALL_CONDUCTOR.file_name)]


def test_it_starts_from_the_jar_then_unpacked_then_with_an_archive(
    java: ToolDouble, cache: Path
) -> None:
    program = find(java, cache)
    assert program.launch == from_jar(cache)

    unpacked_in(cache).mkdir()
    assert program.launch == from_jar(cache)

    (unpacked_in(cache) / SMALL_CONDUCTOR.file_name).touch()
    assert program.launch == from_unpacked(cache)

    (unpacked_in(cache) / "classes.jsa").touch()
    assert program.launch == from_archive(cache)


def test_it_is_unpacked_and_archived_once(java: ToolDouble, cache: Path) -> None:
    program = provide(java, cache)
    again = provide(java, cache)

    assert program == again == find(java, cache)
    assert program.java == java.directory / "java"
    assert program.launch == from_archive(cache)
    assert kinds(java) == ["extract", "archive"]
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name, "unpacked"]
    assert sorted(path.name for path in unpacked_in(cache).iterdir()) == [
        "classes.jsa",
        SMALL_CONDUCTOR.file_name,
        "lib",
    ]


def test_a_fetched_jar_is_unpacked_too(tmp_path: Path, java: ToolDouble) -> None:
    maven = make_maven(tmp_path / "maven")
    environment = {**maven.environment, "JAVA_HOME": str(java.directory.parent)}

    program = provide_conductor(
        cache=tmp_path / "cache",
        environment=environment,
        progress=silent(),
        program=SMALL_CONDUCTOR,
    )

    assert program.jar.source == "Maven"
    assert program.launch == from_archive(tmp_path / "cache")


def test_the_archive_is_of_the_jar_where_it_stays_and_the_run_writes_to_scratch_only(
    java: ToolDouble, cache: Path
) -> None:
    provide(java, cache)

    jar = unpacked_in(cache) / SMALL_CONDUCTOR.file_name
    assert (unpacked_in(cache) / "classes.jsa").read_text() == f"classes of {jar}"
    call = f"{java.calls[1]} "
    scratch = jar_of(cache).parent / ".build-"
    for words in (
        "-Dspring.context.exit=onRefresh ",
        "--server.address=127.0.0.1 ",
        "--server.port=0 ",
        f"-Duser.home={scratch}",
        f"-Djava.io.tmpdir={scratch}",
        f"--spring.datasource.url=jdbc:sqlite:{scratch}",
    ):
        assert f" {words}" in call


def test_java_gets_the_variables_of_a_server_and_no_others(java: ToolDouble, cache: Path) -> None:
    given = {"TZ": "UTC", "TMPDIR": "/var/tmp"}
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "SPRING_DATASOURCE_URL": "hidden",
        "JAVA_TOOL_OPTIONS": "hidden",
    }

    provide_conductor(
        cache=cache,
        environment={**environment_of(java), **given, **secrets},
        progress=silent(),
        program=SMALL_CONDUCTOR,
    )

    kept = {**java.environment, **given}
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    records = list(java.directory.glob("record.env.*"))
    assert len(records) == 2
    for record in records:
        seen = dict(line.split("=", 1) for line in record.read_text().splitlines())
        assert {name: seen[name] for name in seen.keys() - of_the_shell} == kept


def test_many_at_once_unpack_once(java: ToolDouble, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda _: provide(java, cache), range(4)))

    assert kinds(java) == ["extract", "archive"]
    assert all(program.launch == from_archive(cache) for program in programs)


def test_an_interrupt_between_the_steps_costs_no_archive(java: ToolDouble, cache: Path) -> None:
    def interrupt(text: str) -> None:
        if text.startswith("archiving"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provide(java, cache, progress=Progress(say=interrupt))
    assert find(java, cache).launch == from_unpacked(cache)

    assert provide(java, cache).launch == from_archive(cache)
    assert kinds(java) == ["extract", "archive"]


def test_an_interrupt_while_java_archives_leaves_nothing_half_made(
    tmp_path: Path, cache: Path
) -> None:
    slow = make_server_java(tmp_path / "java", archive='echo half > "$archive"; sleep 600')

    def interrupt(_: str) -> None:
        if kinds(slow) == ["extract", "archive"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provide(slow, cache, progress=Progress(say=interrupt, every_seconds=0.01))
    assert find(slow, cache).launch == from_unpacked(cache)
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name, "unpacked"]

    java = make_server_java(tmp_path / "java")
    assert provide(java, cache).launch == from_archive(cache)
    assert kinds(java) == ["extract", "archive", "archive"]


@pytest.mark.parametrize(
    ("extract", "reason"),
    [
        (FAILS, "exit code 1: half a line"),
        ("echo 'no space' >&2; exit 1", "exit code 1: no space"),
        ("exit 1", "exit code 1"),
        ('mkdir "$destination"', "it made no file"),
    ],
    ids=["out", "err", "mute", "no file"],
)
def test_a_jar_that_cannot_be_unpacked_is_started_as_it_is(
    tmp_path: Path, cache: Path, said: list[str], extract: str, reason: str
) -> None:
    java = make_server_java(tmp_path / "java", extract=extract)

    program = provide(java, cache, said)

    assert program.launch == from_jar(cache)
    assert said[1:] == [
        f"Conductor 3.32.1 starts more slowly: {program.java} cannot unpack it: {reason}"
    ]
    assert kinds(java) == ["extract"]
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name]
    assert provide(make_server_java(tmp_path / "java"), cache).launch == from_archive(cache)


def test_a_cache_that_cannot_be_locked_is_used_as_it_is(
    java: ToolDouble, cache: Path, said: list[str]
) -> None:
    directory = jar_of(cache).parent
    (directory / ".lock").mkdir()

    assert provide(java, cache, said).launch == from_jar(cache)
    (sentence,) = said
    assert sentence == (
        "Conductor 3.32.1 starts more slowly: cannot unpack it and archive its classes in "
        f"{directory}: Is a directory"
    )
    assert java.calls == []


def test_a_cache_that_is_complete_is_not_locked(java: ToolDouble, cache: Path) -> None:
    provide(java, cache)
    (jar_of(cache).parent / ".lock").unlink()
    (jar_of(cache).parent / ".lock").mkdir()
    said: list[str] = []

    assert provide(java, cache, said).launch == from_archive(cache)
    assert said == []


def test_a_java_that_cannot_archive_is_tried_once_and_another_one_too(
    tmp_path: Path, cache: Path, said: list[str]
) -> None:
    unable = [make_server_java(tmp_path / name, archive=":") for name in ("one", "two")]

    for java in unable * 2:
        assert provide(java, cache, said).launch == from_unpacked(cache)

    assert [kinds(java) for java in unable] == [["extract", "archive"], ["archive"]]
    assert [text for text in said if "slowly" in text] == [
        f"Conductor 3.32.1 starts more slowly: {java.directory / 'java'} cannot write an archive "
        "of its classes"
        for java in unable
    ]
    able = make_server_java(tmp_path / "three")
    assert provide(able, cache).launch == from_archive(cache)
    assert kinds(able) == ["archive"]


def test_a_java_that_fails_as_it_archives_is_tried_again(
    tmp_path: Path, cache: Path, said: list[str]
) -> None:
    java = make_server_java(tmp_path / "java", archive=f'echo half > "$archive"; {FAILS}')

    program = provide(java, cache, said)

    assert program.launch == from_unpacked(cache)
    assert said[-1] == (
        f"Conductor 3.32.1 starts more slowly: {program.java} wrote no archive of its classes: "
        "exit code 1: half a line"
    )
    assert provide(make_server_java(tmp_path / "java"), cache).launch == from_archive(cache)


@pytest.mark.parametrize("is_unpacked", [False, True])
def test_the_scratch_of_a_killed_process_is_removed(
    java: ToolDouble, cache: Path, is_unpacked: bool
) -> None:
    scratch = jar_of(cache).parent / ".build-killed"
    make_own_directory(scratch, SCRATCH_TAG).close()
    (scratch / "unpacked" / "lib").mkdir(parents=True)
    if is_unpacked:
        unpacked_in(cache).mkdir()
        (unpacked_in(cache) / SMALL_CONDUCTOR.file_name).touch()

    assert provide(java, cache).launch == from_archive(cache)
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name, "unpacked"]


def test_a_directory_that_is_only_called_like_scratch_stays(java: ToolDouble, cache: Path) -> None:
    stranger = jar_of(cache).parent / ".build-mine"
    (stranger / "precious").mkdir(parents=True)

    provide(java, cache)

    assert (stranger / "precious").is_dir()


def test_remains_without_the_jar_are_replaced(java: ToolDouble, cache: Path) -> None:
    (unpacked_in(cache) / "lib" / "left").mkdir(parents=True)

    assert provide(java, cache).launch == from_archive(cache)
    assert not (unpacked_in(cache) / "lib" / "left").exists()


def test_a_jar_with_other_bytes_is_neither_run_nor_unpacked(java: ToolDouble, cache: Path) -> None:
    jar_of(cache).write_text(JAR.upper())

    for use in (find, provide):
        with pytest.raises(EnvironmentUnfitError, match="SHA-256"):
            use(java, cache)
    assert java.calls == []
    assert left_in(cache) == [SMALL_CONDUCTOR.file_name]
