"""Generator of the function that makes the row image of a SELECT's row.

Invariant: in a row without NULL, neighbouring values of fixed size, the NULL bitmap before them and the length
after them are packed at once; a row with a NULL is made column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from struct import Struct
from typing import Any

from connectors.mysql.rows.compiled.compile import function_of
from connectors.mysql.select.encoders.fields import NAMES, Field

Row = Sequence[bytes | None]
"""A row as the text protocol has it: the text of each value, None for NULL."""
ImageFunction = Callable[[Row], bytes]
"""From a row to its image."""


def image_function(fields: Sequence[Field]) -> ImageFunction:
    """The function for rows of these columns; it raises an error of Python's for a row of another form."""
    writer = _Writer(fields)
    made: ImageFunction = function_of(writer.source(), writer.namespace)
    return made


def value_functions(fields: Sequence[Field]) -> list[ImageFunction]:
    """For each column, the function for rows of this column alone."""
    return [image_function([field]) for field in fields]


class _Writer:
    """Writes source, and collects the objects that it refers to.

    In it ``v3`` is the text of column 3, ``n3`` what its field has bound, ``x3`` its variable, ``p3`` its
    bytes.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._packs = count()
        self.namespace: dict[str, Any] = NAMES | {"join": b"".join}
        for n, field in enumerate(fields):
            if field.bound is not None:
                self.namespace[f"n{n}"] = field.bound

    def source(self) -> str:
        """The source of the function."""
        columns = range(len(self._fields))
        variables = "".join(f"v{n}, " for n in columns)
        return "\n".join(
            [
                "def made(row):",
                f"    {variables}= row",
                "    if None not in row:",
                f"        return join(({self._whole()}))",
                "    nulls = 0",
                *(line for n in columns for line in self._part(n)),
                f"    bitmap = nulls.to_bytes({self._bitmap_size}, 'little')",
                f"    return join((bitmap, {''.join(f'p{n}, ' for n in columns)}))",
            ]
        )

    @property
    def _bitmap_size(self) -> int:
        return (len(self._fields) + 7) // 8

    def _whole(self) -> str:
        """The pieces of an image without NULL."""
        return "".join(f"{piece}, " for piece in self._pieces(range(len(self._fields)), head=True))

    def _part(self, n: int) -> Iterator[str]:
        pieces = list(self._pieces([n], head=False))
        value = pieces[0] if len(pieces) == 1 else f"{pieces[0]} + {pieces[1]}"
        yield f"    if v{n} is None:"
        yield f"        nulls |= {1 << n}"
        yield f"        p{n} = b''"
        yield "    else:"
        yield f"        p{n} = {value}"

    def _pieces(self, columns: Sequence[int], *, head: bool) -> Iterator[str]:
        """Expressions of bytes; ``head``: an empty NULL bitmap is the first."""
        formats = [f"{self._bitmap_size}x"] if head else []
        values: list[str] = []
        for n in columns:
            field = self._fields[n]
            formats += field.formats
            values += [self._named(value, n) for value in field.values]
            if field.tail:
                yield self._packed(formats, values)
                yield self._named(field.tail, n)
                formats, values = [], []
        if formats:
            yield self._packed(formats, values)

    def _packed(self, formats: list[str], values: list[str]) -> str:
        name = f"pack{next(self._packs)}"
        self.namespace[name] = Struct("<" + "".join(formats)).pack
        return f"{name}({', '.join(values)})"

    @staticmethod
    def _named(expression: str, n: int) -> str:
        for name in "vnx":
            expression = expression.replace(f"${name}", f"{name}{n}")
        return expression
