import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from perago.adapters.servers import LAKECTL, LAKEFS, Binary, Progress, find_binary, provide_binary
from perago.adapters.servers.program_cache import cached_path
from perago.domain.errors import EnvironmentUnfitError
from tests.unit.adapters.servers.doubles import ToolDouble, make_go, silent

HANGS = "sleep 600"

BUILDER = """
import json, sys
from pathlib import Path
from perago.adapters.servers import LAKEFS, Progress, provide_binary

environment = json.loads(sys.argv[2])
progress = Progress(say=lambda text: print(text, flush=True))
provide_binary(LAKEFS, cache=Path(sys.argv[1]), environment=environment, progress=progress)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path) -> ToolDouble:
    return make_go(tmp_path / "go")


def provide(go: ToolDouble, cache: Path, progress: Progress | None = None) -> Binary:
    return provide_binary(
        LAKEFS, cache=cache, environment=go.environment, progress=progress or silent(), go_places=()
    )


def put_on_path(directory: Path, says: str) -> dict[str, str]:
    """An environment with a `lakefs` that answers so."""
    directory.mkdir()
    program = directory / "lakefs"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "servers" / "lakefs-1.86.0").iterdir())


def test_the_one_on_path_is_taken(tmp_path: Path, cache: Path) -> None:
    environment = put_on_path(tmp_path / "bin", "echo lakefs version 1.86.0")

    found = find_binary(LAKEFS, cache=cache, environment=environment)

    assert found is not None
    assert (found.path, found.source) == (tmp_path / "bin" / "lakefs", "PATH")
    assert found.warning is None


def test_another_version_is_used_and_said(tmp_path: Path, cache: Path) -> None:
    environment = put_on_path(tmp_path / "bin", "echo lakefs version 1.70.2")

    found = find_binary(LAKEFS, cache=cache, environment=environment)

    assert found is not None
    assert found.version == "1.70.2"
    assert found.warning == (
        f"{found.path} is lakeFS 1.70.2; Perago is tested with {LAKEFS.version}"
    )


@pytest.mark.parametrize("says", ["exit 1", "echo something else"])
def test_a_program_of_that_name_that_is_no_lakefs_is_passed_over(
    tmp_path: Path, cache: Path, says: str
) -> None:
    environment = put_on_path(tmp_path / "bin", says)

    assert find_binary(LAKEFS, cache=cache, environment=environment) is None


def test_it_is_built_once_into_the_cache(go: ToolDouble, cache: Path) -> None:
    built = provide(go, cache)
    again = provide(go, cache)

    assert built.path == again.path == cache / "servers" / "lakefs-1.86.0" / "lakefs"
    assert (built.source, again.source) == ("build", "cache")
    assert built.warning is None
    assert left_in(cache) == [".lock", "lakefs"]
    download, build = go.calls
    assert download == "mod download -json github.com/treeverse/lakefs@v1.86.0"
    assert build.startswith("build ")
    assert build.endswith(" ./cmd/lakefs")
    assert "-X github.com/treeverse/lakefs/pkg/version.Version=1.86.0" in build


def test_lakectl_is_kept_beside_it(go: ToolDouble, cache: Path) -> None:
    built = provide_binary(LAKECTL, cache=cache, environment=go.environment, progress=silent())

    assert built.path == cached_path(LAKEFS, cache).with_name("lakectl")
    assert go.calls[-1].endswith(" ./cmd/lakectl")


def test_the_build_runs_inside_the_module_and_keeps_its_scratch(
    tmp_path: Path, cache: Path
) -> None:
    seen = tmp_path / "seen"
    go = make_go(
        tmp_path / "go", compile_=f'(pwd; echo "$GOTMPDIR"; echo "$GOWORK") > {seen}; touch "$2"'
    )

    provide(go, cache)

    directory, scratch, workspace = seen.read_text().splitlines()
    assert directory == str(tmp_path / "go" / "source")
    assert Path(scratch).parent == cached_path(LAKEFS, cache).parent
    assert workspace == "off"


def test_progress_is_said_while_it_takes_its_time(tmp_path: Path, cache: Path) -> None:
    said: list[str] = []
    gate = tmp_path / "gate"
    go = make_go(
        tmp_path / "go",
        compile_=f'while [ ! -e {gate} ]; do sleep 0.01; done; touch "$2"',
    )

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("compiling") and text.endswith(" s"):
            gate.touch()

    provide(go, cache, Progress(say=say, every_seconds=0.01))

    beginnings = [text for text in said if not text.endswith(" s")]
    assert beginnings[0] == "downloading lakeFS 1.86.0 …"
    assert beginnings[1].startswith("compiling lakeFS 1.86.0 (once; about ")
    assert any(text.startswith(beginnings[1] + ", ") for text in said)


def test_many_at_once_build_once(go: ToolDouble, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: provide(go, cache), range(4)))

    assert {binary.path for binary in built} == {cached_path(LAKEFS, cache)}
    assert len([call for call in go.calls if call.startswith("build")]) == 1


def test_without_go_it_says_what_to_install(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        provide_binary(
            LAKEFS,
            cache=cache,
            environment={"PATH": str(tmp_path)},
            progress=silent(),
            go_places=(),
        )

    assert caught.value.message == "there is no lakeFS 1.86.0 here, and no Go to build it with"
    assert "install Go" in str(caught.value.hint)
    assert "compose.yaml" in str(caught.value.hint)
    assert not cache.exists()


@pytest.mark.parametrize("place", ["usual", "GOROOT"])
def test_a_go_beside_path_is_found(tmp_path: Path, cache: Path, place: str) -> None:
    go = make_go(tmp_path / "root" / "bin")
    environment = {"PATH": "/usr/bin:/bin"}
    if place == "GOROOT":
        environment["GOROOT"] = str(tmp_path / "root")

    built = provide_binary(
        LAKEFS,
        cache=cache,
        environment=environment,
        progress=silent(),
        go_places=[str(go.directory)] if place == "usual" else [],
    )

    assert built.source == "build"


def test_a_failing_build_shows_what_go_said_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    go = make_go(
        tmp_path / "go",
        compile_='echo half > "$2"; for i in $(seq 50); do echo go: downloading x$i; done >&2; '
        "echo 'link: no space for symbols' >&2; exit 2",
    )

    with pytest.raises(EnvironmentUnfitError) as caught:
        provide(go, cache)

    assert caught.value.message == (
        "cannot build lakeFS 1.86.0: `go build` failed: exit code 2\nlink: no space for symbols"
    )
    assert "GOPROXY" in str(caught.value.hint)
    assert left_in(cache) == [".lock"]


@pytest.mark.parametrize(
    ("download", "expected"),
    [
        ("echo 'proxy: 403 Forbidden' >&2; exit 1", "exit code 1\nproxy: 403 Forbidden"),
        ("echo no json", "it did not say where the module is"),
        ("echo '{{}}'", "it did not say where the module is"),
        (
            """echo '{{"Dir": "{source}", "Sum": "h1:x"}}'""",
            "the module is not the one that Perago was tested with: its checksum is h1:x",
        ),
    ],
)
def test_a_failing_download_is_told_from_a_failing_build(
    tmp_path: Path, cache: Path, download: str, expected: str
) -> None:
    go = make_go(tmp_path / "go", download=download)

    with pytest.raises(EnvironmentUnfitError) as caught:
        provide(go, cache)

    assert caught.value.message == f"cannot build lakeFS 1.86.0: `go mod` failed: {expected}"


def test_a_cache_that_is_a_file_is_named(go: ToolDouble, cache: Path) -> None:
    cache.write_text("")

    with pytest.raises(EnvironmentUnfitError, match="cannot build lakeFS"):
        provide(go, cache)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_process_and_no_program(
    tmp_path: Path, cache: Path, number: signal.Signals
) -> None:
    go = make_go(tmp_path / "go", compile_=f'echo half > "$2"; {HANGS}')
    with subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(cache), json.dumps(go.environment)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as builder:
        assert builder.stdout is not None
        while not any(call.startswith("build") for call in go.calls):
            assert builder.poll() is None
            time.sleep(0.01)
        go_process = psutil.Process(go.pids[-1])
        builder.send_signal(number)
        builder.communicate(timeout=60)

    # Bounded by pytest's own time-out: the tether acts after the builder's death.
    psutil.wait_procs([go_process])
    assert builder.returncode == -number
    assert not os.access(cached_path(LAKEFS, cache), os.F_OK)
    if number is signal.SIGINT:
        assert left_in(cache) == [".lock"]

    make_go(tmp_path / "go")
    assert provide(go, cache).source == "build"
    assert left_in(cache) == [".lock", "lakefs"]


def test_who_waits_for_another_build_says_so(tmp_path: Path, cache: Path) -> None:
    gate, said = tmp_path / "gate", list[str]()
    go = make_go(
        tmp_path / "go", compile_=f'while [ ! -e {gate} ]; do sleep 0.01; done; touch "$2"'
    )

    def say(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            gate.touch()

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(provide, go, cache, Progress(say=say))

    assert "another process builds lakeFS 1.86.0: waiting …, 0 s" in said
