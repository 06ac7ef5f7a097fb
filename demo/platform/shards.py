"""The shards of the demo: two masters with four databases each, their tables, and two versions of the mapping.

The first version is in the four documents of Roma, the second one in YAML. Ids of two shards are often equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from demo.load import Server

SHARDS: Mapping[str, range] = {"north": range(4), "south": range(4, 8)}
"""The numbers of each master's shards; a master's name is that of its destination."""
MERGE = "trade"
LOGICAL = ("trade.orders", "trade.items")

FIRST = {
    "com.pajk.Roma.dbs": json.dumps(
        [{"logicDb": "trade", "realDbs": ",".join(f"trade_{one}" for one in range(8))}]
    ),
    "com.pajk.Roma.tbs": json.dumps([{"logicTb": "orders", "realTbs": "orders_[0-7]"}]),
    "com.pajk.Roma.topics": json.dumps([{"logicDb": "trade", "topic": "trade"}]),
    "com.pajk.Roma.tags": json.dumps([{"logicTb": "orders,status", "tag": "order,paid"}]),
}
"""By data id."""
SECOND = """\
databases:
  trade: {from: [trade_0, trade_1, trade_2, trade_3, trade_4, trade_5, trade_6, trade_7], topic: trade}
tables:
  trade.orders: {from: ["orders_[0-7]"], tags: {"": order, status: paid}, row_filter: total > 0}
  trade.items: {topic: items}
"""
"""It omits orders without a total, and gives the items a topic of their own."""

_ORDERS = (
    "CREATE TABLE {}.orders_{} (id INT PRIMARY KEY, customer INT NOT NULL, "
    "total DECIMAL(8,2) NOT NULL, status VARCHAR(10) NOT NULL, note VARCHAR(40) NULL)"
)
_ITEMS = "CREATE TABLE {}.items (id INT PRIMARY KEY, order_id INT NOT NULL, sku VARCHAR(10) NULL)"
_CHANNEL, _POINTS = "ADD COLUMN channel VARCHAR(10) NULL", "ADD COLUMN points INT NULL"
ALTERATIONS = tuple(
    (shard, _CHANNEL if (shard + turn) % 2 else _POINTS)
    for turn, order in enumerate(((5, 0, 3, 6, 1, 4, 7, 2), (2, 6, 0, 7, 5, 3, 1, 4)))
    for shard in order
)
"""Each shard gets both columns, at different times and in different orders."""


EMPTYING = {
    "north": ("TRUNCATE TABLE trade_1.items", "DROP TABLE trade_2.items"),
    "south": ("TRUNCATE TABLE trade_5.orders_5", "DROP TABLE trade_6.orders_6"),
}
"""Statements that remove the rows of one shard, and leave those of the others."""


def database(shard: int) -> str:
    """The real database of a shard."""
    return f"trade_{shard}"


def orders(shard: int) -> str:
    """The real table of a shard's orders, with its database."""
    return f"{database(shard)}.orders_{shard}"


def items(shard: int) -> str:
    """The real table of a shard's items, with its database."""
    return f"{database(shard)}.items"


def create(server: Server, shards: range) -> None:
    """Create the databases and tables of a master."""
    run(server, *(f"CREATE DATABASE {database(shard)}" for shard in shards))
    run(server, *(_ORDERS.format(database(shard), shard) for shard in shards))
    run(server, *(_ITEMS.format(database(shard)) for shard in shards))


def run(server: Server, *statements: str) -> None:
    """Run statements, each of which commits."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()
