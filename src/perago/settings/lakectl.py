"""What people who use lakectl have configured already: `LAKECTL_*` and `~/.lakectl.yaml`.

Invariants: nothing here quotes what it read; what a place holds for one server is never sent to
another that Perago was given; and keys that name no server go to none that a project's file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perago.domain.errors import SettingsError
from perago.settings.endpoint import normalise_lakefs

_CONFIG_VARIABLE = "LAKECTL_CONFIG_FILE"
_DEFAULT_FILE = "~/.lakectl.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakectlName:
    """How lakectl calls what a setting of Perago's holds."""

    variable: str
    section: str
    key: str


ENDPOINT = "lakefs_endpoint"

LAKECTL_NAMES: Mapping[str, LakectlName] = {
    ENDPOINT: LakectlName(
        variable="LAKECTL_SERVER_ENDPOINT_URL", section="server", key="endpoint_url"
    ),
    "lakefs_access_key_id": LakectlName(
        variable="LAKECTL_CREDENTIALS_ACCESS_KEY_ID", section="credentials", key="access_key_id"
    ),
    "lakefs_secret_access_key": LakectlName(
        variable="LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
        section="credentials",
        key="secret_access_key",
    ),
}
"""The settings that a lakeFS store cannot do without, and where lakectl has them."""

SECRET_VARIABLES = frozenset({LAKECTL_NAMES["lakefs_secret_access_key"].variable})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Values by setting, and the source of each."""

    values: Mapping[str, str] = field(repr=False)
    sources: Mapping[str, str]

    def serves(self, endpoint: object, *, is_project_s: bool) -> bool:
        """Whether what is here may go to that server: the place must name no other.

        Where it names none, it is for a server that its owner gives, not for a project's.
        """
        here = self.values.get(ENDPOINT)
        if here is None or endpoint is None:
            return not is_project_s
        try:
            return normalise_lakefs(here) == normalise_lakefs(str(endpoint))
        except ValueError:
            return False


def read_lakectl(
    given: Mapping[str, object], environment: Mapping[str, str], *, project_file: str | None
) -> dict[str, tuple[str, str]]:
    """What is not given, as lakectl has it: value and source by setting.

    Variables come before the file, which is only read when something is missing without it.
    `project_file` is the project's file that gives the endpoint, if one does.
    """
    found: dict[str, tuple[str, str]] = {}
    unbound: list[str] = []
    for read in (_read_variables, _read_file):
        wanted = [name for name in LAKECTL_NAMES if name not in given and name not in found]
        if not wanted:
            break
        place = read(environment)
        endpoint = given.get(ENDPOINT) or found.get(ENDPOINT, (None,))[0]
        if place.serves(endpoint, is_project_s=project_file is not None):
            found |= {
                name: (place.values[name], place.sources[name])
                for name in wanted
                if name in place.values
            }
        elif ENDPOINT not in place.values:
            unbound += [place.sources[name] for name in wanted if name in place.values]
    if unbound and project_file is not None and not LAKECTL_NAMES.keys() <= given.keys() | found:
        raise _explain_unbound(unbound, project_file)
    return found


def _explain_unbound(sources: list[str], project_file: str) -> SettingsError:
    return SettingsError(
        f"the lakeFS server is the one that {project_file} names, and what "
        f"{' and '.join(dict.fromkeys(sources))} gives is not said to be for it",
        hint=f"if you trust that server, set {LAKECTL_NAMES[ENDPOINT].variable} (or "
        "server.endpoint_url in lakectl's file) to it, or give Perago keys of its own: "
        "PERAGO_LAKEFS_ACCESS_KEY_ID and PERAGO_LAKEFS_SECRET_ACCESS_KEY",
    )


def _read_variables(environment: Mapping[str, str]) -> _Place:
    held = {
        name: value
        for name, lakectl in LAKECTL_NAMES.items()
        if (value := environment.get(lakectl.variable))
    }
    return _Place(values=held, sources={name: LAKECTL_NAMES[name].variable for name in held})


def _read_file(environment: Mapping[str, str]) -> _Place:
    named = environment.get(_CONFIG_VARIABLE)
    home = Path(environment.get("HOME") or Path.home())
    path = Path(named) if named else home / ".lakectl.yaml"
    shown = named or _DEFAULT_FILE
    if not named and not path.exists():
        return _Place(values={}, sources={})
    document = _parse(path, shown)
    held: dict[str, str] = {}
    for name, lakectl in LAKECTL_NAMES.items():
        section = document.get(lakectl.section)
        value = section.get(lakectl.key) if isinstance(section, dict) else None
        if isinstance(value, str | int) and str(value):
            held[name] = str(value)
    return _Place(values=held, sources=dict.fromkeys(held, shown))


def _parse(path: Path, shown: str) -> dict[object, object]:
    """The file's mapping. A cause would quote the file, so an error has none."""
    import yaml

    hint = f"repair it, or set PERAGO_LAKEFS_* instead; {_CONFIG_VARIABLE} names another file"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read {shown}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise SettingsError(f"cannot read {shown}: it is no UTF-8 text", hint=hint) from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise SettingsError(f"cannot read {shown}: it is no YAML{where}", hint=hint) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"cannot read {shown}: it holds no settings of lakectl", hint=hint)
    return document
