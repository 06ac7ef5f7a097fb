"""The parser of one command, whose arguments and options may come in any order.

argparse by itself gives all positional arguments their values at the first of them, so that of
``DEST --where X TABLE`` the last one would be unknown.

Invariant: what argparse accepts is parsed as argparse does it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """Parses the words of a command; of a group of commands, it only chooses one."""

    _is_parsing = False

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for its namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words, in whatever order; return those that it does not know too."""
        # The method for any order calls this one, for the options and for the rest.
        if self._is_parsing or self._has_commands():
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        try:
            found: tuple[Any, list[str]] = self.parse_known_intermixed_args(args, namespace)
            return found
        finally:
            self._is_parsing = False

    def _has_commands(self) -> bool:
        return any(isinstance(one, argparse._SubParsersAction) for one in self._actions)
