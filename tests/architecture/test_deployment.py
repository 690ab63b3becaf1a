"""The files in deploy/ agree with the product: its times, its port, its paths, its settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.localfs.clock import SystemClock
from perago.adapters.telemetry import opening
from perago.runtime import turn
from perago.runtime.health import HealthBoard
from perago.runtime.http_endpoint import HttpEndpoint
from perago.settings import ENVIRONMENT_PREFIX, Settings, require_complete, resolve_settings
from perago.settings.sources import _NO_SETTINGS
from tests.architecture.deploy_files import (
    DEPLOY,
    DOCKERFILE,
    IMAGES,
    MANIFEST,
    instructions_of,
    last_of,
    read_stages,
    variables_of,
)
from tests.architecture.docs_blocks import ROOT, pages

DEFAULTS = Settings()
LAST_SECONDS = {
    "_LAST_CALLS_SECONDS": turn._LAST_CALLS_SECONDS,
    "_STOP_GRACE_SECONDS": turn.STOP_GRACE_SECONDS,
    "_CLOSE_SECONDS": opening._CLOSE_SECONDS,
}
"""What a worker may take after its grace, by the names of the constants."""

SECRETS = {
    "PERAGO_CONDUCTOR_AUTH_KEY": "key",
    "PERAGO_CONDUCTOR_AUTH_SECRET": "secret",
    "PERAGO_LAKEFS_ACCESS_KEY_ID": "key",
    "PERAGO_LAKEFS_SECRET_ACCESS_KEY": "secret",
}
VARIABLE = re.compile(rf"\b{ENVIRONMENT_PREFIX}[A-Z0-9_]+")
DEPLOY_PAGE = ROOT / "docs" / "how-to" / "deploy.md"
DOCKER_STOP = re.compile(r"docker stop -t (\d+)")


def seconds_to_end(grace: float) -> float:
    """The longest time from SIGTERM to the worker's end, by the product's own figures."""
    return max(grace, DEFAULTS.shutdown_grace_seconds) + sum(LAST_SECONDS.values())


# -- times


def test_a_pod_is_given_the_time_that_a_drain_takes(
    pod: dict[str, Any], variables: dict[str, str]
) -> None:
    grace = float(variables["PERAGO_SHUTDOWN_GRACE_SECONDS"])

    assert pod["terminationGracePeriodSeconds"] >= seconds_to_end(grace)


def test_the_manifest_explains_its_grace_with_the_figures_in_force(
    variables: dict[str, str],
) -> None:
    lines = re.findall(
        r"#\s+(\d+) s  .*?\b(_[A-Z_]+|PERAGO_[A-Z_]+)\)", MANIFEST.read_text("utf-8")
    )
    explained = {name: float(seconds) for seconds, name in lines}

    grace = float(variables["PERAGO_SHUTDOWN_GRACE_SECONDS"])
    assert explained == {"PERAGO_SHUTDOWN_GRACE_SECONDS": grace, **LAST_SECONDS}


def test_systemd_gives_the_time_that_a_drain_takes(service: list[tuple[str, str]]) -> None:
    assert float(dict(service)["TimeoutStopSec"]) >= seconds_to_end(DEFAULTS.shutdown_grace_seconds)


@pytest.mark.parametrize("path", [DOCKERFILE, DEPLOY_PAGE], ids=lambda path: path.name)
def test_docker_stop_is_shown_with_enough_time(path: Path) -> None:
    shown = [int(seconds) for seconds in DOCKER_STOP.findall(path.read_text("utf-8"))]

    assert shown
    assert min(shown) >= seconds_to_end(DEFAULTS.shutdown_grace_seconds)


def test_the_page_explains_the_time_with_the_figures_in_force() -> None:
    text = DEPLOY_PAGE.read_text("utf-8")
    rows = re.findall(
        r"^  \| (?:`shutdown_grace_seconds`, )?(\d+)\b.* \| .* \|$", text, re.MULTILINE
    )

    explained = [float(seconds) for seconds in rows]
    assert explained == [DEFAULTS.shutdown_grace_seconds, *LAST_SECONDS.values()]
    assert f"That is {sum(explained):g} s" in text


# -- the port and its paths


@pytest.fixture(scope="module")
def served() -> dict[str, int]:
    """What the worker's own port answers to the paths that probes ask for."""
    with HttpEndpoint("127.0.0.1", 0, HealthBoard(SystemClock())) as endpoint:
        return {path: endpoint.answer(path).status for path in ("/livez", "/readyz", "/nothing")}


def test_probes_ask_for_paths_that_are_served(
    container: dict[str, Any], served: dict[str, int]
) -> None:
    asked = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }

    assert asked == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    assert served["/nothing"] == 404
    assert 404 not in {served[path] for path in asked.values()}


def test_probes_reach_the_port_that_the_worker_listens_on(
    container: dict[str, Any], variables: dict[str, str]
) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probed = {
        ports[container[name]["httpGet"]["port"]]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }

    assert probed == {int(variables["PERAGO_HTTP_PORT"])}
    assert variables["PERAGO_HTTP_HOST"] == "0.0.0.0"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_checks_the_port_that_it_opens(image: str) -> None:
    instructions = instructions_of(read_stages(DOCKERFILE), image)
    port = variables_of(instructions)["PERAGO_HTTP_PORT"]

    assert last_of(instructions, "EXPOSE") == port
    assert f"http://127.0.0.1:{port}/livez" in last_of(instructions, "HEALTHCHECK")


# -- settings


def known_variables() -> set[str]:
    return {f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in Settings.model_fields} | _NO_SETTINGS


def is_known(variable: str) -> bool:
    """`PERAGO_LAKEFS_*` is cut to `PERAGO_LAKEFS_`: it is known if it begins a setting's name."""
    known = known_variables()
    return variable in known or (
        variable.endswith("_") and any(name.startswith(variable) for name in known)
    )


@pytest.mark.parametrize(
    "path",
    [*sorted(path for path in DEPLOY.rglob("*") if path.is_file()), *pages()],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_variable_that_is_shown_is_a_setting(path: Path) -> None:
    shown = set(VARIABLE.findall(path.read_text("utf-8")))

    assert {variable for variable in shown if not is_known(variable)} == set()


def test_the_manifest_has_all_settings_that_a_worker_needs(
    container: dict[str, Any], variables: dict[str, str], tmp_path: Path
) -> None:
    secret = {entry["name"] for entry in container["env"] if "secretKeyRef" in entry["valueFrom"]}
    assert secret == SECRETS.keys()

    settings = resolve_settings(environment={**variables, **SECRETS}, directory=tmp_path).settings
    require_complete(settings)
    assert (settings.orchestrator, settings.store) == ("conductor", "lakefs")


@pytest.mark.parametrize("image", IMAGES)
def test_the_settings_of_an_image_are_valid(image: str, tmp_path: Path) -> None:
    set_there = variables_of(instructions_of(read_stages(DOCKERFILE), image))

    settings = resolve_settings(environment=set_there, directory=tmp_path).settings
    assert settings.log_format == "json"


def test_the_settings_of_the_unit_are_valid(service: list[tuple[str, str]], tmp_path: Path) -> None:
    set_there = dict(value.split("=", 1) for key, value in service if key == "Environment")

    settings = resolve_settings(environment=set_there, directory=tmp_path).settings
    assert settings.log_format == "json"
