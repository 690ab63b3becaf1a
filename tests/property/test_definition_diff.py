"""Laws of comparing what is registered with what is declared."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from perago.app.definition_diff import find_differences
from perago.domain.outcome import JsonObject, JsonValue

_NAMES = st.sampled_from(["name", "retryCount", "tasks", "data", "inputParameters", "own"])
_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(_NAMES, _VALUES, max_size=5)


@given(_OBJECTS)
def test_a_definition_does_not_differ_from_itself(definition: JsonObject) -> None:
    assert find_differences(copy.deepcopy(definition), definition) == []


@given(_OBJECTS, st.dictionaries(st.sampled_from(["createTime", "updatedBy"]), _VALUES))
def test_what_a_server_adds_of_its_own_never_differs(
    definition: JsonObject, added: JsonObject
) -> None:
    assert find_differences({**definition, **added}, definition) == []


@given(_OBJECTS, _NAMES, _SCALARS)
def test_a_field_that_was_declared_otherwise_is_told_by_its_path(
    definition: JsonObject, name: str, value: JsonValue
) -> None:
    otherwise: JsonValue = ["something", "else", 99]

    found = find_differences({**definition, name: otherwise}, {**definition, name: value})

    assert [difference.path for difference in found] == [name]
    assert found[0].declared == value
