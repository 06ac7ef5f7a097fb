"""Tables and encoders made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Column, Index, Server, Table
from connectors.mysql.rows.decoder import Image, RowDecoder
from connectors.mysql.select.packets import MOST_BYTES, PacketEncoder
from connectors.mysql.select.selected_table import SelectedTable
from tests.unit.connectors.mysql.select.packets import packets_of

MYSQL = Server(version=(9, 7, 4))
MARIADB = Server(version=(11, 8, 3), mariadb=True)
NAME = ("shop", "orders")
CHARSETS = Charsets(
    {8: "latin1", 28: "gbk", 54: "utf16", 63: "binary", 255: "utf8mb4"},
    {"latin1": 1, "gbk": 2, "utf16": 4, "binary": 1, "utf8mb4": 4},
    {8: "latin1_swedish_ci", 28: "gbk_chinese_ci", 54: "utf16_general_ci", 63: "binary",
     255: "utf8mb4_0900_ai_ci"},
)  # fmt: skip
_COLLATIONS = {
    "latin1": "latin1_swedish_ci",
    "gbk": "gbk_chinese_ci",
    "utf16": "utf16_general_ci",
    "utf8mb4": "utf8mb4_0900_ai_ci",
}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")


def column(
    kind: str, name: str = "c", *, charset: str = "utf8mb4", nullable: bool = True
) -> Column:
    """A column of a type; ``charset`` is of text only."""
    is_text = kind.partition("(")[0] in _TEXTS
    return Column(
        name=name,
        type=kind,
        nullable=nullable,
        charset=charset if is_text else None,
        collation=_COLLATIONS[charset] if is_text else None,
    )


def table(*columns: Column, key: str = "") -> Table:
    """A table of these columns; ``key`` are those of its primary key."""
    primary = Index(name="PRIMARY", columns=tuple(key.split()), unique=True)
    return Table(
        columns=columns,
        indexes=(primary,) if key else (),
        charset="utf8mb4",
        collation="utf8mb4_0900_ai_ci",
    )


class Encoder:
    """The encoder of a table's rows, with the body of their TABLE_MAP."""

    def __init__(self, made: SelectedTable, server: Server) -> None:
        self.table_map, self._columns = made.table_map, made.columns
        self._encoder = PacketEncoder(parse_table_map(made.table_map, mariadb=server.mariadb))
        self.event_type = self._encoder.event_type

    def bodies(
        self, rows: Sequence[Sequence[bytes | None]], *, most_bytes: int = MOST_BYTES
    ) -> Iterator[bytes]:
        """The bodies of events with rows that are given as text."""
        return self._encoder.bodies(packets_of(self._columns, rows), most_bytes=most_bytes)


def selected(*columns: Column, key: str = "", server: Server = MYSQL) -> SelectedTable:
    """What is selected of a table."""
    return SelectedTable(NAME, table(*columns, key=key), CHARSETS, server=server)


def encoder(*columns: Column, key: str = "", server: Server = MYSQL) -> Encoder:
    """The encoder of a table's rows."""
    return Encoder(selected(*columns, key=key, server=server), server)


def read_back(
    made: Encoder, rows: Sequence[Sequence[bytes | None]], *, mariadb: bool = False
) -> list[Image]:
    """The rows after encoding and decoding."""
    decoder = RowDecoder(parse_table_map(made.table_map, mariadb=mariadb), CHARSETS)
    return [
        change.after
        for body in made.bodies(rows)
        for change in decoder.decode(int(made.event_type), body)
        if change.after is not None
    ]


def value(
    kind: str, text: bytes | None, *, charset: str = "utf8mb4", server: Server = MYSQL
) -> object:
    """One value after encoding and decoding."""
    made = encoder(column(kind, charset=charset), server=server)
    ((found,),) = read_back(made, [(text,)], mariadb=server.mariadb)
    return found
