"""What the standard OTEL_* variables ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from perago.domain.errors import EnvironmentUnfitError, SettingsError

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOLS = ("", "http/protobuf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Where telemetry goes."""

    otlp_traces: bool = False
    otlp_metrics: bool = False
    prometheus: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether it goes anywhere."""
        return self.otlp_traces or self.otlp_metrics or self.prometheus


def choose_exports(environment: Mapping[str, str], *, has_http_port: bool) -> Exports:
    """Decide what to export. Without an endpoint and without a port of our own, nothing.

    The port alone does not need the telemetry extra: its probes work without.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Exports()
    exports = Exports(
        otlp_traces=_is_wanted(environment, "TRACES"),
        otlp_metrics=_is_wanted(environment, "METRICS"),
        prometheus=has_http_port and is_installed(),
    )
    if (exports.otlp_traces or exports.otlp_metrics) and not is_installed():
        raise EnvironmentUnfitError(
            f"{_ENDPOINT} asks for telemetry, but OpenTelemetry is not installed",
            hint="install perago-runtime[telemetry], or set OTEL_SDK_DISABLED=true",
        )
    return exports


def is_installed() -> bool:
    """Whether the `telemetry` extra is there."""
    try:
        return all(
            find_spec(name) is not None
            for name in (
                "opentelemetry.sdk",
                "opentelemetry.exporter.otlp.proto.http",
                "opentelemetry.exporter.prometheus",
            )
        )
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def _is_wanted(environment: Mapping[str, str], signal: str) -> bool:
    exporters = environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if exporters and "otlp" not in exporters.split(","):
        return False
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    if not environment.get(own) and not environment.get(_ENDPOINT):
        return False
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if (protocol := environment.get(name, "")) not in _PROTOCOLS:
            raise SettingsError(
                f"{name} is {protocol!r}: a worker sends OTLP as http/protobuf only",
                hint=f"set {name}=http/protobuf and the collector's HTTP endpoint, usually "
                "port 4318",
            )
        if protocol:
            break
    return True
