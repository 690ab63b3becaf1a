"""A task with ready-made guardrails and one of its own."""

import csv
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, forbid_glob, require_columns, require_rows, task


class Params(BaseModel):
    discount: float = 0.0


class Result(BaseModel):
    orders: int


def prices_are_positive(workspace: Path) -> str | None:
    """Say which row has a price that cannot be."""
    with (workspace / "priced.csv").open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=1):
            if float(row["price"]) <= 0:
                return f"row {number} of priced.csv has the price {row['price']}"
    return None


@task(
    "price_orders",
    owner_email="you@example.com",
    workspace=WorkspaceSpec(
        prefix="orders",
        pre=[require_columns("orders.csv", ["order_id", "list_price"]), require_rows("orders.csv")],
        post=[prices_are_positive, forbid_glob("**/*.tmp")],
    ),
)
def price_orders(workspace: Path, params: Params) -> Result:
    """Apply a discount to every order."""
    with (workspace / "orders.csv").open(encoding="utf-8", newline="") as stream:
        orders = list(csv.DictReader(stream))
    with (workspace / "priced.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["order_id", "price"])
        for order in orders:
            price = float(order["list_price"]) - params.discount
            writer.writerow([order["order_id"], f"{price:.2f}"])
    return Result(orders=len(orders))
