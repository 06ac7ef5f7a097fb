"""A table's options, as later statements change them.

The law: an option that is said anew replaces itself; the others stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.lexer import LexicalFault, lexed
from connectors.mysql.ddl.grammar.options import table_options
from connectors.mysql.ddl.grammar.reader import GrammarFault, Reader
from connectors.mysql.ddl.spec import TableOptions


def merged(text: str, changes: Sequence[TableOptions]) -> str:
    """The text of a table's options after others were set."""
    new = {name: value for options in changes for name, value in options.texts}
    return _text({**_parsed(text), **new}) if new else text


def _text(options: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


def _parsed(text: str) -> dict[str, str]:
    server, session = Server(version=(99, 0, 0)), Session()
    try:
        return dict(table_options(Reader(lexed(text, server, session), server, session)).texts)
    except (LexicalFault, GrammarFault):
        return {}
