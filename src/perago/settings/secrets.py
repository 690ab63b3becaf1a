"""Which texts of the settings and of the environment are secrets; the one redactor of a process.

Invariant: a Spark setting counts as a secret unless its name is known to hold none.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

from pydantic import SecretStr

from perago.domain.redaction import Redactor
from perago.settings.conductor import SECRET_VARIABLES as CONDUCTOR_SECRETS
from perago.settings.lakectl import SECRET_VARIABLES as LAKECTL_SECRETS
from perago.settings.model import Settings
from perago.settings.spark_names import is_harmless, is_telling

_PLAIN = re.compile(r"(?:true|false|none|[+-]?\d[\d.,:]*\s*[a-zA-Z]{0,3})", re.IGNORECASE)
"""Values that say nothing: hiding them would spoil every line that has a number."""
_SHORTEST_VALUE = 8
"""Shorter ones of names that do not tell are words such as `UTC`."""

_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS")
_PROXY = re.compile(r"\w+_PROXY", re.IGNORECASE)
_USER_AND_PASSWORD = re.compile(r"://([^/@:]*):([^/@]+)@")


def redactor_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Redactor:
    """What hides the secrets of these settings and of this environment, however they are spelt."""
    plain = {*_secrets_in(settings), *_secrets_in_environment(environment or {})}
    return Redactor(tuple(spelling for secret in plain for spelling in _spellings(secret)))


def _secrets_in(settings: Settings) -> Iterator[str]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
    if settings.spark_remote is not None:
        yield from _tokens_of(settings.spark_remote.get_secret_value())
    for name, value in settings.spark_conf.items():
        if _may_be_secret(name, value):
            yield value
        yield from _passwords_of(value)
    for user, secret in (
        (settings.lakefs_access_key_id, settings.lakefs_secret_access_key),
        (settings.conductor_auth_key, settings.conductor_auth_secret),
    ):
        if user is not None and secret is not None:
            pair = f"{user}:{secret.get_secret_value()}"
            yield b64encode(pair.encode()).decode()  # as HTTP's Basic authorization has it
    for text in (settings.lakefs_storage_namespace, settings.spark_master):
        yield from _passwords_of(text or "")


def _may_be_secret(name: str, value: str) -> bool:
    if is_telling(name):
        return _PLAIN.fullmatch(value) is None or value.isdigit()
    is_word = len(value) < _SHORTEST_VALUE or _PLAIN.fullmatch(value) is not None
    return not (is_word or is_harmless(name))


def _tokens_of(remote: str) -> Iterator[str]:
    """The values of a Spark Connect address: whatever is no switch may be a token."""
    _, _, parameters = remote.partition("/;")
    for parameter in parameters.split(";"):
        _, _, value = parameter.partition("=")
        if _PLAIN.fullmatch(value) is None:
            yield value
            yield unquote(value)


def _secrets_in_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name in LAKECTL_SECRETS or name in CONDUCTOR_SECRETS:
            yield value
        elif _HEADERS.fullmatch(name):
            # Such as `api-key=…,tenant=…`.
            for header in value.split(","):
                yield header.partition("=")[2].strip()
                yield unquote(header.partition("=")[2].strip())
        elif _PROXY.fullmatch(name):
            yield from _passwords_of(value)


def _passwords_of(address: str) -> Iterator[str]:
    for match in _USER_AND_PASSWORD.finditer(address):
        yield match[2]
        yield unquote(match[2])


def _spellings(secret: str) -> Iterator[str]:
    """A secret as texts have it: itself, as Python shows it, and in addresses."""
    yield secret
    yield repr(secret)[1:-1]
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
