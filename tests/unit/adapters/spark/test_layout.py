import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from perago.adapters.spark.layout import is_orderable

A_MAP = MapType(StringType(), IntegerType())


@pytest.mark.parametrize(
    ("data_type", "orderable"),
    [
        (StringType(), True),
        (ArrayType(IntegerType()), True),
        (StructType([StructField("a", IntegerType())]), True),
        (A_MAP, False),
        (VariantType(), False),
        (ArrayType(A_MAP), False),
        (StructType([StructField("a", StructType([StructField("b", A_MAP)]))]), False),
    ],
)
def test_what_spark_can_sort_by(data_type: DataType, orderable: bool) -> None:
    assert is_orderable(data_type) is orderable
