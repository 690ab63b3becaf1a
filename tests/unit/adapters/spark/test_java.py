from pathlib import Path

import pytest

from perago.adapters.localfs.java import JavaInstallation, parse_java_version, probe_java
from perago.adapters.spark.java import decide_java, find_java
from perago.domain.errors import EnvironmentUnfitError


def make_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return home


def make_broken_java(home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    java.chmod(0o755)
    return home


def installation(version: int | None) -> JavaInstallation:
    return JavaInstallation(home=Path(f"/java-{version}"), source="PATH", version=version)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_version_is_read_from_what_java_prints(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


def test_first_fit_java_is_chosen() -> None:
    found = [installation(25), installation(None), installation(21), installation(17)]
    assert decide_java(found) == installation(21)


def test_none_is_chosen_among_unfit_ones() -> None:
    assert decide_java([installation(25), installation(11)]) is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    on_path = make_java(tmp_path / "path", "17.0.2")
    environment = {"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}
    assert find_java(environment, ()).home == home


def test_a_fit_java_elsewhere_is_used_when_the_named_ones_are_unfit(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "25")
    on_path = make_java(tmp_path / "path", "11.0.2")
    installed = make_java(tmp_path / "jvm" / "openjdk 17", "17.0.2")
    environment = {"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}
    java = find_java(environment, [str(tmp_path / "jvm" / "*")])
    assert (java.home, java.version) == (installed, 17)


def test_java_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, ()).home == home


def test_error_names_what_was_found_and_how_to_install(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "25")
    broken = make_broken_java(tmp_path / "broken")
    environment = {"JAVA_HOME": str(home), "PATH": str(broken / "bin")}
    with pytest.raises(EnvironmentUnfitError) as caught:
        find_java(environment, [str(tmp_path / "*")])
    assert f"{home} (JAVA_HOME): Java 25" in caught.value.message
    assert f"{broken} (PATH): does not start" in caught.value.message
    assert caught.value.message.count(str(home)) == 1
    for word in ("apt install", "brew install", "JAVA_HOME"):
        assert word in str(caught.value.hint)


def test_error_without_any_java(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfitError, match=r"Java 17 or 21, .* has: no Java at all"):
        find_java({"PATH": str(tmp_path)}, ())


def test_a_home_without_java_does_not_start(tmp_path: Path) -> None:
    assert probe_java(tmp_path) is None
