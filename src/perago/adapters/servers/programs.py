"""The programs that development and tests run, each pinned to a version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LAKEFS_VERSION = "1.86.0"
"""What the tests run against. Not every version can be had from a Go module proxy; this one can."""

CONDUCTOR_VERSION = "3.32.1"
"""What the tests run against."""

_LAKEFS_MODULE = "github.com/treeverse/lakefs"
_LAKEFS_SUM = "h1:cODxuNUnDEFaueXRUI53G5tUq9FelXyR9A5Y9+WNWUk="


class Runnable(Protocol):
    """Whatever a server is started from."""

    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a pinned version. `family` names what is released together under one version."""

    name: str
    title: str
    family: str
    version: str

    def __str__(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def file_name(self) -> str:
        """What the cache calls it."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram(Program):
    """A program of a Go module."""

    module: str
    package: str
    module_sum: str
    """What Go says of the module that it downloaded; its go.sum answers for all others."""
    version_variable: str
    """The Go variable that the linker fills: a build that nobody labels calls itself `dev`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenProgram(Program):
    """A program in one jar, as a Maven repository has it."""

    group: str
    artifact: str
    classifier: str
    megabytes: int
    sha256: str
    """What the jar must hold: that of the tests."""

    @property
    def coordinates(self) -> str:
        """As Maven's command line names it."""
        return f"{self.group}:{self.artifact}:{self.version}:jar:{self.classifier}"

    @property
    def file_name(self) -> str:
        """What Maven and the cache call it."""
        return f"{self.artifact}-{self.version}-{self.classifier}.jar"

    @property
    def repository_path(self) -> Path:
        """Where a Maven repository has it."""
        directory = Path(*self.group.split("."), self.artifact, self.version)
        return directory / self.file_name


LAKEFS = GoProgram(
    name="lakefs",
    title="lakeFS",
    family="lakefs",
    version=LAKEFS_VERSION,
    module=_LAKEFS_MODULE,
    module_sum=_LAKEFS_SUM,
    package="./cmd/lakefs",
    version_variable=f"{_LAKEFS_MODULE}/pkg/version.Version",
)
LAKECTL = GoProgram(
    name="lakectl",
    title="lakectl",
    family="lakefs",
    version=LAKEFS_VERSION,
    module=_LAKEFS_MODULE,
    module_sum=_LAKEFS_SUM,
    package="./cmd/lakectl",
    version_variable=f"{_LAKEFS_MODULE}/pkg/version.Version",
)
CONDUCTOR = MavenProgram(
    name="conductor",
    title="Conductor",
    family="conductor",
    version=CONDUCTOR_VERSION,
    group="org.conductoross",
    artifact="conductor-server",
    classifier="boot",
    megabytes=458,
    sha256="f3699a34bb72c35c10469a063392e5de4900bc4568c8a4357a711186d6269d3f",
)
