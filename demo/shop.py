"""Plans the transactions of the shop's customers as plain SQL: the demo's live load.

Planning does no I/O. A shopper writes to rows of its own, and to at most one shared row in a
transaction, so that shoppers never deadlock; the same seed plans the same transactions.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from demo import rows
from demo.rows import Row

ROLLED_BACK = "rolled-back-and-never-to-be-seen"
SHARED_CUSTOMERS = tuple(2**63 + n for n in range(1, 6))  # ids that no signed 64-bit number holds
BULK_ORDER = 1
_FIRST_ORDER = 2

_INSERT_CUSTOMER = (
    "INSERT INTO customers (id, email, name, tier, interests, balance, profile, avatar, born,"
    " created_at, seen_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_ORDER = (
    "INSERT INTO orders (id, customer_id, status, total, note, details, placed_at, paid_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_ITEM = (
    "INSERT INTO order_items (order_id, line_no, sku, quantity, price, weight_kg, gift, options)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_PAY = "UPDATE customers SET balance = balance - 9.99, seen_at = %s WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, run once for each row of arguments; `kept`: it is not rolled back."""

    table: str
    sql: str
    rows: tuple[Row, ...] = ((),)
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that take effect together, or, rolled back, not at all."""

    statements: tuple[Statement, ...]
    commits: bool = True


def opening() -> Transaction:
    """The shop's data before its first shopper: something in each table."""
    rng = random.Random(0)
    customers = tuple(rows.customer(rng, id_) for id_ in SHARED_CUSTOMERS)
    order = rows.order(rng, _FIRST_ORDER, SHARED_CUSTOMERS[0])
    items = tuple(rows.item(rng, _FIRST_ORDER, line) for line in (1, 2, 3))
    return Transaction(
        (
            Statement("customers", _INSERT_CUSTOMER, customers),
            Statement("orders", _INSERT_ORDER, (order,)),
            Statement("order_items", _INSERT_ITEM, items),
        )
    )


def correction() -> Transaction:
    """Changes to the opening's data: updates, and a delete."""
    order = ((_FIRST_ORDER,),)
    customers = tuple((id_,) for id_ in SHARED_CUSTOMERS)
    return Transaction(
        (
            Statement(
                "customers",
                "UPDATE customers SET tier = 'gold', born = NULL WHERE id = %s",
                customers,
            ),
            Statement("orders", "UPDATE orders SET note = 'corrected' WHERE id = %s", order),
            Statement(
                "order_items", "DELETE FROM order_items WHERE order_id = %s AND line_no = 3", order
            ),
            Statement(
                "order_items", "UPDATE order_items SET gift = NOT gift WHERE order_id = %s", order
            ),
        )
    )


def bulk(lines: int) -> Transaction:
    """One large transaction: insert so many rows, change each, delete half of them."""
    rng = random.Random(1)
    items = tuple(rows.item(rng, BULK_ORDER, line) for line in range(1, lines + 1))
    change = "UPDATE order_items SET quantity = quantity + 1000 WHERE order_id = %s"
    halve = "DELETE FROM order_items WHERE order_id = %s AND line_no > %s"
    return Transaction(
        (
            Statement("order_items", _INSERT_ITEM, items),
            Statement("order_items", change, ((BULK_ORDER,),)),
            Statement("order_items", halve, ((BULK_ORDER, lines // 2),)),
        )
    )


class Shopper:
    """Plans the transactions of one shopper; `number` keeps its rows apart from the others'."""

    def __init__(self, number: int) -> None:
        self._rng = random.Random(number)
        self._next_id = number * 10_000_000
        self._customers: list[int] = []
        self._orders: dict[int, list[int]] = {}
        self._deeds: tuple[tuple[int, Callable[[bool], Transaction]], ...] = (
            (10, self._sign_up),
            (32, self._place_order),
            (16, self._pay),
            (12, self._pack),
            (7, self._cancel),
            (4, self._change_line_number),
            (2, self._change_customer_id),
            (5, self._replace_item),
            (4, self._change_of_mind),
            (3, self._half_a_change_of_mind),
            (2, self._nothing_new),
        )

    def next(self, *, with_channel: bool) -> Transaction:
        """The next transaction; `with_channel`: `orders` has that column by now."""
        if len(self._customers) < 5:
            return self._sign_up(with_channel)
        if len(self._orders) < 5:
            return self._place_order(with_channel)
        weights = [weight for weight, _ in self._deeds]
        return self._rng.choices(self._deeds, weights)[0][1](with_channel)

    def _sign_up(self, _: bool) -> Transaction:
        ids = [self._new_id() for _ in range(self._rng.randint(1, 4))]
        self._customers += ids
        people = tuple(rows.customer(self._rng, id_) for id_ in ids)
        return Transaction((Statement("customers", _INSERT_CUSTOMER, people),))

    def _place_order(self, with_channel: bool) -> Transaction:
        id_ = self._new_id()
        lines = list(range(1, self._rng.randint(2, 5) + 1))
        self._orders[id_] = lines
        items = tuple(rows.item(self._rng, id_, line) for line in lines)
        order = rows.order(self._rng, id_, self._customer())
        placed = Statement("orders", _INSERT_ORDER, (order,))
        if with_channel:
            sql = _INSERT_ORDER.replace("paid_at)", "paid_at, channel)").replace("%s)", "%s, %s)")
            placed = Statement("orders", sql, ((*order, self._channel()),))
        return Transaction(
            (placed, Statement("order_items", _INSERT_ITEM, items), self._shared_payment())
        )

    def _pay(self, with_channel: bool) -> Transaction:
        order, now = self._order(), rows.moment(self._rng)
        total = rows.decimal(self._rng, 10**15, 4)
        pay = Statement(
            "orders",
            "UPDATE orders SET status = 'paid', total = %s, paid_at = %s WHERE id = %s",
            ((total, now.replace(microsecond=0), order),),
        )
        charge = Statement("customers", _PAY, ((rows.milliseconds(now), self._customer()),))
        if not with_channel:
            return Transaction((pay, charge))
        note = "UPDATE orders SET channel = %s WHERE id = %s"
        return Transaction((pay, charge, Statement("orders", note, ((self._channel(), order),))))

    def _pack(self, _: bool) -> Transaction:
        order = self._order()
        details = json.dumps(
            {"parcel": self._rng.random(), "by": rows.name(self._rng)}, ensure_ascii=False
        )
        weigh = "UPDATE order_items SET weight_kg = %s, gift = NOT gift WHERE order_id = %s"
        ship = "UPDATE orders SET status = 'shipped', note = NULL, details = %s WHERE id = %s"
        return Transaction(
            (
                Statement("order_items", weigh, ((self._rng.random() * 1e3, order),)),
                Statement("orders", ship, ((details, order),)),
            )
        )

    def _cancel(self, _: bool) -> Transaction:
        order = self._order()
        del self._orders[order]
        items = "DELETE FROM order_items WHERE order_id = %s"
        return Transaction(
            (
                Statement("order_items", items, ((order,),)),
                Statement("orders", "DELETE FROM orders WHERE id = %s", ((order,),)),
                self._shared_payment(),
            )
        )

    def _change_line_number(self, _: bool) -> Transaction:
        order = self._order()
        lines = self._orders[order]
        old, new = lines[0], max(lines) + 1
        self._orders[order] = [*lines[1:], new]
        sql = "UPDATE order_items SET line_no = %s WHERE order_id = %s AND line_no = %s"
        return Transaction((Statement("order_items", sql, ((new, order, old),)),))

    def _change_customer_id(self, _: bool) -> Transaction:
        old, new = self._customer(), self._new_id()
        self._customers[self._customers.index(old)] = new
        sql = "UPDATE customers SET id = %s, name = %s WHERE id = %s"
        follow = "UPDATE orders SET customer_id = %s WHERE customer_id = %s"
        return Transaction(
            (
                Statement("customers", sql, ((new, rows.name(self._rng), old),)),
                Statement("orders", follow, ((new, old),)),
            )
        )

    def _replace_item(self, _: bool) -> Transaction:
        """Delete a row and insert another under the same key."""
        order = self._order()
        line = self._orders[order][0]
        delete = "DELETE FROM order_items WHERE order_id = %s AND line_no = %s"
        return Transaction(
            (
                Statement("order_items", delete, ((order, line),)),
                Statement("order_items", _INSERT_ITEM, (rows.item(self._rng, order, line),)),
            )
        )

    def _change_of_mind(self, _: bool) -> Transaction:
        """Write to all three tables and roll back."""
        order = self._order()
        return Transaction(
            (
                Statement("customers", _INSERT_CUSTOMER, (self._rolled_back_customer(),)),
                Statement(
                    "orders", "UPDATE orders SET note = %s WHERE id = %s", ((ROLLED_BACK, order),)
                ),
                Statement(
                    "order_items",
                    "UPDATE order_items SET sku = %s WHERE order_id = %s",
                    ((ROLLED_BACK, order),),
                ),
            ),
            commits=False,
        )

    def _half_a_change_of_mind(self, _: bool) -> Transaction:
        """Roll back to a savepoint and commit the rest."""
        tier = "UPDATE customers SET tier = 'gold', interests = 'toys,books' WHERE id = %s"
        row = self._rolled_back_customer()
        return Transaction(
            (
                Statement("customers", tier, ((self._customer(),),)),
                Statement("customers", "SAVEPOINT doubt"),
                Statement("customers", _INSERT_CUSTOMER, (row,), kept=False),
                Statement("customers", "ROLLBACK TO SAVEPOINT doubt"),
                self._shared_payment(),
            )
        )

    def _nothing_new(self, _: bool) -> Transaction:
        """Update a row to its present values: MySQL writes no row event for that."""
        sql = "UPDATE customers SET email = email WHERE id = %s"
        return Transaction((Statement("customers", sql, ((self._customer(),),)),))

    def _shared_payment(self) -> Statement:
        now = rows.milliseconds(rows.moment(self._rng))
        return Statement("customers", _PAY, ((now, self._rng.choice(SHARED_CUSTOMERS)),))

    def _rolled_back_customer(self) -> Row:
        return (self._next_id + 5_000_000, ROLLED_BACK, *rows.customer(self._rng, 0)[2:])

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _customer(self) -> int:
        return self._rng.choice(self._customers)

    def _order(self) -> int:
        return self._rng.choice(list(self._orders))

    def _channel(self) -> str | None:
        return self._rng.choice(("web", "phone 📞", "shop", None))
