"""Where a setting comes from, and what a bad one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago.domain.errors import SettingsError
from perago.settings import ResolvedSettings, Settings, resolve_settings


def resolve(
    directory: Path, flags: dict[str, object] | None = None, **environment: str
) -> ResolvedSettings:
    return resolve_settings(flags=flags, environment=environment, directory=directory)


def test_everything_has_a_default(tmp_path: Path) -> None:
    resolved = resolve(tmp_path)

    assert set(resolved.sources.values()) == {"default"}
    assert resolved.settings.attempts_root == resolved.settings.home / "workspaces"


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text('executors = 2\nbranch = "file"\nrepository = "file"\n')

    resolved = resolve(
        tmp_path,
        {"executors": 4, "home": None},
        PERAGO_EXECUTORS="3",
        PERAGO_BRANCH="environment",
    )

    settings = resolved.settings
    assert (settings.executors, settings.branch, settings.repository) == (4, "environment", "file")
    assert resolved.sources["executors"] == "flag --executors"
    assert resolved.sources["branch"] == "PERAGO_BRANCH"
    assert resolved.sources["repository"] == "perago.toml"
    assert resolved.sources["home"] == "default"


def test_pyproject_is_read_when_there_is_no_project_file(tmp_path: Path) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[tool.perago]\nspark_conf = {"spark.ui.enabled" = true, n = 3}\n')

    settings = resolve(tmp_path).settings

    assert settings.spark_conf == {"spark.ui.enabled": "true", "n": "3"}
    pyproject.write_text("[project]\nname = 'x'\n")
    assert resolve(tmp_path).settings.spark_conf == {}


def test_what_conductors_own_sdks_read_is_honoured(tmp_path: Path) -> None:
    settings = resolve(
        tmp_path,
        CONDUCTOR_SERVER_URL="http://conductor.example.com:8080/api",
        CONDUCTOR_AUTH_KEY="who",
        CONDUCTOR_AUTH_SECRET="not told",
    ).settings

    assert settings.orchestrator == "conductor"
    assert settings.conductor_auth_key == "who"
    assert settings.conductor_auth_secret is not None
    assert settings.conductor_auth_secret.get_secret_value() == "not told"
    assert "not told" not in repr(settings)


def test_the_key_of_one_server_is_not_sent_to_another(tmp_path: Path) -> None:
    settings = resolve(
        tmp_path,
        PERAGO_CONDUCTOR_URL="http://other.example.com",
        CONDUCTOR_SERVER_URL="http://conductor.example.com:8080/api",
        CONDUCTOR_AUTH_KEY="who",
        CONDUCTOR_AUTH_SECRET="not told",
    ).settings

    assert (settings.conductor_auth_key, settings.conductor_auth_secret) == (None, None)


def test_a_key_that_names_no_server_goes_to_none_that_a_project_names(tmp_path: Path) -> None:
    keys = {"CONDUCTOR_AUTH_KEY": "who", "CONDUCTOR_AUTH_SECRET": "not told"}
    (tmp_path / "perago.toml").write_text("conductor_url = 'http://other.example.com/api'")

    with pytest.raises(SettingsError, match=r"that perago\.toml names") as caught:
        resolve_settings(environment=keys, directory=tmp_path)
    bound = resolve_settings(
        environment=keys | {"CONDUCTOR_SERVER_URL": "http://other.example.com"}, directory=tmp_path
    ).settings
    own = {f"PERAGO_{name}": value for name, value in keys.items()}
    given = resolve_settings(environment=keys | own, directory=tmp_path).settings

    assert "not told" not in str(caught.value)
    assert "set CONDUCTOR_SERVER_URL to it" in str(caught.value.hint)
    for settings in (bound, given):
        assert (settings.conductor_auth_key, settings.conductor_url) == (
            "who",
            "http://other.example.com",
        )


def test_an_empty_variable_is_an_unset_one(tmp_path: Path) -> None:
    assert resolve(tmp_path, PERAGO_BRANCH="").settings.branch == "main"


def test_spark_conf_is_a_json_object_in_the_environment(tmp_path: Path) -> None:
    settings = resolve(tmp_path, PERAGO_SPARK_CONF='{"a": false}').settings

    assert settings.spark_conf == {"a": "false"}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"PERAGO_EXECUTORS": "many"}, r"executors \(from PERAGO_EXECUTORS\)"),
        ({"PERAGO_EXECUTORS": "0"}, "executors"),
        ({"PERAGO_DURABILITY": "none"}, "durability"),
        ({"PERAGO_SPARK_CONF": "a=b"}, "spark_conf"),
        ({"PERAGO_SPARK_CONF": "[]"}, "spark_conf"),
        ({"PERAGO_FAILPOINTS": "nowhere=kill"}, r"failpoints .* bad failpoint"),
    ],
)
def test_a_bad_value_names_the_setting_and_its_source(
    tmp_path: Path, environment: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named) as caught:
        resolve_settings(environment=environment, directory=tmp_path)

    assert "many" not in str(caught.value), "a value may be a secret"


def test_an_unknown_key_in_a_file_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text("executers = 2\n")

    with pytest.raises(SettingsError, match="unknown setting 'executers'") as caught:
        resolve(tmp_path)

    assert "executors" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PERAGO_LAKEFS_ENDPIONT", "did you mean PERAGO_LAKEFS_ENDPOINT?"),
        ("PERAGO_executors", "did you mean PERAGO_EXECUTORS?"),
        ("PERAGO_XYZZY", "settings.md"),
    ],
)
def test_an_unknown_variable_is_refused_with_a_suggestion(
    tmp_path: Path, variable: str, hint: str
) -> None:
    with pytest.raises(SettingsError, match=f"^unknown variable {variable}\n") as caught:
        resolve_settings(environment={variable: "hunter2"}, directory=tmp_path)

    assert hint in (caught.value.hint or "")
    assert "hunter2" not in str(caught.value)


def test_variables_that_are_no_settings_and_empty_ones_are_let_be(tmp_path: Path) -> None:
    resolve(
        tmp_path, PERAGO_DEBUG="1", PERAGO_REQUIRE_ALL="1", PERAGO_XYZZY="", PERAGOXYZZY="another's"
    )


def test_a_broken_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text("executors = ")

    with pytest.raises(SettingsError, match=r"cannot read perago\.toml"):
        resolve(tmp_path)


def test_paths_become_absolute(tmp_path: Path) -> None:
    settings = resolve(tmp_path, PERAGO_HOME="here", PERAGO_WORKSPACE_ROOT="~/there").settings

    assert settings.home.is_absolute()
    assert settings.attempts_root == Path("~/there").expanduser()


def test_settings_are_frozen_and_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_what_is_shown_of_the_settings_holds_no_secret(tmp_path: Path) -> None:
    conf = '{"spark.hadoop.fs.s3a.secret.key": "hunter2", "fs.s3a.access.key": "AKIA",'
    conf += '"spark.executor.extraJavaOptions": "-Dpassword=hunter2", "spark.ui.port": 4040}'

    shown = resolve(tmp_path, PERAGO_SPARK_CONF=conf).settings.shown()

    assert "hunter2" not in str(shown)
    assert "AKIA" not in str(shown)
    assert shown["spark_conf"] == {
        "spark.hadoop.fs.s3a.secret.key": "(not shown)",
        "fs.s3a.access.key": "(not shown)",
        "spark.executor.extraJavaOptions": "(not shown)",
        "spark.ui.port": "4040",
    }
