"""Types in Spark's words, however they are spelt."""

import pytest

from perago.domain.errors import DeclarationError
from perago.domain.table_schema import parse_schema, parse_type, spell_type


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("BIGINT", "bigint"),
        ("long", "bigint"),
        ("Integer", "int"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("bool", "boolean"),
        ("real", "float"),
        ("timestamp_ntz", "timestamp"),
        ("timestamp_ltz", "timestamp"),
        ("decimal", "decimal(10,0)"),
        ("DEC(8)", "decimal(8,0)"),
        ("numeric(10, 2)", "decimal(10,2)"),
        ("array<LONG>", "array<bigint>"),
        ("map< string , array<int> >", "map<string,array<int>>"),
        ("struct<a: int, B string>", "struct<a:int,B:string>"),
        ("variant", "variant"),
    ],
)
def test_a_type_has_one_spelling(text: str, type_: str) -> None:
    assert parse_type(text) == type_
    assert parse_type(type_) == type_


def test_a_schema_is_columns_in_order() -> None:
    schema = parse_schema("id BIGINT, `a b``c` STRING,\n tags ARRAY<STRUCT<k: INT, v: DATE>>")
    assert list(schema.items()) == [
        ("id", "bigint"),
        ("a b`c", "string"),
        ("tags", "array<struct<k:int,v:date>>"),
    ]


def test_a_mapping_is_taken_as_well() -> None:
    assert parse_schema({"id": "long", "x y": "string"}) == {"id": "bigint", "x y": "string"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the name of a column is missing"),
        ("id", "a type is missing"),
        ("id BIGINT,", "the name of a column is missing"),
        ("id BIGINT name STRING", "',' is missing before 'name'"),
        ("id NUMBER", "there is no type 'number'"),
        ("id BIGINT, id STRING", "column 'id' stands there twice"),
        ("a ARRAY<INT", "'>' is missing before 'the end'"),
        ("a ARRAY INT", "'<' is missing before 'INT'"),
        ("a MAP<STRING>", "',' is missing before '>'"),
        ("a DECIMAL(x", r"'\)' is missing"),
        ("a STRUCT<>", "the name of a field is missing before '>'"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason) as caught:
        parse_schema(text)
    assert "BIGINT" in (caught.value.hint or "")


def test_nothing_may_follow_a_type() -> None:
    with pytest.raises(DeclarationError, match="'int' stands too much"):
        parse_type("int int")


def test_a_type_that_is_not_known_stays_as_it_is() -> None:
    assert spell_type("LONG") == "bigint"
    assert spell_type("interval day") == "interval day"
