import pytest

from perago.adapters.embedded.orchestrator.engine.expressions import (
    find_expressions,
    parse_path,
    resolve,
)
from perago.domain.outcome import JsonObject, JsonValue

SCOPE: JsonObject = {
    "workflow": {"input": {"n": 3, "flag": True, "none": None, "key": "rows", "i": 1}},
    "step": {
        "output": {
            "rows": [{"id": "a"}, {"id": "b"}],
            "a b": {"c.d": 1},
            "ratio": 0.5,
            "text": "${workflow.input.n}",
        }
    },
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${workflow.input.n}", 3),
        ("${workflow.input.flag}", True),
        ("${workflow.input.none}", None),
        ("${step.output.rows}", [{"id": "a"}, {"id": "b"}]),
        ("${step.output.rows[0].id}", "a"),
        ("${step.output.rows[-1].id}", "b"),
        ("${step.output.rows[2].id}", None),
        ("${step.output.rows.id}", None),
        ("${step.output['a b']['c.d']}", 1),
        ('${step.output["a b"]}', {"c.d": 1}),
        ("${$.workflow.input.n}", 3),
        ("${ workflow.input.n }", 3),
        ("${step}", SCOPE["step"]),
        ("${nobody.output.x}", None),
        ("${workflow.input.n.deeper}", None),
        # What an expression yields is data: it is not looked into again.
        ("${step.output.text}", "${workflow.input.n}"),
        ("${}", ""),
        ("${  }", ""),
    ],
)
def test_one_expression_is_its_value(template: str, value: JsonValue) -> None:
    assert resolve(template, SCOPE) == value


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("n=${workflow.input.n}", "n=3"),
        ("${workflow.input.n}${workflow.input.n}", "33"),
        (" ${workflow.input.n}", " 3"),
        ("${workflow.input.flag} ${workflow.input.none} ${step.output.ratio}", "true null 0.5"),
        ("${step.output.rows}!", "[{id=a}, {id=b}]!"),
        ("no expression", "no expression"),
        ("", ""),
        ("$ {x} $x {x}", "$ {x} $x {x}"),
        ("$${workflow.input.n}", "${workflow.input.n}"),
        ("$${literal} ${workflow.input.n}", "${literal} 3"),
        ("${unclosed", "${unclosed"),
        ("${unclosed ${workflow.input.n}", "${unclosed 3"),
    ],
)
def test_in_a_longer_text_it_is_interpolated(template: str, text: str) -> None:
    assert resolve(template, SCOPE) == text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${step.output.${workflow.input.key}[${workflow.input.i}].id}", "b"),
        ("${step.output.${workflow.input.none}}", None),
        ("${step.output.*${workflow.input.n}}", None),
    ],
)
def test_an_expression_may_stand_inside_another(template: str, value: JsonValue) -> None:
    assert resolve(template, SCOPE) == value


@pytest.mark.parametrize(
    "text",
    ["${" * 200_000, "${a" * 200_000 + "}", "{" * 200_000, "}" * 200_000, "$${" * 200_000],
    ids=["opened", "closed once", "braces", "closing braces", "literal"],
)
def test_a_text_of_many_braces_is_read_in_one_pass(text: str) -> None:
    assert isinstance(resolve(text, SCOPE), str | None)


@pytest.mark.parametrize("levels", [21, 5_000])
def test_too_many_expressions_inside_each_other_are_refused(levels: int) -> None:
    text = "${a." * levels + "}" * levels
    with pytest.raises(ValueError, match="over 20 expressions"):
        list(find_expressions(text))
    with pytest.raises(ValueError, match="over 20 expressions"):
        resolve(text, SCOPE)


def test_values_that_are_put_into_texts_have_a_bound() -> None:
    scope: JsonObject = {"workflow": {"input": {"x": "x" * 1_000_000}}}
    with pytest.raises(ValueError, match="over 3,145,728 characters"):
        resolve(["<${workflow.input.x}>"] * 1_000_000, scope)


def test_templates_are_resolved_at_any_depth() -> None:
    template: JsonObject = {"a": ["${workflow.input.n}", {"b": "${workflow.input.flag}"}], "c": 1}
    assert resolve(template, SCOPE) == {"a": [3, {"b": True}], "c": 1}
    assert template["a"] == ["${workflow.input.n}", {"b": "${workflow.input.flag}"}]


def test_all_expressions_of_a_template_are_found() -> None:
    template: JsonObject = {
        "a": ["${x.y} and ${z}"],
        "b": {"c": "${p.${q}.r}"},
        "d": "$${no}",
        "e": 1,
    }
    assert list(find_expressions(template)) == ["x.y", "z", "q", "p.${q}.r"]


@pytest.mark.parametrize(
    "path",
    [
        "a..b",
        "a[*]",
        "a.*",
        "a[?(@.x)]",
        "a[0:2]",
        "a.length()",
        "a[0,1]",
        ".a",
        "[0]",
        "a.",
        "a b",
    ],
)
def test_what_is_no_plain_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a plain path"):
        parse_path(path)
