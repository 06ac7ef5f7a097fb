"""A cursor over a statement's tokens, with the operations that the grammar uses, and values in a statement.

Invariant: whatever a rule does not understand is a fault with its position; only what a rule names
is skipped. A value ends where MySQL's grammar ends it, so that the text after it is a separate attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from connectors.mysql.ddl.definition import Server, Session, TableRef
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import END, GrammarFault, Lexed

_NAMES = frozenset({lexer.QUOTED_NAME, lexer.NUMBER, lexer.HEX, lexer.BITS})
_STRINGS = frozenset({lexer.STRING, lexer.NATIONAL})
_NEVER_NAMES = frozenset("(),;=.+-*/%&|^~<>!?:@[]{}\\") | {END, lexer.STRING, lexer.NATIONAL}

Result = TypeVar("Result")


_LITERALS = frozenset({lexer.STRING, lexer.NUMBER, lexer.HEX, lexer.BITS, lexer.NATIONAL})


class Reader:
    """The position in a statement; the current token is ``keys[at]``."""

    __slots__ = ("at", "keys", "lexed", "server", "session", "texts")

    def __init__(self, lexed: Lexed, server: Server, session: Session) -> None:
        self.lexed = lexed
        self.keys = lexed.keys
        self.texts = lexed.texts
        self.at = 0
        self.server = server
        self.session = session

    @property
    def key(self) -> str:
        """The current word or sign in upper case, or the token's kind."""
        return self.keys[self.at]

    def follows(self, *words: str) -> bool:
        """Whether these words come next."""
        keys, at = self.keys, self.at
        # The last key is no word, so that no comparison goes past the end.
        return all(keys[at + n] == word for n, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Skip these words if all of them come next."""
        if self.keys[self.at] != words[0] or not (len(words) == 1 or self.follows(*words)):
            return False
        self.at += len(words)
        return True

    def take_one(self, words: frozenset[str]) -> str | None:
        """Skip one of these words, and return it."""
        key = self.keys[self.at]
        if key not in words:
            return None
        self.at += 1
        return key

    def need(self, *words: str) -> None:
        """Skip these words, which must come next."""
        for word in words:
            if self.keys[self.at] != word:
                raise self.fault(f"expected {word}")
            self.at += 1

    def fault(self, what: str) -> GrammarFault:
        """A fault: something else was expected here."""
        if self.key == END:
            return GrammarFault(f"{what} at the statement's end")
        start, end = self.lexed.starts[self.at], self.lexed.ends[self.at]
        # A literal may be data, which messages must not show.
        found = "a literal" if self.key in _LITERALS else self.lexed.sql[start:end][:40]
        return GrammarFault(f"{what} at character {start + 1}: {found}")

    def at_end(self) -> bool:
        """Whether nothing follows but semicolons."""
        while self.take(";"):
            pass
        return self.key == END

    # --- names and literals ---------------------------------------------------------------------

    def name(self) -> str:
        """A name, quoted or not."""
        key = self.keys[self.at]
        if key in _NEVER_NAMES:
            raise self.fault("expected a name")
        start, end = self.lexed.starts[self.at], self.lexed.ends[self.at]
        text = self.texts[self.at] if key not in _NAMES or key == "`" else self.lexed.sql[start:end]
        self.at += 1
        return text

    def is_name(self) -> bool:
        """Whether a name can be read here."""
        return self.keys[self.at] not in _NEVER_NAMES

    def quoted(self) -> bool:
        """Whether the current token is a quoted name, which is never a keyword."""
        return self.keys[self.at] == lexer.QUOTED_NAME

    def table(self) -> TableRef:
        """A table's name, with or without its database."""
        self.take(".")
        first = self.name()
        return (first, self.name()) if self.take(".") else (None, first)

    def column(self) -> str:
        """A column's name; a table name before it is ignored."""
        name = self.name()
        while self.take("."):
            name = self.name()
        return name

    def is_string(self) -> bool:
        """Whether a string comes next."""
        return self.keys[self.at] in _STRINGS

    def string(self) -> str:
        """A string; adjacent strings are concatenated."""
        if not self.is_string():
            raise self.fault("expected a string")
        text = ""
        while self.is_string():
            text += self.texts[self.at]
            self.at += 1
        return text

    def name_or_string(self) -> str:
        """A value that may be written as a name or as a string, such as a character set."""
        return self.string() if self.is_string() else self.name()

    def integer(self) -> int:
        """A number without a fraction."""
        key, text = self.key, self.texts[self.at]
        if key == lexer.HEX:
            value = int(text, 16)
        elif key == lexer.NUMBER and text.isdecimal():
            value = int(text)
        else:
            raise self.fault("expected a number")
        self.at += 1
        return value

    # --- token ranges ---------------------------------------------------------------------------

    def skip_parentheses(self) -> tuple[int, int]:
        """Skip parentheses with their contents.

        Return the index after the opening parenthesis, and the index of the closing parenthesis.
        """
        self.need("(")
        begin, depth = self.at, 1
        while depth:
            key = self.keys[self.at]
            if key == END:
                raise self.fault("expected )")
            depth += (key == "(") - (key == ")")
            self.at += 1
        return begin, self.at - 1

    def listed(self, item: Callable[[], Result]) -> tuple[Result, ...]:
        """One or more items, with commas between them."""
        found = [item()]
        while self.take(","):
            found.append(item())
        return tuple(found)

    def enclosed(self, item: Callable[[], Result]) -> tuple[Result, ...]:
        """One or more items in parentheses, with commas between them."""
        self.need("(")
        found = self.listed(item)
        self.need(")")
        return found

    def rendered(self, begin: int, end: int) -> str:
        """A range of tokens as text that means the same in any quoting mode."""
        lexed = self.lexed
        pieces: list[str] = []
        for n in range(begin, end):
            if n > begin and lexed.starts[n] > lexed.ends[n - 1]:
                pieces.append(" ")
            pieces.append(_plain(lexed, n))
        return "".join(pieces)


def _plain(lexed: Lexed, n: int) -> str:
    key = lexed.keys[n]
    if key == lexer.QUOTED_NAME:
        return quoted_name(lexed.texts[n])
    if key == lexer.STRING:
        return quoted_string(lexed.texts[n])
    if key == lexer.NATIONAL:
        return "N" + quoted_string(lexed.texts[n])
    return lexed.sql[lexed.starts[n] : lexed.ends[n]]


def quoted_name(name: str) -> str:
    """A name in backticks."""
    return f"`{name.replace('`', '``')}`"


def quoted_string(text: str) -> str:
    """A string literal, for a session with backslash escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
    return f"'{escaped}'"


_SKIPPED_LITERALS = frozenset({lexer.STRING, lexer.NATIONAL, lexer.HEX, lexer.BITS})
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP"})
_SIGNS = frozenset("+-")


def default_value(reader: Reader) -> str:
    """The value after DEFAULT or ON UPDATE, as text."""
    begin = reader.at
    skip_value(reader)
    return reader.rendered(begin, reader.at)


def skip_value(reader: Reader) -> None:
    """Skip a literal, a name, a function call or an expression in parentheses."""
    while reader.take_one(_SIGNS):
        pass
    key = reader.key
    if key == "(":
        reader.skip_parentheses()
    elif key == lexer.STRING or key == lexer.NATIONAL:
        reader.string()
    elif key in _SKIPPED_LITERALS or key == lexer.NUMBER:
        reader.at += 1
    elif reader.take("."):
        _ = reader.integer()  # .5
    elif reader.take("CASE"):
        _skip_case(reader)
    elif reader.take("{"):
        _skip_of_odbc(reader)
    elif key in _TEMPORAL and reader.keys[reader.at + 1] == lexer.STRING:
        reader.at += 1
        reader.string()
    elif reader.take("NEXT", "VALUE", "FOR") or reader.take("PREVIOUS", "VALUE", "FOR"):
        reader.table()
    else:
        _skip_word(reader)


def _skip_word(reader: Reader) -> None:
    """Skip a name; with an introducer its literal, with a function its arguments."""
    while reader.take("@"):
        pass
    word = reader.key
    reader.name()
    if word.startswith("_") and reader.key in _SKIPPED_LITERALS:
        reader.at += 1
        return
    while reader.take("."):
        reader.name()
    if reader.key == "(":
        reader.skip_parentheses()


def _skip_of_odbc(reader: Reader) -> None:
    """Skip the rest of an ODBC literal: ``{d '2020-01-01'}``."""
    reader.name()
    skip_value(reader)
    if not reader.take("}"):
        raise reader.fault("expected }")


def _skip_case(reader: Reader) -> None:
    depth = 1
    while depth:
        if reader.key == lexer.END:
            raise reader.fault("expected END")
        depth += (reader.key == "CASE") - (reader.key == "END")
        reader.at += 1
