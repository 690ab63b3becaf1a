"""What `perago doctor` looks at on this machine, whichever store is chosen."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from perago.app.diagnosis import Check, examine, failed, passed, skipped, warned
from perago.cli.output import plural, show_bytes
from perago.domain.errors import EnvironmentUnfitError, NotFoundInStoreError
from perago.domain.ids import BranchName, RepositoryName
from perago.settings import Settings

_LITTLE_BYTES = 1_000_000_000
_TOO_LITTLE_BYTES = 100_000_000
_FREE_SOME = "free some, or choose another disk"


def check_machine(settings: Settings, *, write: bool) -> Iterator[Check]:
    """The home, the disks and Spark, and what is in the home; without `write`, by reading alone."""
    yield examine("home", lambda: _check_home(settings.home, write=write))
    if settings.orchestrator == "embedded":
        yield examine("orchestrator", lambda: _check_orchestrator(settings))
    yield examine("workspace root", lambda: _check_space(settings))
    if settings.store == "lakefs":
        yield examine("cache", lambda: _check_cache(settings, write=write))
    yield examine("Spark", lambda: _check_spark(settings))


def check_embedded_store(
    settings: Settings, repository: RepositoryName, branch: BranchName
) -> Check:
    """Whether the embedded store opens and has the target."""
    return examine("repository", lambda: _find_target(settings, repository, branch))


def _check_home(home: Path, *, write: bool) -> Check:
    free = f"{show_bytes(_free_bytes(home))} free"
    if not home.is_dir():
        parent = next(path for path in (home, *home.parents) if path.exists())
        if not parent.is_dir():
            return failed(
                "home",
                f"there is none at {home}: {parent} is a file",
                "move that file away, or choose another home (--home or PERAGO_HOME)",
            )
        if not os.access(parent, os.W_OK):
            return failed(
                "home",
                f"there is none at {home}, and none can be made in {parent}",
                "make it writable, or choose another home (--home or PERAGO_HOME)",
            )
        return warned(
            "home",
            f"there is none at {home} yet; {free}",
            "`perago run` makes it; or name another with --home or PERAGO_HOME",
        )
    if not _is_writable(home, write=write):
        return failed(
            "home",
            f"{home} cannot be written",
            "make it writable, or choose another home (--home or PERAGO_HOME)",
        )
    return _judge_space("home", home)


def _check_orchestrator(settings: Settings) -> Check:
    from perago.adapters.embedded.orchestrator.embedded_orchestrator import DATABASE_NAME
    from perago.bootstrap import open_application

    place = f"embedded, in {settings.home}"
    if not (settings.home / DATABASE_NAME).is_file():
        return passed("orchestrator", f"{place}: nothing has run yet")
    # The store has its own check: what its settings lack must not hide the orchestrator.
    own = settings.model_copy(update={"store": "embedded"})
    with open_application(own) as application:
        unfinished = len(application.orchestrator.workflow_ids(limit=1000, unfinished=True))
    return passed("orchestrator", f"{place}: {plural(unfinished, 'unfinished run')}")


def _check_space(settings: Settings) -> Check:
    return _judge_space("workspace root", settings.attempts_root)


def _check_cache(settings: Settings, *, write: bool) -> Check:
    directory, limit = settings.cache_directory / "content", settings.cache_max_bytes
    if not limit:
        return passed("cache", "off (PERAGO_CACHE_MAX_BYTES is 0)")
    free = _free_bytes(directory)
    if not directory.is_dir():
        used, kept = 0, "nothing yet"
    elif not write:
        return skipped("cache", f"{directory}: not counted, as --no-probe asks")
    else:
        used, kept = _count_cache(directory, limit)
    found = f"{directory}: {kept}, at most {show_bytes(limit)}; {show_bytes(free)} free"
    if free + used < limit:
        return warned(
            "cache",
            found,
            "its disk cannot hold that much: set PERAGO_CACHE_MAX_BYTES lower, or choose another "
            "disk with PERAGO_CACHE_DIRECTORY",
        )
    return passed("cache", found)


def _count_cache(directory: Path, limit: int) -> tuple[int, str]:
    from perago.adapters.object_cache import ObjectCache

    cache = ObjectCache(directory, max_bytes=limit)
    try:
        count, used = cache.usage()
    finally:
        cache.close()
    return used, f"{plural(count, 'content')}, {show_bytes(used)}"


def _check_spark(settings: Settings) -> Check:
    from perago.bootstrap import describe_spark

    if importlib.util.find_spec("pyspark") is None:
        return passed("Spark", "pyspark is not installed; only tasks on Spark need it")
    try:
        return passed("Spark", describe_spark(settings))
    except EnvironmentUnfitError as error:
        advice = error.hint or "see docs/how-to/spark.md"
        return warned("Spark", f"tasks on Spark cannot run: {error.message}", advice)


def _find_target(settings: Settings, repository: RepositoryName, branch: BranchName) -> Check:
    from perago.adapters.embedded.store.layout import StoreHome
    from perago.bootstrap import open_application

    if not StoreHome(settings.home).database.is_file():
        return passed("repository", "there is no store yet; `perago run` makes it")
    with open_application(settings) as application:
        if repository not in application.store.repositories():
            return passed("repository", f"no {repository!r} yet; `perago run` makes it")
        try:
            head = application.store.head(repository, branch)
        except NotFoundInStoreError as error:
            return failed(
                "repository",
                error.message,
                f"make it with `perago store branch {repository} {branch}`, or name another: "
                "REPO@BRANCH",
            )
    return passed("repository", f"{repository!r}: {branch!r} stands at {head.id[:12]}")


def _judge_space(name: str, place: Path) -> Check:
    free = _free_bytes(place)
    found = f"{place}: {show_bytes(free)} free"
    if free < _TOO_LITTLE_BYTES:
        return failed(name, found, _FREE_SOME)
    return warned(name, found, _FREE_SOME) if free < _LITTLE_BYTES else passed(name, found)


def _is_writable(directory: Path, *, write: bool) -> bool:
    if not write:
        return os.access(directory, os.W_OK)
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _free_bytes(place: Path) -> int:
    return shutil.disk_usage(_nearest(place)).free


def _nearest(place: Path) -> Path:
    """The directory itself, or the one that it would be made in."""
    return next(path for path in (place, *place.parents) if path.is_dir())
