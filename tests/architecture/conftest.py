"""What several tests read of the files in deploy/."""

from __future__ import annotations

from typing import Any

import pytest

from tests.architecture.deploy_files import read_manifest, read_unit


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return read_manifest()


@pytest.fixture(scope="module")
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["Deployment"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    found: dict[str, Any] = only
    return found


@pytest.fixture(scope="module")
def variables(manifest: dict[str, Any]) -> dict[str, str]:
    """The settings in the ConfigMap."""
    data: dict[str, str] = manifest["ConfigMap"]["data"]
    return data


@pytest.fixture(scope="module")
def service() -> list[tuple[str, str]]:
    return read_unit()["Service"]
