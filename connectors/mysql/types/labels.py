"""ENUM and SET: numbers in rows, texts in records.

Invariant: labels come from the table map that came with the row, in the column's own character set. If Unicode
lacks a character, the text is a ReplacedText.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import uint
from connectors.mysql.charsets import Charsets, ReplacedText, exact
from connectors.mysql.types.registry import (
    BinlogType,
    Comparable,
    Convert,
    Field,
    FieldType,
    Form,
    Kind,
    Layout,
    Listed,
    MappedColumn,
    Modes,
    Reader,
    Remembered,
    SqlType,
    ValueOf,
    number_literal,
    register,
    within,
)
from connectors.mysql.types.strings import decoder_of

_T = FieldType
_PACKET_SIZE = 8
"""Size in bytes of a number in a packet, to which the SELECT list casts the column."""


def labels_of(column: MappedColumn, charsets: Charsets) -> tuple[str, ...]:
    """The labels of an ENUM or SET as text; raise UnsupportedEvent if the binlog does not contain them."""
    if column.labels is None:
        raise UnsupportedEvent(
            f"the binlog does not hold the labels of column {column.name!r}",
            remedy="Run SET GLOBAL binlog_row_metadata = 'FULL' on the server, then restart.",
        )
    decode = decoder_of(column, charsets)
    return tuple(decode(label) for label in column.labels)


def _enum(column: MappedColumn, charsets: Charsets) -> Reader:
    """ENUM: the number of a label from 1; 0 is MySQL's error value, the empty text."""
    size, labels = column.metadata, ("", *labels_of(column, charsets))

    def read(data: bytes, at: int) -> tuple[str, int]:
        return labels[uint(data, at, size)], at + size

    return read


def _set(column: MappedColumn, charsets: Charsets) -> Reader:
    """SET: a bit for each label; the labels are joined by commas in the column's order."""
    size, labels = column.metadata, labels_of(column, charsets)

    def read(data: bytes, at: int) -> tuple[str, int]:
        mask = uint(data, at, size)
        if mask >> len(labels):
            raise IndexError(f"a SET of {len(labels)} labels has the bits {mask:#x}")
        held = [label for n, label in enumerate(labels) if mask >> n & 1]
        text = ",".join(held)
        if any(isinstance(label, ReplacedText) for label in held):
            text = ReplacedText(text)
        return text, at + size

    return read


def _extent(metadata: int) -> tuple[int, int]:
    return metadata, 0


def _enum_field(column: MappedColumn, charsets: Charsets) -> Field:
    return _enum_as("B" if column.metadata == 1 else "H", column, charsets)


def _enum_packet(column: MappedColumn, charsets: Charsets) -> Field:
    return _enum_as("Q", column, charsets)


def _enum_as(format_: str, column: MappedColumn, charsets: Charsets) -> Field:
    labels = ["", *labels_of(column, charsets)]
    if any(isinstance(label, ReplacedText) for label in labels):
        return Field(value="$n($a)", little=(format_,), bound=lambda n: exact(labels[n]))
    return Field(value="$n[$a]", little=(format_,), bound=labels)


def _set_field(column: MappedColumn, charsets: Charsets) -> Field:
    read = _set(column, charsets)
    texts = Remembered(lambda raw: exact(read(raw, 0)[0]))
    return Field(value="$n[$a]", little=(f"{column.metadata}s",), bound=texts)


def _set_packet(column: MappedColumn, charsets: Charsets) -> Field:
    read, size = _set(column, charsets), column.metadata
    texts = Remembered(lambda bits: exact(read(bits.to_bytes(size, "little"), 0)[0]))
    return Field(value="$n[$a]", little=("Q",), bound=texts)


def _enum_text(column: MappedColumn, charsets: Charsets) -> str:
    return f"enum({_quoted(column, charsets)})"


def _set_text(column: MappedColumn, charsets: Charsets) -> str:
    return f"set({_quoted(column, charsets)})"


def _quoted(column: MappedColumn, charsets: Charsets) -> str:
    labels = labels_of(column, charsets)
    return ",".join("'" + label.replace("'", "''") + "'" for label in labels)


def _packet_text(_column: MappedColumn) -> Convert:
    return lambda raw: b"%d" % int.from_bytes(raw, "little")


def _packet_image(column: MappedColumn) -> Convert:
    size = column.metadata
    return lambda raw: int.from_bytes(raw, "little").to_bytes(size, "little")


def _published_literal(_column: MappedColumn, value: Any) -> str:
    return f"_utf8mb4 X'{value.encode().hex()}'"


def label_bytes(code: int, count: int) -> int:
    """Return the size in bytes of a value of an ENUM or SET, by the number of labels."""
    if code == _T.ENUM:
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return size if size <= 4 else 8


def _layout_of(code: FieldType, kind: Kind) -> Layout:
    return code, label_bytes(code, len(kind.labels))


# --- records in other formats -----------------------------------------------------------------------------


def _connect_as(name: str) -> Callable[[Kind, bool, Modes], Form]:
    def connect(kind: Kind, _nullable: bool, _modes: Modes) -> Form:
        allowed = {"allowed": ",".join(map(_escaped, kind.labels))}
        schema = {"type": "string", "name": name, "version": 1, "parameters": allowed}
        return Form(schema, _escaped if any("," in one for one in kind.labels) else None)

    return connect


def _escaped(value: str) -> str:
    """A label as Debezium writes it, with a backslash before each comma; labels of a SET have no comma."""
    return value.replace(",", "\\,")


def _enum_of_canal(kind: Kind) -> ValueOf:
    numbers = _numbers(kind.labels)
    # If no label is empty, the empty text is MySQL's error value.
    return lambda value: str(numbers[value] if value or "" in numbers else 0)


def _set_of_canal(kind: Kind) -> ValueOf:
    bits = {label: 1 << (number - 1) for label, number in _numbers(kind.labels).items()}
    return lambda value: str(sum(bits[label] for label in value.split(",")) if value else 0)


def _numbers(labels: tuple[str, ...]) -> dict[str, int]:
    """Labels with their numbers; of equal labels, which MySQL allows without strict mode, the first number."""
    return {label: number for number, label in reversed([*enumerate(labels, 1)])}


def _enum_of_text(kind: Kind) -> ValueOf:
    return lambda text: kind.labels[int(text) - 1] if int(text) else ""


def _set_of_text(kind: Kind) -> ValueOf:
    return lambda text: ",".join(
        label for number, label in enumerate(kind.labels) if int(text) >> number & 1
    )


def _enum_of_maxwell(kind: Kind) -> ValueOf | None:
    """Null for MySQL's error value, which is the empty text in the envelope."""
    return None if "" in kind.labels else lambda value: value or None


def _set_of_maxwell(value: Any) -> list[str]:
    return value.split(",") if value else []


register(
    BinlogType(
        code=_T.ENUM,
        reader=_enum,
        field=_enum_field,
        extent=_extent,
        metadata_size=2,
        is_possible=within(1, 2),
        listed=Listed.LABELS,
        text=_enum_text,
        has_charset=True,
        packet_types=frozenset({_T.LONGLONG}),
        packet_size=_PACKET_SIZE,
        packet_field=_enum_packet,
        packet_text=_packet_text,
        packet_image=_packet_image,
        literal=number_literal,
        published_literal=_published_literal,
    ),
    BinlogType(
        code=_T.SET,
        reader=_set,
        field=_set_field,
        extent=_extent,
        metadata_size=2,
        is_possible=within(1, 8),
        listed=Listed.LABELS,
        text=_set_text,
        has_charset=True,
        packet_types=frozenset({_T.LONGLONG}),
        packet_size=_PACKET_SIZE,
        packet_field=_set_packet,
        packet_text=_packet_text,
        packet_image=_packet_image,
        literal=number_literal,
        published_literal=_published_literal,
    ),
    named=(
        SqlType(
            name="enum",
            layout=lambda kind, _mariadb: _layout_of(_T.ENUM, kind),
            form="text",
            comparable=Comparable.TEXT,
            connect=_connect_as("io.debezium.data.Enum"),
            jdbc=4,
            canal_text=_enum_of_canal,
            canal_value=_enum_of_text,
            maxwell=_enum_of_maxwell,
        ),
        SqlType(
            name="set",
            layout=lambda kind, _mariadb: _layout_of(_T.SET, kind),
            form="text",
            comparable=Comparable.TEXT,
            connect=_connect_as("io.debezium.data.EnumSet"),
            jdbc=-7,
            canal_text=_set_of_canal,
            canal_value=_set_of_text,
            maxwell=lambda _: _set_of_maxwell,
            maxwell_value=lambda _: ",".join,
        ),
    ),
)
