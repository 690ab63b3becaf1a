"""Which store an application gets, when, and what it must be told before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.bootstrap import (
    ExecutorFactory,
    describe_store,
    lakefs_connection,
    open_application,
    open_store,
)
from perago.domain.errors import SettingsError, UsageError
from perago.settings import Settings

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def embedded(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def lakefs(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        store="lakefs",
        lakefs_endpoint="http://127.0.0.1:1/api/v1",
        lakefs_access_key_id="AKIA",
        lakefs_secret_access_key=SecretStr(SECRET),
        lakefs_storage_namespace="local://lake",
        lakefs_presign=True,
        transfer_concurrency=3,
        cache_directory=tmp_path / "cache",
    )


def test_the_embedded_store_is_the_default(embedded: Settings) -> None:
    with open_application(embedded, create=True) as application:
        assert application.store is application.embedded_store
        assert isinstance(application.store, EmbeddedWorkspaceStore)


def test_lakefs_where_the_settings_say_so(lakefs: Settings) -> None:
    with open_application(lakefs) as application:
        store = application.store

        assert isinstance(store, LakeFSWorkspaceStore)
        assert application.store is store, "opened once"


def test_a_lakefs_store_needs_no_home_and_an_orchestrator_does(lakefs: Settings) -> None:
    with open_application(lakefs, create=True) as application:
        assert application.store is not None
        assert not lakefs.home.exists()
        assert application.orchestrator.workflows(limit=1) == []
        assert lakefs.home.is_dir()


def test_a_home_that_is_asked_for_must_exist(lakefs: Settings, embedded: Settings) -> None:
    with (
        open_application(lakefs) as application,
        pytest.raises(UsageError, match="no Perago home"),
    ):
        application.orchestrator.workflows(limit=1)
    with (
        open_application(embedded) as application,
        pytest.raises(UsageError, match="no Perago home"),
    ):
        application.store.repositories()


def test_upkeep_of_the_embedded_store_says_what_to_do_on_lakefs(lakefs: Settings) -> None:
    with open_application(lakefs) as application, pytest.raises(UsageError) as caught:
        application.embedded_store.verify()

    assert "lakeFS" in caught.value.message
    assert "perago gc --staging" in (caught.value.hint or "")


def test_incomplete_settings_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", store="lakefs")

    with pytest.raises(SettingsError, match="lakefs_endpoint"), open_application(settings):
        pytest.fail("it must not open")

    assert list(tmp_path.iterdir()) == []


def test_the_connection_is_what_the_settings_say(lakefs: Settings) -> None:
    connection = lakefs_connection(lakefs)

    assert connection.endpoint == "http://127.0.0.1:1"
    assert connection.secret_access_key == SECRET
    assert connection.concurrency == 3
    assert connection.storage_namespace == "local://lake"
    assert connection.presign
    assert SECRET not in repr(connection)


def test_what_is_said_of_a_store_is_what_the_store_says(
    embedded: Settings, lakefs: Settings
) -> None:
    embedded.home.mkdir()
    with ExitStack() as stack:
        for settings, kind in ((embedded, "embedded"), (lakefs, "lakefs")):
            store = open_store(settings, SystemClock(), stack)
            said = describe_store(settings)
            assert (said.kind, said.fencing) == (kind, store.fencing)
    assert str(describe_store(lakefs)) == "lakefs at http://127.0.0.1:1, soft fence"
    assert str(describe_store(embedded)) == f"embedded at {embedded.home}, atomic fence"


@pytest.mark.parametrize(("size", "has_cache"), [(0, False), (1_000_000, True)])
def test_a_cache_of_size_0_is_none(lakefs: Settings, size: int, has_cache: bool) -> None:
    settings = lakefs.model_copy(update={"cache_max_bytes": size})

    with ExitStack() as stack:
        store = open_store(settings, SystemClock(), stack)

        assert isinstance(store, LakeFSWorkspaceStore)
        assert (store._cache is not None) is has_cache


def test_an_executor_gets_the_secret_and_shows_it_to_nobody(
    lakefs: Settings, tmp_path: Path
) -> None:
    factory = ExecutorFactory(settings=lakefs, targets=("x.py",), search_path=tmp_path)

    copy = pickle.loads(pickle.dumps(factory))

    assert lakefs_connection(copy.settings).secret_access_key == SECRET
    assert SECRET not in repr(copy)


def test_the_client_of_lakefs_is_imported_only_where_it_is_used(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom perago.bootstrap import open_application\n"
        "from perago.settings import Settings\n"
        "from pathlib import Path\n"
        f"with open_application(Settings(home=Path({str(tmp_path)!r}))) as application:\n"
        "    application.store.repositories()\n"
        "print([m for m in ('perago.adapters.lakefs.api', 'yaml') if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[]\n"
