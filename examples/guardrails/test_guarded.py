"""Each guardrail bites."""

from guarded import Params, price_orders

from perago.testing import TaskEnvironment

ORDERS = "order_id,list_price\nA,10\nB,5\n"


def test_good_orders_are_priced() -> None:
    with TaskEnvironment() as env:
        env.put({"orders/orders.csv": ORDERS})
        run = env.run(price_orders, Params(discount=1))

    assert run.published
    assert run.files["orders/priced.csv"].split() == [b"order_id,price", b"A,9.00", b"B,4.00"]


def test_a_missing_column_is_the_inputs_fault() -> None:
    with TaskEnvironment() as env:
        env.put({"orders/orders.csv": "order_id\nA\n"})
        run = env.run(price_orders, Params())

    assert run.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "list_price" in run.reason


def test_a_price_below_zero_is_not_published() -> None:
    with TaskEnvironment() as env:
        env.put({"orders/orders.csv": ORDERS})
        run = env.run(price_orders, Params(discount=7))

    assert run.status == "FAILED"
    assert "row 2 of priced.csv has the price -2.00" in run.reason
    assert "orders/priced.csv" not in run.files
