"""The page on lakeFS names every call that the adapter makes, and its policies allow just those."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.lakefs_policy import kind_of, read_policy, read_table

HTTP_CALLS: dict[str, list[tuple[str, str | None]]] = {
    "block_store.py": [("GET", None), ("PUT", None)],
    "data_plane.py": [
        ("GET", "get_object"),
        ("GET", "get_object"),
        ("POST", "upload_object"),
        ("GET", "stat_object"),
        ("GET", "get_config"),
    ],
    "gateway_upload.py": [
        ("POST", "CreateMultipartUpload"),
        ("PUT", "UploadPart"),
        ("POST", "CompleteMultipartUpload"),
        ("DELETE", "AbortMultipartUpload"),
    ],
    "presigned_upload.py": [
        ("POST", "create_presign_multipart_upload"),
        ("PUT", "upload_part"),
        ("PUT", "complete_presign_multipart_upload"),
        ("DELETE", "abort_presign_multipart_upload"),
    ],
}
"""The requests for objects, in the order of the adapter's source; the others are in `calls.py`.

None: to an address that the server signed, which lets everybody in who has it. Whoever adds a
request names it here, and says in the page what it needs.
"""


@pytest.fixture(scope="module")
def adapter(project_root: Path) -> dict[str, ast.Module]:
    """The adapter's source by the names of its files."""
    folder = project_root / "src" / "perago" / "adapters" / "lakefs"
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}


def calls_of(module: ast.Module) -> set[str]:
    """The functions of `calls.py` that make a call."""
    return {
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def used_calls_of(modules: Iterable[ast.Module]) -> set[str]:
    """Which of them others use: `calls.get_branch(…)`."""
    return {
        node.attr
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "calls"
    }


def http_methods_of(module: ast.Module) -> list[str]:
    """The method of every request that is laid out with one, in the order of the source."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="urlopen" | "request" | "_request"),
                args=[ast.Constant(value=str(method)), *_],
            ):
                found.append((node.lineno, method))
            case ast.Call(func=ast.Name(id="Request"), keywords=keywords):
                found += [
                    (node.lineno, keyword.value.value)
                    for keyword in keywords
                    if keyword.arg == "method"
                    and isinstance(keyword.value, ast.Constant)
                    and isinstance(keyword.value.value, str)
                ]
            case _:
                pass
    return [method for _, method in sorted(found)]


def test_every_request_for_an_object_is_known(adapter: dict[str, ast.Module]) -> None:
    found = {name: methods for name in adapter if (methods := http_methods_of(adapter[name]))}

    assert found == {name: [method for method, _ in calls] for name, calls in HTTP_CALLS.items()}


def test_the_table_has_every_call_of_the_adapter_and_no_other(
    adapter: dict[str, ast.Module],
) -> None:
    calls = calls_of(adapter["calls.py"])
    for_objects = {call for rows in HTTP_CALLS.values() for _, call in rows if call is not None}

    assert calls > {"hard_reset_branch", "merge_into_branch", "get_current_user"}
    assert used_calls_of(adapter.values()) == calls
    assert {row.call for row in read_table()} == calls | for_objects


def test_the_policies_allow_what_the_table_says_and_nothing_else() -> None:
    allowed = {
        (action, kind_of(statement["resource"]))
        for name in ("worker", "creator")
        for statement in read_policy(name)
        for action in statement["action"]
    }
    needed = {(row.action, row.kind) for row in read_table() if row.action}

    assert allowed == needed


def test_every_policy_only_allows_and_names_one_repository() -> None:
    for name in ("worker", "creator"):
        for statement in read_policy(name):
            assert statement["effect"] == "allow"
            assert statement["resource"] == "*" or "/flights" in statement["resource"]


def test_a_worker_does_not_create_repositories() -> None:
    actions = {action for statement in read_policy("worker") for action in statement["action"]}

    assert not actions & {"fs:CreateRepository", "fs:AttachStorageNamespace"}
