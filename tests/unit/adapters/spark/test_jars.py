"""The cache of jars, with a resolver that only pretends."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.progress import Progress
from perago.adapters.spark.jars import DELTA, S3A, JarCache, JarSet
from perago.domain.errors import EnvironmentUnfitError

HASHES = {
    name: sha256(content.encode()).hexdigest()
    for name, content in (("a.jar", "one"), ("b.jar", "four"))
}
SET = JarSet(name="some", packages=("a:b:1", "c:d:2"), excludes=("e:*",), hashes=HASHES)
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


def test_a_jar_of_the_same_size_with_other_bytes_is_refused(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", GOOD)
    cache = JarCache(tmp_path / "cache")
    first, *_ = cache.get(SET, java)
    first.write_text("ONE")

    with pytest.raises(EnvironmentUnfitError, match=r"a\.jar is not the jar that") as caught:
        cache.get(SET, java)
    assert f"once {first.parent} is removed" in str(caught.value.hint)
    with pytest.raises(EnvironmentUnfitError, match="SHA-256"):
        cache.find(SET)


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (GOOD.replace("four", "five"), "b.jar"),
        (GOOD + ' && printf more > "$place/jars/c.jar"', "c.jar"),
        (GOOD + ' && rm "$place/jars/a.jar"', "a.jar"),
    ],
)
def test_what_a_repository_gives_must_be_what_was_tested(
    tmp_path: Path, act: str, named: str
) -> None:
    java = java_that(tmp_path / "java", act)
    cache = JarCache(tmp_path / "cache")

    with pytest.raises(EnvironmentUnfitError, match=f"gave another {named}"):
        cache.get(SET, java)
    assert cache.find(SET) is None
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["some.lock"]


@pytest.mark.parametrize("jars", [S3A, DELTA])
def test_every_package_has_a_jar_with_a_hash(jars: JarSet) -> None:
    for package in jars.packages:
        group, artifact, version = package.split(":")
        assert f"{group}_{artifact}-{version}.jar" in jars.hashes
    assert all(len(bytes.fromhex(text)) == 32 for text in jars.hashes.values())


def test_another_choice_of_packages_is_another_set(tmp_path: Path) -> None:
    java = java_that(tmp_path / "java", GOOD)
    cache = JarCache(tmp_path / "cache")
    cache.get(SET, java)
    assert cache.find(replace(SET, packages=("a:b:2",))) is None


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
