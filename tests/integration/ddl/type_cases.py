"""Types at their edges, as a statement may write them."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.mysql.ddl.column_types import KINDS, NATIONAL, ORACLE_ONLY
from connectors.mysql.types.type_spec import TypeSpec

_ATTRIBUTES = {"unicode": "UNICODE", "byte": "BYTE"}


def written(spec: TypeSpec) -> str:
    """A type as SQL."""
    words = [spec.name if spec.qualifier is None else f"{spec.qualifier}.{spec.name}"]
    inside = ",".join([*map(str, spec.arguments), *map(_label, spec.labels)])
    if inside:
        words[0] += f"({inside})"
    words += ["UNSIGNED"] * spec.unsigned + ["ZEROFILL"] * spec.zerofill
    words += ["COMPRESSED"] * spec.compressed
    if spec.charset is not None:
        words.append(_ATTRIBUTES.get(spec.charset, f"CHARACTER SET {spec.charset}"))
    words += ["BINARY"] * spec.binary
    if spec.collation is not None:
        words.append(f"COLLATE {'`binary`' if spec.collation == 'binary' else spec.collation}")
    if spec.srid is not None:
        words.append(f"SRID {spec.srid}")
    return " ".join(words)


def _label(label: str | bytes) -> str:
    if isinstance(label, bytes):
        return "0x" + label.hex()
    return "'" + label.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


_WITH_LENGTH = {"varchar", "varbinary"}
_LABELLED = {"enum", "set"}


def names() -> Iterator[TypeSpec]:
    """Each name alone, or with the least that it takes."""
    for name, kind in KINDS.items():
        if name in ORACLE_ONLY:
            continue
        if kind in _LABELLED:
            yield TypeSpec(name=name, labels=("a", "b"))
        else:
            yield TypeSpec(name=name, arguments=(7,) if kind in _WITH_LENGTH else ())
        if name in NATIONAL:
            arguments = (5,) if kind in _WITH_LENGTH else ()
            yield TypeSpec(name=name, arguments=arguments, binary=True)


def numbers() -> Iterator[TypeSpec]:
    """Numbers with digits and signs."""
    for name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        for arguments in ((), (0,), (1,), (2,), (20,), (255,), (256,)):
            for unsigned, zerofill in ((False, False), (True, False), (False, True), (True, True)):
                yield TypeSpec(name=name, arguments=arguments, unsigned=unsigned, zerofill=zerofill)
    pairs = ((0, 0), (0, 2), (5, 0), (5, 2), (5, 5), (5, 6), (65, 30), (66, 0), (65, 31), (65, 38))
    for name in ("decimal", "dec", "numeric", "fixed"):
        for digits in ((), (0,), (1,), (65,), (66,), *pairs):
            yield TypeSpec(name=name, arguments=digits)
        yield TypeSpec(name=name, arguments=(8, 3), unsigned=True)
        yield TypeSpec(name=name, arguments=(8, 3), zerofill=True)
    for name in ("float", "double", "double precision", "real", "float4", "float8"):
        for digits in (*pairs, (255, 30), (256, 30), (10, 31)):
            yield TypeSpec(name=name, arguments=digits)
        yield TypeSpec(name=name, unsigned=True)
        yield TypeSpec(name=name, zerofill=True)
        yield TypeSpec(name=name, arguments=(10, 2), zerofill=True)
    for bits in (0, 1, 23, 24, 25, 52, 53, 54, 255):
        yield TypeSpec(name="float", arguments=(bits,))
        yield TypeSpec(name="float4", arguments=(bits,), unsigned=True)
    for bits in (0, 1, 8, 63, 64, 65):
        yield TypeSpec(name="bit", arguments=(bits,))


def others() -> Iterator[TypeSpec]:
    """Times, places and vectors."""
    for width in (0, 2, 3, 4):
        yield TypeSpec(name="year", arguments=(width,))
    yield TypeSpec(name="year", zerofill=True)
    for name in ("time", "datetime", "timestamp"):
        for digits in range(8):
            yield TypeSpec(name=name, arguments=(digits,))
    for dimensions in (1, 2048, 16383, 16384):
        yield TypeSpec(name="vector", arguments=(dimensions,))


def texts() -> Iterator[TypeSpec]:
    """Text and bytes by their lengths, character sets and collations."""
    for length in (0, 1, 255, 256):
        for name in ("char", "binary", "nchar", "national character"):
            yield TypeSpec(name=name, arguments=(length,))
        yield TypeSpec(name="char", arguments=(length,), charset="byte")
    for name in ("varchar", "varbinary", "nvarchar", "character varying"):
        for length in (0, 255, 16383, 16384, 21846, 65536, 0xFFFFFF, 0x1000000, 2**32 - 1, 2**32):
            yield TypeSpec(name=name, arguments=(length,))
    for name in ("text", "blob"):
        for length in (
            0, 1, 63, 64, 85, 86, 255, 256, 16383, 16384, 21845, 21846, 65535, 65536,
            4194303, 4194304, 0xFFFFFF, 0x1000000, 2**30, 2**32 - 1, 2**32,
        ):  # fmt: skip
            yield TypeSpec(name=name, arguments=(length,))
    for name in ("char", "varchar", "text", "long varchar", "tinytext", "mediumtext", "longtext"):
        arguments = (100,) if name != "long varchar" and not name.endswith("ytext") else ()
        arguments = () if name in ("tinytext", "mediumtext", "longtext") else arguments
        yield from _in_character_sets(name, arguments)


def _in_character_sets(name: str, arguments: tuple[int, ...]) -> Iterator[TypeSpec]:
    def spec(**more: object) -> TypeSpec:
        return TypeSpec(name=name, arguments=arguments, **more)  # type: ignore[arg-type]  # by name

    yield spec(binary=True)
    yield spec(collation="binary")
    for charset in ("latin1", "LATIN1", "utf8", "utf8mb3", "utf8mb4", "ucs2", "binary", "nix"):
        yield spec(charset=charset)
        yield spec(charset=charset, binary=True)
    yield spec(charset="unicode")
    yield spec(charset="unicode", binary=True)
    yield spec(charset="byte")
    for collation in ("latin1_bin", "utf8_bin", "utf8mb3_unicode_ci", "UTF8MB4_Unicode_CI", "nix"):
        yield spec(collation=collation)
        yield spec(collation=collation, charset="latin1")
        yield spec(collation=collation, charset="utf8")
        yield spec(collation=collation, binary=True)


def labels() -> Iterator[TypeSpec]:
    """ENUM and SET by their labels."""
    for name in ("enum", "set"):
        for found in (
            ("",), ("a",), ("a ", " b"), ("a'b", "c\\d", 'e"f', "g\nh\ri\tj%"),
            ("a", "a "), ("a", "a"), (b"ab", "a"), (b"\xc3\xa9",), ("a,b",),
            tuple(f"l{n}" for n in range(64)), tuple(f"l{n}" for n in range(65)),
        ):  # fmt: skip
            yield TypeSpec(name=name, labels=found)
            yield TypeSpec(name=name, labels=found, charset="latin1")
            yield TypeSpec(name=name, labels=found, charset="byte")
        yield TypeSpec(name=name, labels=(b"\xe9",), charset="latin1")
        yield TypeSpec(name=name, labels=("é", "😀", "中"), charset="utf8mb4")
        yield TypeSpec(name=name, labels=("é", "😀", "中"), charset="latin1")
        yield TypeSpec(name=name, labels=("x", "X"), binary=True)
        yield TypeSpec(name=name, labels=("x", "y"), collation="latin2_bin")


def of_mariadb() -> Iterator[TypeSpec]:
    """Types that only MariaDB accepts."""
    for name in ("char", "varchar", "text", "json", "nvarchar"):
        arguments = (9,) if "char" in name else ()
        for collation in (
            "uca1400_ai_ci",
            "uca1400_czech_nopad_as_cs",
            "utf8mb3_uca1400_ai_ci",
            "default",
        ):
            if collation != "default" or name not in ("json", "nvarchar"):
                yield TypeSpec(name=name, arguments=arguments, collation=collation)
            if name != "json" and not name.startswith("n"):
                yield TypeSpec(
                    name=name, arguments=arguments, collation=collation, charset="utf8mb4"
                )
                yield TypeSpec(
                    name=name, arguments=arguments, collation=collation, charset="latin1"
                )
                yield TypeSpec(name=name, arguments=arguments, collation=collation, binary=True)
    for name in ("json", "binary", "tinyblob", "blob", "longblob"):
        for collation in ("latin1_bin", "utf8mb4_unicode_ci"):
            yield TypeSpec(name=name, collation=collation)
    yield TypeSpec(name="varbinary", arguments=(9,), collation="latin1_bin")
    yield TypeSpec(name="char", arguments=(9,), collation="latin1_nopad_bin", binary=True)
    for name in ("varchar", "varbinary"):
        for length in (65532, 65533, 65535, 65536):
            yield TypeSpec(
                name=name, arguments=(length,), charset="latin1" if name == "varchar" else None
            )
        yield TypeSpec(name=name, arguments=(9,), compressed=True)
    for name in ("tinytext", "text", "mediumtext", "longtext", "blob"):
        yield TypeSpec(name=name, compressed=True)
    yield TypeSpec(name="date", qualifier="oracle_schema")
    yield TypeSpec(name="date", qualifier="mariadb_schema")
    yield TypeSpec(name="timestamp", arguments=(3,), qualifier="maxdb_schema")


def of_mysql() -> Iterator[TypeSpec]:
    """Types that only MySQL accepts."""
    yield TypeSpec(name="json", collation="utf8mb4_bin")
    yield TypeSpec(name="enum", labels=("é", "😀", b"\xe9"), charset="byte")
    yield TypeSpec(name="blob", collation="latin1_bin")
    yield TypeSpec(name="binary", collation="latin1_bin")
    for name in ("point", "geometry", "geomcollection"):
        yield TypeSpec(name=name, srid=4326)


def of_oracle() -> Iterator[TypeSpec]:
    """Types that MariaDB accepts in the mode ORACLE."""
    for name in ("date", "blob", "clob", "number", "timestamp", "text", "int"):
        yield TypeSpec(name=name)
    for name, arguments in (
        ("number", (5,)),
        ("number", (5, 2)),
        ("varchar2", (9,)),
        ("raw", (9,)),
    ):
        yield TypeSpec(name=name, arguments=arguments)
    yield TypeSpec(name="date", qualifier="mariadb_schema")
