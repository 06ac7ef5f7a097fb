"""Numbers, bits and years, as a server prints their types.

Invariant: a width that a server's version no longer prints is not printed, one that it would refuse
is refused.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server
from connectors.mysql.ddl.server_version import since
from connectors.mysql.ddl.statement.type_spec import TypeRefused, TypeSpec

INTEGERS = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
}  # fmt: skip
"""Default display widths: signed, unsigned."""

_MOST_WIDTH, _MOST_BITS = 255, 64
_MOST_DIGITS, _DIGITS, _MOST_SCALE = 65, 10, 30
_MOST_FLOAT_BITS, _SINGLE_BITS = 53, 24


def integer(name: str, spec: TypeSpec, server: Server) -> str:
    """``int(11)``, or ``int`` if the version has no display widths."""
    given = _only(spec)
    if given > _MOST_WIDTH:
        raise TypeRefused(f"a display width of {given} is more than {_MOST_WIDTH}")
    unsigned = spec.unsigned or spec.zerofill
    width = given or INTEGERS[name][unsigned]
    boolean = name == "tinyint" and width == 1 and not unsigned
    if has_no_widths(server) and not boolean and not spec.zerofill:
        return name + _signs(spec)
    return f"{name}({width}){_signs(spec)}"


def decimal(spec: TypeSpec, server: Server) -> str:
    """``decimal(10,0)``."""
    precision, scale = _pair(spec)
    most = 38 if since(server, mysql=None, mariadb=(10, 2, 1)) else _MOST_SCALE
    if (precision, scale) == (0, 0):
        precision = _DIGITS
    if precision > _MOST_DIGITS or scale > min(most, precision):
        raise TypeRefused(f"decimal({precision},{scale}) has too many digits")
    return f"decimal({precision},{scale}){_signs(spec)}"


def floating(name: str, spec: TypeSpec, server: Server) -> str:
    """``float`` or ``double``; ``float(7,4)`` keeps its digits, ``float(25)`` is a double."""
    if len(spec.arguments) == 2:
        return name + _digits(spec, server) + _signs(spec)
    bits = _only(spec)
    if spec.arguments and (name == "double" or bits > _MOST_FLOAT_BITS):
        raise TypeRefused(f"{name}({bits}) is no type")
    return ("double" if bits > _SINGLE_BITS else name) + _signs(spec)


def _digits(spec: TypeSpec, server: Server) -> str:
    digits, scale = spec.arguments
    if (digits, scale) == (0, 0) and server.mariadb:
        return ""
    if not 0 < digits <= _MOST_WIDTH or scale > min(_MOST_SCALE, digits):
        raise TypeRefused(f"{spec.name}({digits},{scale}) has too many digits, or none")
    return f"({digits},{scale})"


def bit(spec: TypeSpec, server: Server) -> str:
    """``bit(1)``."""
    size = _only(spec)
    if spec.arguments and not size and since(server, mysql=(5, 7, 0), mariadb=None):
        raise TypeRefused("bit(0) is no type")
    if size > _MOST_BITS:
        raise TypeRefused(f"bit({size}) has more than {_MOST_BITS} bits")
    return f"bit({size or 1})"


def year(spec: TypeSpec, server: Server) -> str:
    """``year(4)``, or ``year`` if the version has no display widths; ``year(2)`` was formerly another type."""
    width = _only(spec) if spec.arguments else 4
    if width != 4 and since(server, mysql=(5, 7, 5), mariadb=None):
        raise TypeRefused(f"year({width}) is no type")
    if width == 2 and not since(server, mysql=(5, 6, 6), mariadb=None):
        return "year(2)"
    return "year" if has_no_widths(server) else "year(4)"


def has_no_widths(server: Server) -> bool:
    """Whether a server prints integers and years without display widths."""
    return since(server, mysql=(8, 0, 19), mariadb=None)


def _signs(spec: TypeSpec) -> str:
    if spec.zerofill:
        return " unsigned zerofill"
    return " unsigned" if spec.unsigned else ""


def _only(spec: TypeSpec) -> int:
    if len(spec.arguments) > 1:
        raise TypeRefused(f"{spec.name} takes one number")
    return spec.arguments[0] if spec.arguments else 0


def _pair(spec: TypeSpec) -> tuple[int, int]:
    if len(spec.arguments) > 2:
        raise TypeRefused(f"{spec.name} takes two numbers")
    precision, scale = (*spec.arguments, 0, 0)[:2]
    return precision, scale
