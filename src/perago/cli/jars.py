"""`perago jars`: what Spark needs to reach a lakeFS server by itself, got ahead of time."""

from __future__ import annotations

import os

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, plural

HELP = help_text(
    "Get the jars with which Spark reaches lakeFS by itself.",
    {
        "perago jars": "get them once, and say where they are",
        "perago jars --json": "the same as a list, for a script that builds an image",
    },
    "A worker whose tasks have direct workspaces gets them at its first such attempt; this does it "
    "beforehand. They come from Maven Central, by Spark's own resolver, and stay in the cache "
    "(PERAGO_CACHE_DIRECTORY).",
)


def jars(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Get the jars."""
    from perago.adapters.progress import Progress
    from perago.bootstrap.machine import get_s3a_jars

    output = Output(as_json=as_json)
    progress = Progress(say=output.note)
    found = get_s3a_jars(options_of(context).settings(), os.environ, progress)
    output.answer({"jars": [str(jar) for jar in found]})
    size = sum(jar.stat().st_size for jar in found) / 1e6
    where = f" in {found[0].parent}" if found else ""
    output.say(f"{plural(len(found), 'jar')}, {size:.0f} MB{where}")
