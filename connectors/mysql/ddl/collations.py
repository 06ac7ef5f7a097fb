"""The character sets and collations of servers by name, and those of a column from a statement's clauses.

Invariant: a name is here if a server of the series 5.5 to 9.7, or of MariaDB up to 11.8, lists it; the tests
compare with servers. A default is that of the server's version; names that a version does not know are refused.
Names are returned as that version prints them; MySQL's ``utf8`` has its permanent name here, ``utf8mb3``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.server_version import since
from connectors.mysql.types.type_spec import Refused

_OWN = """\
armscii8 1 general_ci bin
ascii 1 general_ci bin
big5 2 chinese_ci bin
binary 1
cp1250 1 general_ci bin croatian_ci czech_cs polish_ci
cp1251 1 general_ci bin bulgarian_ci general_cs ukrainian_ci
cp1256 1 general_ci bin
cp1257 1 general_ci bin lithuanian_ci
cp850 1 general_ci bin
cp852 1 general_ci bin
cp866 1 general_ci bin
cp932 2 japanese_ci bin
dec8 1 swedish_ci bin
eucjpms 3 japanese_ci bin
euckr 2 korean_ci bin
gb18030 4 chinese_ci bin unicode_520_ci
gb2312 2 chinese_ci bin
gbk 2 chinese_ci bin
geostd8 1 general_ci bin
greek 1 general_ci bin
hebrew 1 general_ci bin
hp8 1 english_ci bin
keybcs2 1 general_ci bin
koi8r 1 general_ci bin
koi8u 1 general_ci bin
latin1 1 swedish_ci bin danish_ci general_ci general_cs german1_ci german2_ci spanish_ci
latin2 1 general_ci bin croatian_ci czech_cs hungarian_ci
latin5 1 turkish_ci bin
latin7 1 general_ci bin estonian_cs general_cs
macce 1 general_ci bin
macroman 1 general_ci bin
sjis 2 japanese_ci bin
swe7 1 swedish_ci bin
tis620 1 thai_ci bin
ucs2 2 general_ci bin general_mysql500_ci
ujis 3 japanese_ci bin
utf16 4 general_ci bin
utf16le 4 general_ci bin
utf32 4 general_ci bin
utf8mb3 3 general_ci bin general_mysql500_ci
utf8mb4 4 general_ci bin
"""
"""Each character set, the bytes of its longest character, and its collations; the first one is the default."""

_UNICODE = ("ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4")
"""Character sets with a collation for each of many languages."""

_LANGUAGES = (
    "croatian", "czech", "danish", "esperanto", "estonian", "german2", "hungarian", "icelandic", "latvian",
    "lithuanian", "persian", "polish", "roman", "romanian", "sinhala", "slovak", "slovenian", "spanish",
    "spanish2", "swedish", "turkish", "vietnamese",
)  # fmt: skip

_0900 = (
    "cs", "da", "de_pb", "eo", "es", "es_trad", "et", "hr", "hu", "is", "la", "lt", "lv", "pl", "ro", "sk",
    "sl", "sv", "tr", "vi",
)  # fmt: skip
"""Languages of UCA 9.0.0 in both kinds of servers."""

_0900_OF_MYSQL = ("bg", "bs", "gl", "mn_cyrl", "nb", "nn", "ru", "sr_latn")

_OF_MARIADB = (
    "croatian_mysql561_ci", "myanmar_ci", "thai_520_w2", "unicode_520_nopad_ci", "unicode_nopad_ci",
)  # fmt: skip

CONTEXTUAL = re.compile(rf"uca1400_(?:(?:{'|'.join(_LANGUAGES)})_)?(?:nopad_)?a[is]_c[is]")
"""The names of MariaDB's UCA 14.0.0 collations without the character set's name, which may precede them."""


def _parsed() -> dict[str, tuple[int, tuple[str, ...]]]:
    found = {}
    for line in _OWN.splitlines():
        name, size, *suffixes = line.split()
        collations = tuple(f"{name}_{suffix}" for suffix in suffixes) or (name,)
        found[name] = (int(size), collations)
    return found


_PARSED = _parsed()

LONGEST: Mapping[str, int] = {name: size for name, (size, _) in _PARSED.items()}
"""Bytes of each character set's longest character."""

FIRST: Mapping[str, str] = {name: collations[0] for name, (_, collations) in _PARSED.items()}
"""The original default collation of each character set, before servers had newer ones for some."""

_SHARED = frozenset(
    [collation for _, collations in _PARSED.values() for collation in collations]
    + [
        f"{charset}_{language}_ci"
        for charset in _UNICODE
        for language in (*_LANGUAGES, "unicode", "unicode_520")
    ]
)
_NEWER = frozenset(
    [f"utf8mb4_{language}_0900_{kind}" for language in _0900 for kind in ("ai_ci", "as_cs")]
    + [f"utf8mb4_0900_{kind}" for kind in ("ai_ci", "as_ci", "as_cs", "bin")]
)
_MYSQL = frozenset(
    [
        f"utf8mb4_{language}_0900_{kind}"
        for language in _0900_OF_MYSQL
        for kind in ("ai_ci", "as_cs")
    ]
    + ["utf8mb4_ja_0900_as_cs", "utf8mb4_ja_0900_as_cs_ks", "utf8mb4_zh_0900_as_cs"]
    + ["utf8mb3_tolower_ci"]
)
_MARIADB = frozenset(
    [f"{charset}_{suffix}" for charset in _UNICODE for suffix in _OF_MARIADB]
    + [f"{charset}_nopad_bin" for charset in _PARSED]
    + [first.removesuffix("_ci") + "_nopad_ci" for first in FIRST.values()]
    + ["utf8mb3_general1400_as_ci", "utf8mb4_general1400_as_ci"]
)


def has_charset(server: Server, name: str) -> bool:
    """Whether a server has a character set, by its permanent name."""
    return name in LONGEST and (name != "gb18030" or since(server, mysql=(5, 7, 4), mariadb=None))


def has_collation(server: Server, name: str) -> bool:
    """Return whether a server has a collation, by its permanent name.

    A server newer than all known servers is assumed to have any collation of its character sets.
    """
    charset, _, order = name.partition("_")
    if not has_charset(server, charset):
        return False
    if name in _SHARED or since(server, mysql=(9, 8, 0), mariadb=(11, 9, 0)):
        return True
    if name in _NEWER:
        return since(server, mysql=(8, 0, 1), mariadb=(11, 4, 5))
    if server.mariadb:
        return name in _MARIADB or (charset in _UNICODE and bool(CONTEXTUAL.fullmatch(order)))
    return name in _MYSQL and server.version >= (8, 0, 1)


_NEWER_DEFAULTS = ("ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4")
"""MariaDB's character sets whose default is a collation of UCA 14.0.0."""


def server_default(server: Server, session: Session) -> Database:
    """The default of a database that is created without options."""
    collation = session.server_collation
    if collation is None and since(server, mysql=(8, 0, 1), mariadb=(11, 6, 0)):
        collation = "utf8mb4_uca1400_ai_ci" if server.mariadb else "utf8mb4_0900_ai_ci"
    return of_collation(collation or "latin1_swedish_ci", server=server)


def chosen(
    charset: str | None,
    collation: str | None,
    inherited: Database,
    *,
    server: Server,
    session: Session,
    current: Database | None = None,
    collation_first: bool = False,
) -> Database:
    """Return the result of ``[DEFAULT] CHARACTER SET charset COLLATE collation`` for a database or table.

    Either name is None if its clause is missing, and may be ``default``, in lower case. ``inherited`` is the
    default without these clauses, ``current`` the state before an ALTER. With ``collation_first``, COLLATE
    precedes CHARACTER SET; MySQL 8.0 and earlier then ignore COLLATE. Raise Refused.
    """
    if "default" in (charset, collation) and since(server, mysql=(8, 0, 0), mariadb=None):
        raise Refused("DEFAULT names no character set or collation since MySQL 8.0")
    named = None if charset is None else _named(charset, inherited, server, session)
    # MySQL treats DEFAULT like a missing clause, so that any collation is compatible with it.
    free = charset is None or (charset == "default" and not server.mariadb)
    own = None if free or named is None else named.charset
    base = current or inherited
    if collation is None:
        return named or base
    if not server.mariadb and collation == "default":
        found = inherited
    else:
        found = collated(own, collation, base, server=server, session=session)
    # 5.5 to 8.0.26 ignore it, 9.7 does not; the version of the change is unknown.
    forgets = collation_first and not since(server, mysql=(8, 4, 0), mariadb=(0, 0, 0))
    return named if named is not None and forgets else found


def _named(charset: str, inherited: Database, server: Server, session: Session) -> Database:
    if charset == "default":
        if not server.mariadb:
            return inherited
        # Only the character set is inherited, with its original default collation.
        first = FIRST[lasting(inherited.charset)]
        return Database(charset=inherited.charset, collation=_printed_collation(first, server))
    return Database(
        charset=charset_named(charset, server=server),
        collation=default_collation(charset, server=server, session=session),
    )


def collated(
    named: str | None, collation: str, base: Database, *, server: Server, session: Session
) -> Database:
    """Return the result of COLLATE after a named character set, or else applied to ``base``.

    Raise Refused.
    """
    own, word = named or base.charset, lasting(collation)
    if server.mariadb and word == "default":
        return _named(own, base, server, session)
    if server.mariadb and CONTEXTUAL.fullmatch(word):
        word = f"{lasting(own)}_{word}"
        if not has_collation(server, word):
            raise _apart(collation, own)
    found = of_collation(word, server=server)
    if named is not None and found.charset != own:
        raise _apart(collation, own)
    return found


def _apart(collation: str, charset: str) -> Refused:
    return Refused(f"COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'")


def default_collation(charset: str, *, server: Server, session: Session) -> str:
    """Return the collation of a character set that is named without a collation; raise Refused."""
    name = lasting(charset_named(charset, server=server))
    own = session.utf8mb4_collation if name == "utf8mb4" else None
    if session.charset_collations is not None:
        own = dict(session.charset_collations).get(name, own)
    elif own is None and name in _NEWER_DEFAULTS and since(server, mysql=None, mariadb=(11, 5, 0)):
        own = f"{name}_uca1400_ai_ci"
    elif own is None and name == "utf8mb4" and since(server, mysql=(8, 0, 1), mariadb=None):
        own = "utf8mb4_0900_ai_ci"
    return _printed_collation(lasting(own or FIRST[name]), server)


def of_collation(collation: str, *, server: Server) -> Database:
    """A collation with its character set, both as the server prints them; raise Refused."""
    name = lasting(collation)
    if not has_collation(server, name):
        raise Refused(f"Unknown collation: '{collation}'")
    charset = _printed_charset(name.partition("_")[0], server)
    return Database(charset=charset, collation=_printed_collation(name, server))


def binary_collation(charset: str, *, server: Server) -> Database:
    """Return a character set with its collation that compares bytes."""
    if lasting(charset) == "binary":
        return Database(charset="binary", collation="binary")
    return of_collation(f"{charset}_bin", server=server)


def charset_named(charset: str, *, server: Server) -> str:
    """Return a character set as the server prints it; raise Refused if the server does not have it."""
    name = lasting(charset)
    if not has_charset(server, name):
        raise Refused(f"Unknown character set: '{charset}'")
    return _printed_charset(name, server)


def longest(charset: str) -> int:
    """The maximum size of a character in bytes."""
    return LONGEST[lasting(charset)]


def lasting(name: str) -> str:
    """The permanent name of a character set or collation: MySQL's ``utf8`` became ``utf8mb3``."""
    name = name.lower()
    return "utf8mb3" + name[4:] if name == "utf8" or name.startswith("utf8_") else name


def _printed_charset(name: str, server: Server) -> str:
    if name != "utf8mb3" or since(server, mysql=(8, 0, 28), mariadb=(10, 6, 0)):
        return name
    return "utf8"


def _printed_collation(name: str, server: Server) -> str:
    if not name.startswith("utf8mb3_") or since(server, mysql=(8, 0, 30), mariadb=(10, 6, 0)):
        return name
    return "utf8_" + name.removeprefix("utf8mb3_")
