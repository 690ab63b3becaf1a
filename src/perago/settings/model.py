"""Every setting: its type, its default and what it means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from perago.domain.errors import SettingsError
from perago.domain.outcome import JsonObject
from perago.domain.redaction import HIDDEN, NOTHING_KNOWN
from perago.runtime.failpoints import parse_failpoints
from perago.settings.conductor import ConductorSettings
from perago.settings.endpoint import normalise_lakefs
from perago.settings.spark_names import is_harmless
from perago.settings.worker import WorkerSettings

ENVIRONMENT_PREFIX = "PERAGO_"

_CONNECT_ADDRESS = re.compile(
    r"sc://(\[[0-9a-fA-F:.]+\]|[^\s/;@:\[\]]+)(:\d+)?(/(;[^\s=;]+=[^=;]+)*)?"
)
"""What pyspark's client takes: a parameter has one `=` and ends at a `;`."""


class Settings(ConductorSettings, WorkerSettings):
    """Everything that can be configured. Field descriptions are the reference documentation."""

    # A message about a bad value would quote it, and it may be a secret.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    home: Annotated[
        Path,
        Field(description="Where the embedded store, the embedded orchestrator and logs live."),
    ] = Path(".perago")
    store: Annotated[
        Literal["embedded", "lakefs"],
        Field(
            description="Where the workspaces are: in the home, or on a lakeFS server. `lakefs` "
            "by itself where `lakefs_endpoint` is set."
        ),
    ] = "embedded"
    lakefs_endpoint: Annotated[
        str | None,
        Field(description="The lakeFS server, such as `https://lakefs.example.com`."),
    ] = None
    lakefs_access_key_id: Annotated[
        str | None, Field(description="Who Perago is on the lakeFS server.", min_length=1)
    ] = None
    lakefs_secret_access_key: Annotated[
        SecretStr | None,
        Field(description="The secret that goes with the key; better not in a file.", min_length=1),
    ] = None
    lakefs_ca_file: Annotated[
        Path | None,
        Field(description="CA certificates to trust for the server, in PEM form."),
    ] = None
    lakefs_timeout_seconds: Annotated[
        float,
        Field(
            description="The bound on every call to the server but a publication, whose bound is "
            "its task's `PublishBudget`.",
            gt=0,
        ),
    ] = 30.0
    lakefs_retry_seconds: Annotated[
        float,
        Field(
            description="How long a call that may be repeated is tried again after its first "
            "failure: enough for a restart of the server. One that was never reached is given up "
            "after 3 seconds.",
            ge=0,
        ),
    ] = 30.0
    lakefs_storage_namespace: Annotated[
        str | None,
        Field(
            description="Where new repositories are put, such as `s3://bucket/lake`; the server's "
            "own default unless set.",
            min_length=1,
        ),
    ] = None
    lakefs_etag_is_md5: Annotated[
        bool,
        Field(
            description="Whether a checksum of the server that looks like an MD5 is one; it is not "
            "on a block store that encrypts with keys of its own (SSE-KMS, SSE-C)."
        ),
    ] = True
    lakefs_presign: Annotated[
        bool,
        Field(
            description="Whether objects of 4 MiB and more go between this host and the block "
            "store directly, at addresses that the server signs, where it can; this host must "
            "reach the block store then."
        ),
    ] = False
    transfer_concurrency: Annotated[
        int, Field(description="How many objects one attempt moves at a time.", ge=1, le=256)
    ] = 16
    cache_directory: Annotated[
        Path,
        Field(
            description="Where a worker host keeps downloaded content and tools; "
            "`$XDG_CACHE_HOME/perago` where that is set."
        ),
    ] = Path("~/.cache/perago")
    cache_max_bytes: Annotated[
        ByteSize,
        Field(
            description="How much downloaded content is kept, such as `20GB` or `512MiB`; 0 keeps "
            "none.",
            ge=0,
        ),
    ] = ByteSize(10 * 2**30)
    keep_failed_staging: Annotated[
        bool,
        Field(
            description="Whether the staging branch of a failed attempt is left for people to look "
            "at, until `perago gc --staging` removes it."
        ),
    ] = False
    workspace_root: Annotated[
        Path | None,
        Field(
            description="Where attempts get their local directories; `<home>/workspaces` unless "
            "set. One supervisor at a time."
        ),
    ] = None
    repository: Annotated[
        str, Field(description="The repository that `run` works on.", min_length=1)
    ] = "workspace"
    branch: Annotated[
        str, Field(description="The target branch that `run` advances.", min_length=1)
    ] = "main"
    durability: Annotated[
        Literal["process", "power"],
        Field(
            description="`process`: a killed process loses nothing. `power`: nor does a power "
            "failure, at the price of an fsync per file."
        ),
    ] = "process"
    replace_unlabelled: Annotated[
        bool,
        Field(
            description="Whether a commit without Perago metadata on top of the input ref may be "
            "taken for an abandoned publication and replaced."
        ),
    ] = True
    spark_master: Annotated[
        str,
        Field(
            description="The Spark master, such as `spark://host:7077`, `k8s://…` or `yarn`; "
            "`local` takes this executor's share of cores."
        ),
    ] = "local"
    spark_remote: Annotated[
        SecretStr | None,
        Field(
            description="A Spark Connect server, such as `sc://host:15002`, to be used instead of "
            "a Spark of the worker's own. It may hold a token: `sc://host/;token=…`."
        ),
    ] = None
    workspace_root_is_shared: Annotated[
        bool,
        Field(
            description="Whether the machines of a Spark cluster see `workspace_root` at the same "
            "path. Without it, tasks that hand local files to a cluster are refused."
        ),
    ] = False
    spark_cores: Annotated[
        int | None, Field(description="Cores for all executors' Spark together.", ge=1)
    ] = None
    spark_memory_mb: Annotated[
        int | None, Field(description="Memory for all executors' Spark together, in MiB.", ge=512)
    ] = None
    spark_access: Annotated[
        Literal["local", "direct"],
        Field(
            description="How Spark reaches a workspace on lakeFS, where the task does not say: "
            "`local`, as files that the worker brings to its machine, or `direct`, by itself."
        ),
    ] = "local"
    spark_tables: Annotated[
        Literal["none", "delta"],
        Field(
            description="The table format that Spark has besides plain files: `delta` for Delta "
            "Lake."
        ),
    ] = "none"
    spark_jars: Annotated[
        str | None,
        Field(
            description="The jars with which Spark reaches lakeFS (Hadoop's S3A) and, with "
            "`spark_tables`, those of Delta Lake, separated by commas; `none` where Spark has them "
            "already. Unless set, they are got from Maven Central once, 12 MB and 9 MB, and kept "
            "in the cache.",
            min_length=1,
        ),
    ] = None
    spark_credentials: Annotated[
        Literal["worker", "cluster"],
        Field(
            description="Whose keys Spark reaches lakeFS with: `worker`, those of these settings, "
            "given to each attempt's Spark for its repository alone, or `cluster`, those that "
            "Spark's own configuration has."
        ),
    ] = "worker"
    spark_ship_code: Annotated[
        bool,
        Field(
            description="Whether Spark on other machines is sent the tasks' own modules; `false` "
            "where they have them. Spark on this machine never needs it."
        ),
    ] = True
    spark_py_files: Annotated[
        str | None,
        Field(
            description="What Spark on other machines is sent besides: `.zip`, `.py` and `.whl` "
            "files, separated by commas.",
            min_length=1,
        ),
    ] = None
    spark_conf: Annotated[
        Mapping[str, str],
        Field(
            description="Further Spark settings; a table in a file, a JSON object in PERAGO_*. "
            "What they hold is taken for a secret unless the name is known to hold none.",
            repr=False,
        ),
    ] = {}
    failpoints: Annotated[
        str, Field(description="For tests: where to crash, pause or fail an attempt.")
    ] = ""

    @field_validator(
        "home", "workspace_root", "lakefs_ca_file", "conductor_ca_file", "cache_directory"
    )
    @classmethod
    def _make_absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("lakefs_endpoint")
    @classmethod
    def _normalise_endpoint(cls, value: str | None) -> str | None:
        return None if value is None else normalise_lakefs(value)

    @field_validator("spark_remote")
    @classmethod
    def _check_remote(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        # Never quoted: whatever is wrong with it, it may hold a token.
        if _CONNECT_ADDRESS.fullmatch(value.get_secret_value()) is None:
            raise ValueError(
                "must be the address of a Spark Connect server: sc://host:15002, or "
                "sc://host:15002/;token=...;use_ssl=true with parameters, each a name and a value; "
                "in a value, write = as %3D and ; as %3B"
            )
        return value

    @field_validator("cache_max_bytes", "recycle_above_memory", "attempt_log_bytes", mode="wrap")
    @classmethod
    def _explain_size(cls, value: object, parse: ValidatorFunctionWrapHandler) -> ByteSize | None:
        try:
            size: ByteSize | None = parse(value)
        except ValidationError:
            raise ValueError("must be a size such as 20GB") from None
        return size

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _parse_conf(cls, value: object) -> object:
        parsed = json.loads(value) if isinstance(value, str) else value
        if not isinstance(parsed, Mapping):
            raise ValueError("expected a table of Spark settings")  # noqa: TRY004 - pydantic's protocol
        return {key: _conf_text(entry) for key, entry in parsed.items()}

    @field_validator("failpoints")
    @classmethod
    def _check_failpoints(cls, value: str) -> str:
        try:
            parse_failpoints(value)
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return value

    def shown(self) -> JsonObject:
        """Every value as JSON for people, without what may be a secret."""
        values: JsonObject = self.model_dump(mode="json")
        for name in values:
            if isinstance(getattr(self, name), SecretStr):
                values[name] = HIDDEN
        values["spark_remote"] = self.spark_address
        values["spark_conf"] = {
            key: value if is_harmless(key) else HIDDEN for key, value in self.spark_conf.items()
        }
        # Addresses may hold passwords.
        return {name: NOTHING_KNOWN.apply_to_json(value) for name, value in values.items()}

    @property
    def spark_address(self) -> str | None:
        """The Spark Connect server, without its parameters: one of them may be a token."""
        if self.spark_remote is None:
            return None
        return self.spark_remote.get_secret_value().partition(";")[0].rstrip("/")

    @property
    def attempts_root(self) -> Path:
        """Where attempts get their local directories."""
        return self.workspace_root or self.home / "workspaces"

    @property
    def logs_directory(self) -> Path:
        """Where attempts and executors write their logs."""
        return self.home / "logs"


def _conf_text(value: object) -> str:
    """Spark takes text: TOML and JSON booleans become Spark's own spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)
