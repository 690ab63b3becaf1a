"""What the environment asks for, and what it gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perago.adapters.telemetry import Exports, choose_exports
from perago.domain.errors import SettingsError

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}


@pytest.mark.parametrize(
    ("environment", "has_port", "expected"),
    [
        ({}, False, Exports()),
        ({}, True, Exports(prometheus=True)),
        (OTLP, False, Exports(otlp_traces=True, otlp_metrics=True)),
        ({**OTLP, "OTEL_TRACES_EXPORTER": "none"}, False, Exports(otlp_metrics=True)),
        (
            {**OTLP, "OTEL_METRICS_EXPORTER": "none"},
            True,
            Exports(otlp_traces=True, prometheus=True),
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"},
            False,
            Exports(otlp_traces=True),
        ),
        ({**OTLP, "OTEL_SDK_DISABLED": "true"}, True, Exports()),
        (
            {**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            False,
            Exports(otlp_traces=True, otlp_metrics=True),
        ),
    ],
)
def test_what_is_exported(environment: dict[str, str], has_port: bool, expected: Exports) -> None:
    assert choose_exports(environment, has_http_port=has_port) == expected


def test_a_protocol_that_we_do_not_speak_is_refused() -> None:
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"):
        choose_exports({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, has_http_port=False)


WITHOUT_THE_EXTRA = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from perago.adapters.telemetry import choose_exports
from perago.domain.errors import EnvironmentUnfitError
assert not choose_exports({}, has_http_port=True).is_needed
try:
    choose_exports({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, has_http_port=False)
except EnvironmentUnfitError as error:
    print(error)
"""


def test_without_the_extra_the_port_still_works_and_an_endpoint_is_a_clear_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, check=True
    )

    assert "OpenTelemetry is not installed" in done.stdout
    assert "perago-runtime[telemetry]" in done.stdout


def test_nothing_of_opentelemetry_is_loaded_until_it_is_opened() -> None:
    code = (
        "import sys, perago.adapters.telemetry as t; t.choose_exports({}, has_http_port=False);"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
