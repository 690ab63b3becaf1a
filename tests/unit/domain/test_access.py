"""Which way an attempt takes to its workspace."""

import pytest

from perago.domain.access import Access, decide_access

LOCAL, DIRECT = Access.LOCAL, Access.DIRECT


@pytest.mark.parametrize(
    ("declared", "default", "is_spark", "reachable", "way"),
    [
        (None, LOCAL, True, True, LOCAL),
        (None, DIRECT, True, True, DIRECT),
        (DIRECT, LOCAL, True, True, DIRECT),
        (LOCAL, DIRECT, True, True, LOCAL),
        (DIRECT, DIRECT, True, False, LOCAL),
        (DIRECT, DIRECT, False, True, LOCAL),
    ],
)
def test_the_way_to_a_workspace(
    declared: Access | None, default: Access, is_spark: bool, reachable: bool, way: Access
) -> None:
    found = decide_access(declared, default, is_spark=is_spark, store_is_reachable=reachable)
    assert found is way
