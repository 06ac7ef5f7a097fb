"""The tables that an INSERT, REPLACE, UPDATE, DELETE or LOAD writes, from its own text.

Invariant: the result contains every table that the statement writes by name, or there is none: a
form not understood to its end is a fault. If an assignment could belong to one of several tables,
all of them count. Further writes by triggers, views, foreign keys and functions are not in a
statement's text.
Source: MySQL's manual, "Data Manipulation Statements"; MariaDB's, "Changing and Deleting Data".
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server, Session, TableName
from connectors.mysql.ddl.grammar.lexer import END, lexed
from connectors.mysql.ddl.grammar.token_reader import GrammarFault, Reader
from connectors.mysql.ddl.statement.table_ref import TableRef
from connectors.mysql.dml.function_calls import refuse_unknown_calls
from connectors.mysql.dml.references import Reference, references

_MODIFIERS = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK"})
_REST = frozenset({"WHERE", "ORDER", "LIMIT", "RETURNING", END, ";"})


def written_tables(sql: str, server: Server, session: Session) -> frozenset[TableName]:
    """The tables that a statement writes; raises LexicalFault or GrammarFault if that is uncertain."""
    if "ORACLE" in session.sql_mode:
        raise GrammarFault("in sql_mode ORACLE a name may call a function")
    reader = Reader(lexed(sql, server, session), server, session)
    found = _Statement(reader).tables()
    names = set[TableName]()
    for database, name in found:
        full = database or session.database
        if full is None:
            raise GrammarFault("a table has no database")
        names.add((full, name))
    return frozenset(names)


class _Statement:
    """One statement, read from its beginning."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._derived: set[str] = set()
        """Names defined by WITH, in lower case."""
        self._lists: set[int] = set()
        """Token indexes of column lists, which are no argument lists."""

    def tables(self) -> set[TableRef]:
        """The tables that the statement writes."""
        reader = self._reader
        while reader.take("SET", "STATEMENT"):
            self._skip_to("FOR")
        if reader.take("WITH"):
            self._with()
        verb = reader.key
        reader.at += 1
        if verb in ("INSERT", "REPLACE"):
            found = self._insert()
        elif verb == "UPDATE":
            found = self._update()
        elif verb == "DELETE":
            found = self._delete()
        elif verb == "LOAD":
            found = self._load()
        else:
            raise GrammarFault(f"{verb[:20]} is no statement that names what it writes")
        if not found:
            raise GrammarFault("it names no table that it writes")
        self._refuse_another()
        refuse_unknown_calls(reader, self._lists)
        return found

    # --- each statement -------------------------------------------------------------------------

    def _insert(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        reader.take("INTO")
        return {self._target()}

    def _load(self) -> set[TableRef]:
        """LOAD DATA and LOAD XML."""
        reader = self._reader
        while not reader.take("INTO", "TABLE"):
            self._refuse_end("INTO TABLE")
            reader.at += 1
        return {self._target()}

    def _target(self) -> TableRef:
        reader = self._reader
        table = reader.table()
        if reader.take("PARTITION"):
            reader.skip_parentheses()
        self._lists.add(reader.at)
        return table

    def _update(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        found = references(reader, frozenset({"SET"}))
        reader.need("SET")
        result: set[TableRef] = set()
        while True:
            result |= self._owners(self._qualifier(), found)
            self._skip_expression()
            if not reader.take(","):
                return result

    def _delete(self) -> set[TableRef]:
        reader = self._reader
        while reader.take_one(_MODIFIERS):
            pass
        if not reader.take("FROM"):
            targets = reader.listed(self._deleted)
            reader.need("FROM")
            return self._among(targets, references(reader, _REST))
        at = reader.at
        targets = reader.listed(self._deleted)
        if reader.take("USING"):
            return self._among(targets, references(reader, _REST))
        if len(targets) > 1:
            raise reader.fault("expected USING")
        reader.at = at
        return self._bases(references(reader, _REST))

    # --- names ----------------------------------------------------------------------------------

    def _deleted(self) -> TableRef:
        """A table of the list before the references, with or without ``.*``."""
        reader = self._reader
        first = reader.name()
        if not reader.take("."):
            return None, first
        if reader.take("*"):
            return None, first
        second = reader.name()
        if reader.take("."):
            reader.need("*")
        return first, second

    def _qualifier(self) -> TableRef | None:
        """The table of an assigned column; None if only the column is named."""
        reader = self._reader
        names = [reader.name()]
        while reader.take("."):
            names.append(reader.name())
        if len(names) > 3:
            raise reader.fault("expected a column")
        if len(names) == 3:
            return names[0], names[1]
        return (None, names[0]) if len(names) == 2 else None

    def _owners(self, qualifier: TableRef | None, among: list[Reference]) -> set[TableRef]:
        return self._bases(among) if qualifier is None else self._among([qualifier], among)

    def _among(
        self, qualifiers: list[TableRef] | tuple[TableRef, ...], among: list[Reference]
    ) -> set[TableRef]:
        """The tables that the qualifiers refer to."""
        default = self._reader.session.database
        result: set[TableRef] = set()
        for qualifier in qualifiers:
            named = self._bases([one for one in among if one.is_named(qualifier, default)])
            if not named:
                raise GrammarFault("it writes a table that is not among its references")
            result |= named
        return result

    def _bases(self, among: list[Reference]) -> set[TableRef]:
        return {
            one.table
            for one in among
            if one.table is not None
            and not (one.table[0] is None and one.table[1].lower() in self._derived)
        }

    # --- stretches ------------------------------------------------------------------------------

    def _with(self) -> None:
        """Read the common table expressions before the statement."""
        reader = self._reader
        reader.take("RECURSIVE")
        while True:
            self._derived.add(reader.name().lower())
            if reader.key == "(":
                self._lists.add(reader.at)
                reader.skip_parentheses()
            reader.need("AS")
            reader.skip_parentheses()
            if not reader.take(","):
                return

    def _skip_expression(self) -> None:
        """Skip the assigned expression, which begins with the sign."""
        reader = self._reader
        if not reader.take(":", "=") and not reader.take(":=") and not reader.take("="):
            raise reader.fault("expected =")
        while reader.key != "," and reader.key not in _REST:
            if reader.key == "(":
                reader.skip_parentheses()
            else:
                reader.at += 2 if reader.key == "." else 1

    def _skip_to(self, word: str) -> None:
        reader = self._reader
        while not reader.take(word):
            self._refuse_end(word)
            if reader.key == "(":
                reader.skip_parentheses()
            else:
                reader.at += 1

    def _refuse_end(self, wanted: str) -> None:
        if self._reader.key == END:
            raise self._reader.fault(f"expected {wanted}")

    def _refuse_another(self) -> None:
        """Refuse a second statement after this one."""
        reader = self._reader
        while reader.key not in (END, ";"):
            reader.at += 1
        if not reader.at_end():
            raise reader.fault("nothing more was expected")
