"""Two tasks and a pipeline: count the words of some texts, then list the most frequent ones."""

import csv
import re
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from perago import Pipeline, WorkspaceSpec, require_columns, require_glob, task


class CountParams(BaseModel):
    min_length: int = 4


class CountResult(BaseModel):
    texts: int
    words: int


@task(
    "count_words",
    owner_email="you@example.com",
    workspace=WorkspaceSpec(
        prefix="library",
        pre=[require_glob("texts/*.txt")],
        post=[require_columns("counts.csv", ["word", "times"])],
    ),
)
def count_words(workspace: Path, params: CountParams) -> CountResult:
    """Count how often each word appears in all texts."""
    texts = sorted(workspace.glob("texts/*.txt"))
    counts: Counter[str] = Counter()
    for text in texts:
        words = re.findall(r"\w+", text.read_text(encoding="utf-8").lower())
        counts.update(word for word in words if len(word) >= params.min_length)
    with (workspace / "counts.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["word", "times"])
        writer.writerows(sorted(counts.items()))
    return CountResult(texts=len(texts), words=len(counts))


class TopParams(BaseModel):
    top: int = 3


class TopResult(BaseModel):
    words: list[str]


@task(
    "top_words",
    owner_email="you@example.com",
    workspace=WorkspaceSpec(prefix="library"),
)
def top_words(workspace: Path, params: TopParams) -> TopResult:
    """Write the most frequent words as a list for people."""
    with (workspace / "counts.csv").open(encoding="utf-8", newline="") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: (-int(row["times"]), row["word"]))
    top = rows[: params.top]
    lines = [f"- {row['word']}: {row['times']}\n" for row in top]
    (workspace / "top.md").write_text("".join(lines), encoding="utf-8")
    return TopResult(words=[row["word"] for row in top])


class Params(BaseModel):
    min_length: int = 4
    top: int = 3


pipeline = Pipeline("word_count", 1, [count_words, top_words], params=Params)
