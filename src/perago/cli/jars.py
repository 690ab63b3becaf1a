"""`perago jars`: what Spark needs for direct workspaces and Delta tables, got ahead of time."""

from __future__ import annotations

import os

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, plural

HELP = help_text(
    "Get the jars with which Spark reaches lakeFS by itself, and those of Delta Lake.",
    {
        "perago jars": "get them once, and say where they are",
        "perago jars --json": "the same as a list, for a script that builds an image",
        "PERAGO_SPARK_TABLES=delta perago jars": "those of Delta Lake too",
    },
    "A worker gets what its tasks need when it starts; this does it beforehand. They come from "
    "Maven Central, by Spark's own resolver, and stay in the cache (PERAGO_CACHE_DIRECTORY).",
)


def jars(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Get the jars."""
    from perago.adapters.progress import Progress
    from perago.bootstrap.machine import get_jars

    output = Output(as_json=as_json)
    progress = Progress(say=output.note)
    found = get_jars(options_of(context).settings(), os.environ, progress)
    output.answer({"jars": [str(jar) for jar in found]})
    size = sum(jar.stat().st_size for jar in found) / 1e6
    where = " and ".join(dict.fromkeys(str(jar.parent) for jar in found))
    output.say(f"{plural(len(found), 'jar')}, {size:.0f} MB" + (f" in {where}" if where else ""))
