"""The files in deploy/ keep the rules that matter, as far as linters can tell.

Nothing here builds an image, applies a manifest or starts a unit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.deploy_files import (
    DOCKERFILE,
    IMAGES,
    TEAM_DOCKERFILE,
    UNIT,
    instructions_of,
    last_of,
    read_exec_form,
    read_stages,
    read_unit,
    variables_of,
)
from tests.architecture.docs_blocks import ROOT

# -- Kubernetes


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_knows_every_field(manifest: dict[str, Any], version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")

    for resource in manifest.values():
        validator.validate(resource, version, strict=True)


def test_nothing_strange_comes_into_a_pod_and_no_privilege(
    manifest: dict[str, Any], pod: dict[str, Any], container: dict[str, Any]
) -> None:
    # Links to Services would be variables that Perago refuses.
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert manifest["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_pod_runs_as_the_user_of_the_image(pod: dict[str, Any]) -> None:
    context = pod["securityContext"]

    user = last_of(instructions_of(read_stages(DOCKERFILE), "worker"), "USER")
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_what_a_pod_writes_lies_in_bounded_volumes_of_its_own(
    pod: dict[str, Any], container: dict[str, Any], variables: dict[str, str]
) -> None:
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}

    for name in ("PERAGO_HOME", "PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_DIRECTORY"):
        (mount,) = [path for path in mounts if Path(variables[name]).is_relative_to(path)]
        assert "sizeLimit" in volumes[mounts[mount]]["emptyDir"]
    assert mounts.keys() >= {"/tmp"}


def test_the_deployment_and_its_budget_mean_the_same_pods(manifest: dict[str, Any]) -> None:
    deployment, budget = manifest["Deployment"]["spec"], manifest["PodDisruptionBudget"]["spec"]

    assert deployment["selector"] == budget["selector"]
    assert deployment["template"]["metadata"]["labels"] == deployment["selector"]["matchLabels"]


def test_no_image_is_the_latest(container: dict[str, Any]) -> None:
    stages = [*read_stages(DOCKERFILE).items(), *read_stages(TEAM_DOCKERFILE).items()]
    names = {name for name, _ in stages}
    images = {stage.base for _, stage in stages if stage.base not in names or ":" in stage.base}

    for image in images | {container["image"]}:
        _, colon, tag = image.rpartition(":")
        assert colon, image
        assert tag != "latest", image


# -- images


@pytest.mark.parametrize("path", [DOCKERFILE, TEAM_DOCKERFILE], ids=lambda path: path.name)
def test_hadolint_finds_nothing(path: Path) -> None:
    beside = Path(sys.executable).with_name("hadolint")
    tool = str(beside) if beside.exists() else shutil.which("hadolint")
    if tool is None:
        pytest.skip("hadolint is not installed: `make setup`")

    done = subprocess.run([tool, "--no-color", path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_perago_without_a_shell_and_not_as_root(image: str) -> None:
    instructions = instructions_of(read_stages(DOCKERFILE), image)

    assert read_exec_form(last_of(instructions, "ENTRYPOINT")) == ["tini", "--", "perago"]
    assert last_of(instructions, "STOPSIGNAL") == "SIGTERM"
    # A number: Kubernetes cannot tell of a name that it is not root's.
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last_of(instructions, "USER"))


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_writes_lies_in_volumes(image: str) -> None:
    instructions = instructions_of(read_stages(DOCKERFILE), image)
    volumes = read_exec_form(last_of(instructions, "VOLUME"))

    for name in ("PERAGO_HOME", "PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_DIRECTORY"):
        path = Path(variables_of(instructions)[name])
        assert any(path.is_relative_to(volume) for volume in volumes)


def test_images_install_from_locks_and_name_no_package_index() -> None:
    installs = [
        line
        for stage in read_stages(DOCKERFILE).values()
        for line in stage.all_of("RUN")
        if "pip install" in line
    ]

    assert len(installs) == 3
    for line in installs:
        assert (
            "--require-hashes -r" in line
            or "--no-deps /build/perago_runtime-" in line
            or ("--require-hashes --only-binary :all: -r" in line)
        )
    text = DOCKERFILE.read_text("utf-8")
    assert "index-url" not in text
    assert set(re.findall(r"https?://([^/:]+)", text)) == {"127.0.0.1"}


def test_the_context_of_an_image_is_what_it_copies() -> None:
    let_in = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        line.split()[0]
        for stage in read_stages(DOCKERFILE).values()
        for line in stage.all_of("COPY")
        if not line.startswith("--from")
    }

    assert copied == let_in


# -- systemd


def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    keys = [key for lines in read_unit().values() for key, _ in lines]
    assert all(re.fullmatch(r"[A-Z][A-Za-z]+", key) for key in keys)
    assert [*read_unit()] == ["Unit", "Service", "Install"]
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # macOS: the rest is for those who have it
        return
    # Perago is not installed where the unit expects it.
    text = UNIT.read_text("utf-8").replace("/opt/perago/bin/perago", "/bin/true")
    copy = tmp_path / UNIT.name
    copy.write_text(text, encoding="utf-8")

    done = subprocess.run(
        [analyze, "verify", str(copy)], capture_output=True, text=True, check=False
    )

    # An unknown key is a warning to it, with exit code 0.
    assert done.returncode == 0, done.stderr
    assert UNIT.name.removesuffix(".service") not in done.stderr


def test_the_unit_stops_the_supervisor_first_and_leaves_java_alone(
    service: list[tuple[str, str]],
) -> None:
    lines = dict(service)

    assert lines["KillMode"] == "mixed"
    assert lines["OOMPolicy"] == "continue"
    assert lines["Restart"] == "on-failure"
    assert "MemoryDenyWriteExecute" not in lines


def test_each_instance_has_a_workspace_root_of_its_own(service: list[tuple[str, str]]) -> None:
    set_there = dict(value.split("=", 1) for key, value in service if key == "Environment")

    state = f"%S/{dict(service)['StateDirectory']}"
    assert "%i" in state
    assert set_there["PERAGO_HOME"] == state
    assert Path(set_there["PERAGO_WORKSPACE_ROOT"]).is_relative_to(state)
    assert set_there["PERAGO_CACHE_DIRECTORY"] == f"%C/{dict(service)['CacheDirectory']}"
