"""Generating the function that turns a row image into JSON text.

The law: neighbouring values of fixed size are unpacked at once, with the length of the value behind them; with
the NULLs known there is no test in the code, without them one for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from connectors.mysql.compiled.fields import Field, quoted

ImageFunction = Callable[[bytes, int], tuple[str, str | None, int]]
"""From an event's body and the offset of a row's values: the image, the key, and the offset behind."""

_LENGTHS = {1: "B", 2: "H", 3: "3s", 4: "I"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a function is generated for."""

    names: Sequence[str]
    fields: Sequence[Field]
    key: Sequence[int]


def image_function(table: Table, nulls: Sequence[bool] | None) -> ImageFunction:
    """The function for rows with these NULLs; with None, for any row, and its offset is the bitmap's."""
    writer = _Writer(table)
    source = writer.known(nulls) if nulls is not None else writer.unknown()
    exec(source, writer.namespace)  # noqa: S102 - names and labels are constants in the namespace
    made: ImageFunction = writer.namespace["image"]
    return made


@dataclass(slots=True)
class _Writer:
    """Gathers lines of source and what they refer to."""

    table: Table
    namespace: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    run: list[tuple[str, str]] = field(default_factory=list)
    """(format, variable) of values that are unpacked together."""

    def known(self, nulls: Sequence[bool]) -> str:
        """For one pattern of NULLs."""
        self.lines.append("def image(d, p):")
        for index, is_null in enumerate(nulls):
            if not is_null:
                self._take(index, indent="    ")
        self._flush("    ")
        texts = ["null" if is_null else self._text(n) for n, is_null in enumerate(nulls)]
        return self._returned(texts)

    def unknown(self) -> str:
        """For all patterns: each column is taken by itself, if it is there."""
        count = len(self.table.fields)
        self.lines += ["def image(d, p):", "    m = p", f"    p += {(count + 7) // 8}"]
        texts = []
        for index in range(count):
            self.lines.append(f"    if d[m + {index >> 3}] >> {index & 7} & 1:")
            self.lines.append(f"        t{index} = 'null'")
            self.lines.append("    else:")
            self._take(index, indent="        ")
            self._flush("        ")
            self.lines.append(f"        t{index} = f'{self._text(index)}'")
            texts.append(f"{{t{index}}}")
        return self._returned(texts)

    def _take(self, index: int, *, indent: str) -> None:
        one = self.table.fields[index]
        if one.format:
            self.run.append((one.format, f"v{index}"))
            return
        self.run.append((_LENGTHS[one.length_size], f"n{index}"))
        self._flush(indent)
        length = f"n{index}"
        if one.length_size == 3:
            length = f"from_bytes(n{index}, 'little')"
            self.namespace["from_bytes"] = int.from_bytes
        self.lines += [f"{indent}e = p + {length}", f"{indent}v{index} = d[p:e]", f"{indent}p = e"]

    def _flush(self, indent: str) -> None:
        if not self.run:
            return
        struct = Struct("<" + "".join(format_ for format_, _ in self.run))
        name = f"u{len(self.namespace)}"
        self.namespace[name] = struct.unpack_from
        variables = ", ".join(variable for _, variable in self.run)
        self.lines += [f"{indent}{variables}, = {name}(d, p)", f"{indent}p += {struct.size}"]
        self.run.clear()

    def _text(self, index: int) -> str:
        """A piece of an f-string: the expression of a column's JSON text."""
        one = self.table.fields[index]
        name = f"c{index}"
        if one.value is not None:
            self.namespace[name] = one.value
        return "{" + one.text.format(v=f"v{index}", n=name) + "}"

    def _returned(self, texts: list[str]) -> str:
        body = "        "
        for index in self.table.key:
            if texts[index] not in ("null", f"{{t{index}}}"):
                self.lines.append(f"    k{index} = f'{texts[index]}'")
                texts[index] = f"{{k{index}}}"
        self.lines += [
            # A slice that ends behind the event is short and says nothing.
            "    if p > len(d):",
            f"{body}raise IndexError('a row ends behind its event')",
            f"    return f'{self._object(range(len(texts)), texts)}', {self._key(texts)}, p",
        ]
        return "\n".join(self.lines)

    def _key(self, texts: list[str]) -> str:
        return f"f'{self._object(self.table.key, texts)}'" if self.table.key else "None"

    def _object(self, indexes: Sequence[int], texts: list[str]) -> str:
        members = []
        for index in indexes:
            label = f"l{index}"
            self.namespace[label] = quoted(self.table.names[index]) + ":"
            members.append(f"{{{label}}}{texts[index]}")
        return "{{" + ",".join(members) + "}}"
