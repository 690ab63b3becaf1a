"""The single defects that can be planted in a Python file, and how to plant one.

Four kinds, drawn alike: a skipped step (a fence, a check, a refusal), a condition turned round, a
changed or dropped comparison, a changed constant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("step skipped", "condition turned round", "comparison off", "constant changed")

_OFF = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A place in a file, and its replacement."""

    file: str
    kind: str
    first_line: int
    last_line: int
    start: int
    end: int
    was: str
    now: str

    def __str__(self) -> str:
        was, now = (" ".join(text.split()) for text in (self.was, self.now))
        return f"{self.file}:{self.first_line}  {self.kind}: {was}  ->  {now}"

    def plant(self, tree: Path) -> None:
        """Change the file below this directory."""
        place = tree / self.file
        content = place.read_bytes()
        place.write_bytes(content[: self.start] + self.now.encode() + content[self.end :])


def find_defects(tree: Path, file: str) -> Iterator[Defect]:
    """Every defect that the file could have."""
    content = (tree / file).read_bytes()
    lines = content.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    for node, kind, now in _find_changes(ast.parse(content)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        was = content[start:end].decode()
        yield Defect(
            file=file,
            kind=kind,
            first_line=node.lineno,
            last_line=node.end_lineno,
            start=start,
            end=end,
            was=was,
            now=now,
        )


_Change = tuple[ast.expr | ast.stmt, str, str]


def _find_changes(module: ast.Module) -> Iterator[_Change]:
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop(0)
        yield from _changes_of(node)
        waiting += _parts_that_run(node)


def _parts_that_run(node: ast.AST) -> list[ast.AST]:
    """The parts of a node, but for annotations and the options of a class's decorators."""
    left_out: list[ast.AST | None] = []
    match node:
        case ast.ClassDef():
            # `frozen`, `slots` and the like only guard against mistakes in later changes.
            left_out = [*node.decorator_list]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            left_out = [node.returns]
        case ast.AnnAssign() | ast.arg():
            left_out = [node.annotation]
        case ast.JoinedStr():
            return []
        case _:
            pass
    return [part for part in ast.iter_child_nodes(node) if part not in left_out]


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) if not _is_log_line(node):
            yield node, "step skipped", "pass"
        case ast.Raise():
            yield node, "step skipped", "pass"
        case ast.Constant(value=bool() as value):
            yield node, "constant changed", str(not value)
        case ast.Constant(value=int() | float() as value):
            yield node, "constant changed", str(2 * value + 1)
        case ast.expr():
            for now in _other_comparisons(node):
                yield node, "comparison off", f"({now})"
        case _:
            pass
    for test in _conditions_of(node):
        yield test, "condition turned round", f"(not ({ast.unparse(test)}))"


def _other_comparisons(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[operator]):
            left, (right,) = node.left, node.comparators
            yield f"{ast.unparse(left)} {_OFF[type(operator)]} {ast.unparse(right)}"
        case ast.BoolOp(values=values):
            for left_out in range(len(values)):
                kept = [value for number, value in enumerate(values) if number != left_out]
                yield ast.unparse(kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept))
        case _:
            pass


def _conditions_of(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.comprehension(ifs=tests):
            return tests
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
        case _:
            return []


def _is_log_line(node: ast.Expr) -> bool:
    """Whether it only writes a line for people: nothing that happens depends on it."""
    match node.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "logging"))):
            return True
        case _:
            return False
