"""The programs that development and tests run, each pinned to a version."""

from __future__ import annotations

from dataclasses import dataclass

LAKEFS_VERSION = "1.86.0"
"""What the tests run against. Not every version can be had from a Go module proxy; this one can."""

_LAKEFS_MODULE = "github.com/treeverse/lakefs"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A program of a Go module. `family` names what is released together under one version."""

    name: str
    title: str
    family: str
    version: str
    module: str
    package: str
    version_variable: str
    """The Go variable that the linker fills: a build that nobody labels calls itself `dev`."""

    def __str__(self) -> str:
        return f"{self.title} {self.version}"


LAKEFS = GoProgram(
    name="lakefs",
    title="lakeFS",
    family="lakefs",
    version=LAKEFS_VERSION,
    module=_LAKEFS_MODULE,
    package="./cmd/lakefs",
    version_variable=f"{_LAKEFS_MODULE}/pkg/version.Version",
)
LAKECTL = GoProgram(
    name="lakectl",
    title="lakectl",
    family="lakefs",
    version=LAKEFS_VERSION,
    module=_LAKEFS_MODULE,
    package="./cmd/lakectl",
    version_variable=f"{_LAKEFS_MODULE}/pkg/version.Version",
)
