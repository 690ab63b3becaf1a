"""A secret in the settings is shown nowhere, and still arrives in another process."""

from __future__ import annotations

import json
import pickle
import traceback
from pathlib import Path

import pytest

from perago.domain.errors import SettingsError
from perago.settings import Settings, resolve_settings

SECRET = "hunter2-hunter2-hunter2"
ENVIRONMENT = {
    "PERAGO_LAKEFS_ENDPOINT": "http://127.0.0.1:8000",
    "PERAGO_LAKEFS_ACCESS_KEY_ID": "AKIA",
    "PERAGO_LAKEFS_SECRET_ACCESS_KEY": SECRET,
    "PERAGO_SPARK_REMOTE": f"sc://spark.example.com:15002/;token={SECRET}",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return resolve_settings(environment=ENVIRONMENT, directory=tmp_path).settings


def test_the_secret_is_in_no_text_of_the_settings(settings: Settings) -> None:
    shown = settings.shown()

    for text in (
        repr(settings),
        str(settings),
        json.dumps(shown),
        settings.model_dump_json(),
        repr(settings.model_dump()),
        repr(vars(settings)),
    ):
        assert SECRET not in text
    assert shown["lakefs_secret_access_key"] == "(not shown)"
    assert shown["lakefs_access_key_id"] == "AKIA"
    assert shown["spark_remote"] == "sc://spark.example.com:15002"


def test_a_secret_that_was_not_given_is_shown_as_none(tmp_path: Path) -> None:
    shown = resolve_settings(environment={}, directory=tmp_path).settings.shown()

    assert shown["lakefs_secret_access_key"] is None


def test_the_secret_arrives_in_another_process(settings: Settings) -> None:
    copy = pickle.loads(pickle.dumps(settings))

    assert copy == settings
    assert copy.lakefs_secret_access_key.get_secret_value() == SECRET


@pytest.mark.parametrize(
    "bad",
    [
        {"PERAGO_EXECUTORS": SECRET},
        {"PERAGO_LAKEFS_ENDPOINT": f"http://key:{SECRET}@127.0.0.1"},
        {"PERAGO_LAKEFS_TIMEOUT_SECONDS": SECRET},
        {"PERAGO_SPARK_CONF": f'{{"fs.s3a.secret.key": {SECRET}'},
        {"PERAGO_STORE": SECRET},
        {"PERAGO_SPARK_REMOTE": f"spark://host/;token={SECRET}"},
        {"PERAGO_SPARK_REMOTE": f"sc://host:15002;token={SECRET}"},
        {"PERAGO_SPARK_REMOTE": f"sc://host:15002/token={SECRET}"},
        {"PERAGO_SPARK_REMOTE": f"sc://host:15002/;token={SECRET}=="},
        {"PERAGO_SPARK_REMOTE": f"sc://host:15002/;token={SECRET};"},
        {"PERAGO_SPARK_REMOTE": f"sc://{SECRET}@host:15002"},
    ],
)
def test_the_traceback_of_a_bad_setting_quotes_no_value(
    tmp_path: Path, bad: dict[str, str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve_settings(environment=ENVIRONMENT | bad, directory=tmp_path)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_secret_of_the_wrong_type_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text(f'lakefs_secret_access_key = ["{SECRET}"]')

    with pytest.raises(SettingsError, match="lakefs_secret_access_key") as caught:
        resolve_settings(environment={}, directory=tmp_path)

    assert SECRET not in "".join(traceback.format_exception(caught.value))
