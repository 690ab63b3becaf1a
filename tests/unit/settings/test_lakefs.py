"""Which store is chosen, and where the access to a lakeFS server comes from."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from perago.domain.errors import SettingsError
from perago.settings import ResolvedSettings, require_complete, resolve_settings

GIVEN = {
    "PERAGO_LAKEFS_ENDPOINT": "http://given:8000",
    "PERAGO_LAKEFS_ACCESS_KEY_ID": "given key",
    "PERAGO_LAKEFS_SECRET_ACCESS_KEY": "given secret",
}
VARIABLES = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://variable:8000/api/v1",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "variable key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "variable secret",
}
FILE = """
server:
  endpoint_url: http://file:8000/api/v1/
credentials:
  access_key_id: file key
  secret_access_key: file secret
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def resolve(home: Path, *environments: dict[str, str], project: str = "") -> ResolvedSettings:
    directory = home.parent
    (directory / "perago.toml").write_text(project)
    environment = {"HOME": str(home)}
    for more in environments:
        environment |= more
    return resolve_settings(environment=environment, directory=directory)


def access(resolved: ResolvedSettings) -> tuple[str | None, str | None, str | None]:
    settings = resolved.settings
    secret = settings.lakefs_secret_access_key
    return (
        settings.lakefs_endpoint,
        settings.lakefs_access_key_id,
        None if secret is None else secret.get_secret_value(),
    )


# -- which store


def test_what_lakectl_has_leads_nobody_away_from_the_embedded_store(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    resolved = resolve(home, VARIABLES)

    assert resolved.settings.store == "embedded"
    assert access(resolved) == (None, None, None)


@pytest.mark.parametrize("project", ["", "lakefs_endpoint = 'http://file:8000'"])
def test_an_endpoint_given_to_perago_means_lakefs(home: Path, project: str) -> None:
    resolved = resolve(home, {} if project else GIVEN, project=project)

    assert resolved.settings.store == "lakefs"
    assert resolved.sources["store"] == "lakefs_endpoint is set"


def test_a_flag_can_give_the_endpoint(home: Path) -> None:
    flags = {"lakefs_endpoint": "http://flag:8000"}
    resolved = resolve_settings(flags=flags, environment={}, directory=home)

    assert resolved.settings.store == "lakefs"


def test_the_store_can_be_named_whatever_else_is_set(home: Path) -> None:
    embedded = resolve(home, GIVEN, {"PERAGO_STORE": "embedded"})
    lakefs = resolve(home, VARIABLES, project='store = "lakefs"')

    assert embedded.settings.store == "embedded"
    assert (lakefs.settings.store, lakefs.sources["store"]) == ("lakefs", "perago.toml")


def test_there_is_no_other_store(home: Path) -> None:
    with pytest.raises(SettingsError, match=r"store \(from PERAGO_STORE\)"):
        resolve(home, {"PERAGO_STORE": "s3"})


# -- where the access comes from


def test_what_perago_was_given_comes_first(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    resolved = resolve(home, GIVEN, VARIABLES)

    assert access(resolved) == ("http://given:8000", "given key", "given secret")
    assert resolved.sources["lakefs_secret_access_key"] == "PERAGO_LAKEFS_SECRET_ACCESS_KEY"


def test_then_the_variables_of_lakectl(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    resolved = resolve(home, VARIABLES, {"PERAGO_STORE": "lakefs"})

    assert access(resolved) == ("http://variable:8000", "variable key", "variable secret")
    assert resolved.sources["lakefs_endpoint"] == "LAKECTL_SERVER_ENDPOINT_URL"


def test_then_the_file_of_lakectl(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    resolved = resolve(home, {"PERAGO_STORE": "lakefs"})

    assert access(resolved) == ("http://file:8000", "file key", "file secret")
    assert resolved.sources["lakefs_access_key_id"] == "~/.lakectl.yaml"


def test_the_file_of_lakectl_can_be_elsewhere(home: Path) -> None:
    (home / "other.yaml").write_text(FILE)
    where = {"LAKECTL_CONFIG_FILE": str(home / "other.yaml"), "PERAGO_STORE": "lakefs"}

    resolved = resolve(home, where)

    assert access(resolved) == ("http://file:8000", "file key", "file secret")
    assert resolved.sources["lakefs_endpoint"] == str(home / "other.yaml")


def test_each_value_is_looked_for_on_its_own(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)
    some = {"LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "variable key", "PERAGO_STORE": "lakefs"}

    resolved = resolve(home, some)

    assert access(resolved) == ("http://file:8000", "variable key", "file secret")


def test_credentials_of_lakectl_go_to_the_server_it_names(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    same = resolve(home, {"PERAGO_LAKEFS_ENDPOINT": "http://file:8000/"})
    free = resolve(
        home,
        {"PERAGO_LAKEFS_ENDPOINT": "http://given:8000"},
        {"LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "k", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "s"},
    )

    assert access(same) == ("http://file:8000", "file key", "file secret")
    assert access(free) == ("http://given:8000", "k", "s"), "they name no server"


@pytest.mark.parametrize("lakectl", [VARIABLES, {}])
def test_credentials_of_lakectl_go_to_no_other_server(home: Path, lakectl: dict[str, str]) -> None:
    (home / ".lakectl.yaml").write_text(FILE)

    found = resolve(home, lakectl, project="lakefs_endpoint = 'http://elsewhere.example.com'")

    assert access(found) == ("http://elsewhere.example.com", None, None)


UNBOUND = {
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "unbound key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "unbound secret",
}
UNBOUND_FILE = FILE.partition("credentials")[1] + FILE.partition("credentials")[2]
PROJECT_S = "lakefs_endpoint = 'http://elsewhere.example.com'"


@pytest.mark.parametrize(
    ("variables", "file", "source"),
    [
        (UNBOUND, "", "LAKECTL_CREDENTIALS_ACCESS_KEY_ID and LAKECTL_CREDENTIALS_SECRET_"),
        ({}, UNBOUND_FILE, "~/.lakectl.yaml"),
        (UNBOUND, FILE, "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"),
    ],
)
def test_keys_that_name_no_server_go_to_none_that_a_project_names(
    home: Path, variables: dict[str, str], file: str, source: str
) -> None:
    (home / ".lakectl.yaml").write_text(file)

    with pytest.raises(SettingsError) as caught:
        resolve(home, variables, project=PROJECT_S)

    assert "that perago.toml names" in caught.value.message
    assert source in caught.value.message
    assert "set LAKECTL_SERVER_ENDPOINT_URL" in str(caught.value.hint)
    assert "unbound" not in str(caught.value)


def test_nor_to_one_that_pyproject_names(home: Path) -> None:
    (home / "pyproject.toml").write_text(f"[tool.perago]\n{PROJECT_S}\n")

    with pytest.raises(SettingsError, match=r"the one that pyproject\.toml \[tool.perago\] names"):
        resolve_settings(environment={"HOME": str(home), **UNBOUND}, directory=home)


def test_whoever_owns_the_keys_can_say_what_they_are_for(home: Path) -> None:
    named = {"LAKECTL_SERVER_ENDPOINT_URL": "http://elsewhere.example.com/api/v1"}
    of_perago = {
        "PERAGO_LAKEFS_ACCESS_KEY_ID": "our key",
        "PERAGO_LAKEFS_SECRET_ACCESS_KEY": "our secret",
    }

    bound = resolve(home, UNBOUND, named, project=PROJECT_S)
    given = resolve(home, UNBOUND, of_perago, project=PROJECT_S)

    assert access(bound) == ("http://elsewhere.example.com", "unbound key", "unbound secret")
    assert access(given) == ("http://elsewhere.example.com", "our key", "our secret")


def test_the_keys_of_lakectl_s_file_do_not_go_where_its_variables_point(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE)
    elsewhere = {"LAKECTL_SERVER_ENDPOINT_URL": "http://variable:8000", "PERAGO_STORE": "lakefs"}

    assert access(resolve(home, elsewhere)) == ("http://variable:8000", None, None)


def test_credentials_beside_an_endpoint_nobody_can_read_are_not_used(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(FILE.replace("http://file:8000", "file:8000"))

    assert access(resolve(home, {"PERAGO_LAKEFS_ENDPOINT": "http://file:8000"}))[1:] == (None, None)


# -- the file of lakectl


@pytest.mark.parametrize(
    "content",
    [
        b"credentials: {secret_access_key: 'hunter2",
        b"credentials: *hunter2",
        b"hunter2",
        b"- hunter2",
        b"hunter2: \xff",
    ],
)
def test_a_broken_file_of_lakectl_is_one_error_that_does_not_quote_it(
    home: Path, content: bytes
) -> None:
    (home / ".lakectl.yaml").write_bytes(content)

    with pytest.raises(SettingsError, match=r"cannot read ~/\.lakectl\.yaml") as caught:
        resolve(home, {"PERAGO_STORE": "lakefs"})

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "content", ["", "credentials:\n", "credentials: text\nserver: [1]\n", "other: {a: 1}\n"]
)
def test_a_file_of_lakectl_without_access_gives_none(home: Path, content: str) -> None:
    (home / ".lakectl.yaml").write_text(content)

    assert access(resolve(home, {"PERAGO_STORE": "lakefs"})) == (None, None, None)


def test_a_number_in_the_file_of_lakectl_is_text(home: Path) -> None:
    (home / ".lakectl.yaml").write_text("credentials: {access_key_id: 12345}")

    assert access(resolve(home, {"PERAGO_STORE": "lakefs"}))[1] == "12345"


def test_a_file_of_lakectl_that_was_named_must_be_there(home: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        resolve(home, {"PERAGO_STORE": "lakefs", "LAKECTL_CONFIG_FILE": str(home / "nowhere")})


def test_the_file_of_lakectl_is_not_read_when_nothing_is_missing(home: Path) -> None:
    (home / ".lakectl.yaml").write_text("{broken")

    assert access(resolve(home, GIVEN))[0] == "http://given:8000"
    assert resolve(home).settings.store == "embedded"


# -- completeness


def test_what_is_missing_is_named_at_once_with_every_place_for_it(home: Path) -> None:
    settings = resolve(home, {"PERAGO_LAKEFS_ENDPOINT": "http://given:8000"}).settings

    with pytest.raises(SettingsError) as caught:
        require_complete(settings)

    message = caught.value.message
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        assert f"PERAGO_LAKEFS_{name}" in message
        assert f"LAKECTL_CREDENTIALS_{name}" in message
        assert f"credentials.{name.lower()}" in message
    assert "lakefs_endpoint" not in message


def test_a_complete_access_is_complete(home: Path) -> None:
    require_complete(resolve(home, GIVEN).settings)
    require_complete(resolve(home).settings)


def test_a_ca_file_must_be_one(home: Path) -> None:
    settings = resolve(home, GIVEN, {"PERAGO_LAKEFS_CA_FILE": str(home)}).settings

    with pytest.raises(SettingsError, match="lakefs_ca_file is no file"):
        require_complete(settings)


@pytest.mark.parametrize(
    "content",
    [b"", b"no certificates", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
def test_a_ca_file_must_hold_certificates(home: Path, content: bytes) -> None:
    (home / "ca.pem").write_bytes(content)
    settings = resolve(home, GIVEN, {"PERAGO_LAKEFS_CA_FILE": str(home / "ca.pem")}).settings

    with pytest.raises(SettingsError, match=r"lakefs_ca_file holds no certificates: .*ca\.pem"):
        require_complete(settings)


def test_a_ca_file_of_certificates_is_one(home: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(home / "ca.pem"))

    where = {"PERAGO_LAKEFS_CA_FILE": str(home / "ca.pem")}
    require_complete(resolve(home, GIVEN, where).settings)


# -- single values


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://lakefs.example.com/", "https://lakefs.example.com"),
        ("https://lakefs.example.com/api/v1", "https://lakefs.example.com"),
        ("https://lakefs.example.com/api/v1//", "https://lakefs.example.com"),
        (" https://example.com/lakefs/api/v1/ ", "https://example.com/lakefs"),
    ],
)
def test_an_endpoint_is_normalised(home: Path, text: str, endpoint: str) -> None:
    resolved = resolve(home, GIVEN, {"PERAGO_LAKEFS_ENDPOINT": text})

    assert resolved.settings.lakefs_endpoint == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "lakefs.example.com",
        "localhost:8000",
        "ftp://lakefs.example.com",
        "https://",
        "https:///api/v1",
        "https://[half",
        "https://host:port",
        "https://key:hunter2@lakefs.example.com",
        "https://hunter2@lakefs.example.com",
        "https://lakefs.example.com?secret=hunter2",
        "https://lakefs.example.com#hunter2",
    ],
)
def test_an_endpoint_that_is_none_is_refused_without_quoting_it(home: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"lakefs_endpoint \(from PERAGO_LAKEFS_") as caught:
        resolve(home, GIVEN, {"PERAGO_LAKEFS_ENDPOINT": text})

    assert "hunter2" not in str(caught.value)
    assert "Value error" not in str(caught.value)


@pytest.mark.parametrize("text", ["lakefs.example.com", "localhost:8000"])
def test_an_endpoint_without_a_scheme_is_told_what_it_lacks(home: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"\): must begin with http:// or https://, such as"):
        resolve(home, {"PERAGO_LAKEFS_ENDPOINT": text})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("20GB", 20 * 10**9),
        ("512MiB", 512 * 2**20),
        ("512 mib", 512 * 2**20),
        ("1.5kB", 1500),
        ("1048576", 2**20),
    ],
)
def test_a_cache_size_is_bytes_or_has_a_unit(home: Path, text: str, size: int) -> None:
    assert resolve(home, {"PERAGO_CACHE_MAX_BYTES": text}).settings.cache_max_bytes == size
    assert resolve(home, project=f'cache_max_bytes = "{text}"').settings.cache_max_bytes == size


def test_a_cache_size_in_a_file_may_be_a_number(home: Path) -> None:
    assert resolve(home, project="cache_max_bytes = 1000").settings.cache_max_bytes == 1000


@pytest.mark.parametrize("text", ["-1", "much", "20 parsecs"])
def test_a_cache_size_that_is_none_is_refused(home: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"cache_max_bytes .*: must be a size such as 20GB"):
        resolve(home, {"PERAGO_CACHE_MAX_BYTES": text})


@pytest.mark.parametrize("count", ["0", "257"])
def test_concurrency_has_bounds(home: Path, count: str) -> None:
    with pytest.raises(SettingsError, match="transfer_concurrency"):
        resolve(home, {"PERAGO_TRANSFER_CONCURRENCY": count})


def test_the_cache_is_where_the_system_keeps_caches(home: Path) -> None:
    default = resolve(home)
    moved = resolve(home, {"XDG_CACHE_HOME": "/var/caches"})
    relative = resolve(home, {"XDG_CACHE_HOME": "caches"})
    given = resolve(home, {"XDG_CACHE_HOME": "/c", "PERAGO_CACHE_DIRECTORY": "/mine"})

    assert default.settings.cache_directory == Path("~/.cache/perago").expanduser()
    assert moved.settings.cache_directory == Path("/var/caches/perago")
    assert moved.sources["cache_directory"] == "XDG_CACHE_HOME"
    assert relative.settings.cache_directory == default.settings.cache_directory
    assert given.settings.cache_directory == Path("/mine")
