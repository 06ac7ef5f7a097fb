"""The columns that literals create.

Invariant: a text literal has the connection's character set, which a statement's session contains.
"""

from __future__ import annotations

from sqlglot import exp

from connectors.mysql.ddl import collations
from connectors.mysql.ddl.definition import Column, Database
from connectors.mysql.ddl.resolve.columns import Refused, Terms

_INT_DIGITS, _BIGINT, _UNSIGNED = 8, 2**63 - 1, 2**64 - 1


def plain(name: str, *, nullable: bool) -> Column:
    """Return a column of a type other than text."""
    return Column(name="", type=name, nullable=nullable)


def text(length: int, own: Database, *, nullable: bool) -> Column:
    """Return a text column of ``length`` characters."""
    if length > 512:
        raise Refused("a string in its query is too long to determine its type")
    if own.charset == "binary":
        return plain(f"varbinary({length})", nullable=nullable)
    return Column(
        name="",
        type=f"varchar({length})",
        nullable=nullable,
        charset=own.charset,
        collation=own.collation,
    )


def text_literal(value: str, terms: Terms) -> Column:
    """``'text'``."""
    return text(len(value), connection(terms), nullable=False)


def connection(terms: Terms) -> Database:
    """The connection's character set and collation."""
    collation = terms.session.connection_collation
    if collation is not None:
        return collations.of_collation(collation, server=terms.server)
    first = collations.default_collation("utf8mb4", server=terms.server, session=terms.session)
    return Database(charset="utf8mb4", collation=first)


def of_introducer(introducer: str, value: str, terms: Terms) -> Column:
    """``_latin1'text'``."""
    if not value.isascii():
        raise Refused("a text with an introducer is not certain")
    return text(len(value), named(introducer.removeprefix("_"), terms), nullable=False)


def named(charset: str, terms: Terms) -> Database:
    """A character set named without a collation."""
    name = collations.charset_named(charset, server=terms.server)
    first = collations.default_collation(name, server=terms.server, session=terms.session)
    return Database(charset=name, collation=first)


def integer(digits: str, *, negative: bool = False) -> Column:
    """Return the column of a number."""
    if not digits.isdecimal():
        return _fraction(digits)
    value = int(digits)
    if negative and len(digits) > _INT_DIGITS:
        raise Refused("a large negative number in its query is not certain")
    if len(digits) <= _INT_DIGITS:
        return plain("int", nullable=False)
    if value <= _BIGINT:
        return plain("bigint", nullable=False)
    return plain(
        "bigint unsigned" if value <= _UNSIGNED else f"decimal({len(digits)},0)", nullable=False
    )


def _fraction(digits: str) -> Column:
    if "e" in digits.lower():
        return plain("double", nullable=False)
    whole, _, fraction = digits.partition(".")
    if not whole.isdecimal() or not fraction.isdecimal() or (whole != "0" and whole[0] == "0"):
        raise Refused(f"the type of {digits} in its query is not certain")
    return plain(f"decimal({len(whole) + len(fraction)},{len(fraction)})", nullable=False)


def date_of(item: exp.Expression) -> Column | None:
    """``DATE'2020-01-01'``; None for another CAST of a literal."""
    if item.this.is_string and item.args["to"].this == exp.DataType.Type.DATE:
        return plain("date", nullable=False)
    return None
