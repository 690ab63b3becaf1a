"""A Delta table that is kept up to date: new orders are added, known ones changed."""

from datetime import date

from pydantic import BaseModel
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from perago import (
    SparkWorkspace,
    WorkspaceSpec,
    require_columns,
    require_no_nulls,
    require_unique,
    task,
)


class Params(BaseModel):
    day: date


class Result(BaseModel):
    orders: int


@task(
    "keep_orders",
    owner_email="you@example.com",
    workspace=WorkspaceSpec(
        prefix="shop",
        pre=[require_columns("incoming.csv", ["order_id", "state"])],
        post=[require_unique("orders", ["order_id"]), require_no_nulls("orders", ["state", "day"])],
    ),
)
def keep_orders(workspace: SparkWorkspace, params: Params) -> Result:
    """Merge what came in today into the table of all orders."""
    incoming = workspace.read.csv(
        "incoming.csv", header=True, schema="order_id BIGINT, state STRING"
    ).withColumn("day", F.lit(params.day))
    if workspace.ls("orders/_delta_log"):
        incoming.createOrReplaceTempView("incoming")
        workspace.spark.sql(f"""
            MERGE INTO delta.`{workspace.uri_out("orders")}` AS kept
            USING incoming ON kept.order_id = incoming.order_id
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *
        """)
    else:
        workspace.write(incoming, "orders", format="delta", mode="error")
    return Result(orders=workspace.read_staged.format("delta").load("orders").count())
