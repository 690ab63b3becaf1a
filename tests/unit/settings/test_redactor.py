"""The redactor of the settings knows every text that may be a secret, and no other."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from perago.domain.redaction import HIDDEN, Redactor
from perago.settings import redactor_of, resolve_settings

SECRET = "hunter2/+é hunter2"


def redactor(directory: Path, **environment: str) -> Redactor:
    settings = resolve_settings(environment=environment, directory=directory).settings
    return redactor_of(settings, environment)


def with_conf(directory: Path, name: str, value: object) -> Redactor:
    return redactor(directory, PERAGO_SPARK_CONF=json.dumps({name: value}))


@pytest.mark.parametrize(
    "environment",
    [
        {"PERAGO_LAKEFS_SECRET_ACCESS_KEY": SECRET},
        {"PERAGO_CONDUCTOR_AUTH_SECRET": SECRET},
        {"PERAGO_SPARK_REMOTE": f"sc://host/;use_ssl=true;token={quote(SECRET, safe='')}"},
        {"PERAGO_SPARK_REMOTE": f"sc://host/;x-api={quote(SECRET, safe='')}"},
        {"PERAGO_LAKEFS_STORAGE_NAMESPACE": f"s3://joe:{quote(SECRET, safe='')}@lake/x"},
        {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET},
        {"CONDUCTOR_AUTH_SECRET": SECRET},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"tenant=a,api-key={SECRET}"},
        {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"api-key={quote(SECRET)}"},
        {"https_proxy": f"http://joe:{quote(SECRET, safe='')}@proxy:80"},
    ],
)
def test_secrets_are_hidden_in_every_spelling(tmp_path: Path, environment: dict[str, str]) -> None:
    found = redactor(tmp_path, **environment)

    for spelling in (SECRET, repr(SECRET)[1:-1], quote(SECRET), quote(SECRET, safe="")):
        assert found.apply(f"it is {spelling}") == f"it is {HIDDEN}"
    document = json.dumps({"it": SECRET})
    assert json.loads(found.apply_in_json(document)) == {"it": HIDDEN}


def test_the_pair_that_http_sends_is_hidden(tmp_path: Path) -> None:
    found = redactor(
        tmp_path, PERAGO_LAKEFS_ACCESS_KEY_ID="AKIA", PERAGO_LAKEFS_SECRET_ACCESS_KEY=SECRET
    )

    assert found.apply(b64encode(f"AKIA:{SECRET}".encode()).decode()) == HIDDEN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", SECRET),
        ("spark.hadoop.fs.azure.account.key.x", SECRET),
        ("spark.hadoop.my.own", SECRET),
        ("spark.sql.catalog.mine.url", f"jdbc:x://h/d?pass={SECRET}"),
        ("spark.driver.extraJavaOptions", f"-Dtrust={SECRET}"),
        ("spark.ui.auth.password", "12345678"),
        ("my.token", "abcd"),
    ],
)
def test_what_a_spark_setting_holds_is_a_secret(tmp_path: Path, name: str, value: str) -> None:
    assert with_conf(tmp_path, name, value).apply(f"it is {value}") == f"it is {HIDDEN}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.shuffle.partitions", "12345678"),
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.eventLog.dir", "file:/var/events"),
        ("spark.hadoop.my.own", "true"),
        ("spark.hadoop.my.own", "12345678"),
        ("spark.hadoop.my.own", "512m"),
        ("spark.hadoop.my.own", "UTC"),
        ("spark.ui.auth.enabled", "false"),
    ],
)
def test_what_says_nothing_is_left_alone(tmp_path: Path, name: str, value: str) -> None:
    assert with_conf(tmp_path, name, value).apply(f"it is {value}") == f"it is {value}"


def test_a_password_in_a_harmless_setting_is_hidden(tmp_path: Path) -> None:
    found = with_conf(tmp_path, "spark.eventLog.dir", "hdfs://joe:pa-ss-word@host/x")

    assert found.apply("it is pa-ss-word in hdfs") == f"it is {HIDDEN} in hdfs"
