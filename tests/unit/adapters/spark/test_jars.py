"""The cache of jars, with a resolver that only pretends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.progress import Progress
from perago.adapters.spark.jars import JarCache, JarSet
from perago.domain.errors import EnvironmentUnfitError

SET = JarSet(name="some", packages=("a:b:1", "c:d:2"), excludes=("e:*",))
RESOLVER = """\
#!/bin/sh
echo "$@" > {log}
for word in "$@"; do
  case "$word" in
    spark.jars.ivy=*) place="${{word#spark.jars.ivy=}}" ;;
  esac
done
{act}
"""
GOOD = (
    'mkdir "$place/jars" && printf one > "$place/jars/a.jar" && printf four > "$place/jars/b.jar"'
)
BAD = """\
echo "::  UNRESOLVED DEPENDENCIES  ::" >&2
echo "java.lang.RuntimeException: not found" >&2
exit 1"""


def java_that(home: Path, act: str) -> JavaInstallation:
    """A `java` that does this instead of resolving, and writes down how it was called."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(RESOLVER.format(log=home / "asked", act=act))
    program.chmod(0o755)
    return JavaInstallation(home=home, source="a test", version=17)


def test_a_set_is_got_once(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", GOOD)
    said: list[str] = []
    cache = JarCache(tmp_path / "cache", Progress(say=said.append))

    assert cache.find(SET) is None
    got = cache.get(SET, java)
    assert [jar.name for jar in got] == ["a.jar", "b.jar"]
    assert [jar.read_text() for jar in got] == ["one", "four"]
    asked = (java.home / "asked").read_text()
    assert "--packages a:b:1,c:d:2 --exclude-packages e:*" in asked
    assert len(said) == 1

    java.program.unlink()
    assert cache.get(SET, java) == got
    assert JarCache(tmp_path / "cache").find(SET) == got


@pytest.mark.parametrize("harm", ["missing", "cut", "no manifest"])
def test_a_set_that_was_damaged_is_got_again(tmp_path: Path, harm: str) -> None:
    java = java_that(tmp_path / "java", GOOD)
    cache = JarCache(tmp_path / "cache")
    first, *_ = cache.get(SET, java)
    if harm == "missing":
        first.unlink()
    elif harm == "cut":
        first.write_text("o")
    else:
        (first.parent / "jars.json").write_text("{")

    assert cache.find(SET) is None
    assert [jar.read_text() for jar in cache.get(SET, java)] == ["one", "four"]
    assert json.loads((first.parent / "jars.json").read_text()) == {"a.jar": 3, "b.jar": 4}


def test_another_choice_of_packages_is_another_set(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", GOOD)
    cache = JarCache(tmp_path / "cache")
    cache.get(SET, java)
    assert cache.find(JarSet(name="some", packages=("a:b:2",))) is None


def test_a_resolver_that_fails_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", BAD)
    cache = JarCache(tmp_path / "cache")
    with pytest.raises(EnvironmentUnfitError, match="UNRESOLVED DEPENDENCIES") as caught:
        cache.get(SET, java)
    assert "PERAGO_SPARK_JARS" in (caught.value.hint or "")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["some.lock"]


def test_a_resolver_that_brings_nothing_has_failed(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", "exit 0")
    with pytest.raises(EnvironmentUnfitError, match="said nothing"):
        JarCache(tmp_path / "cache").get(SET, java)
