"""Compilation of generated source to a function.

Invariant: source consists only of numbers and our own names, so that tables and documents of the same
layout share its code; values from a server are in the namespace only. The names are variables of an
enclosing function, not globals: the interpreter specializes shared code for one set of globals, and
would specialize it again whenever rows of another table follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from textwrap import indent
from typing import Any


@lru_cache(maxsize=512)
def _factory(source: str, names: tuple[str, ...]) -> Callable[..., Any]:
    parameters = ", ".join(names)
    whole = f"def factory({parameters}):\n{indent(source, '    ')}\n    return made"
    namespace: dict[str, Any] = {}
    exec(compile(whole, "<generated>", "exec"), namespace)  # noqa: S102 - see the invariant
    made: Callable[..., Any] = namespace["factory"]
    return made


def function_of(source: str, namespace: Mapping[str, Any]) -> Any:
    """The function ``made`` that the source defines, with the names of the namespace as variables."""
    return _factory(source, tuple(namespace))(*namespace.values())
