"""The labels of ENUM and SET, as a server stores and prints them.

Invariant: a label is limited to the characters of its column's character set, and is printed in
three-byte UTF-8, as in ``information_schema``. A character that either lacks becomes a question mark.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.charset.charsets import BINARY, text_decoder, text_encoder
from connectors.mysql.ddl.definition import Server
from connectors.mysql.server_version import since
from connectors.mysql.types.type_spec import Label, TypeRefused

_MOST = {"enum": 65535, "set": 64}
_ESCAPES = str.maketrans({"'": "''", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r"})


def labelled(
    name: str, labels: Sequence[Label], charset: str, *, server: Server, strict: bool
) -> str:
    """Return the type as printed: ``enum('a','b')``; raise TypeRefused for labels that a server refuses."""
    kept = [_kept(label, charset) for label in labels]
    if not 0 < len(kept) <= _MOST[name]:
        raise TypeRefused(f"{name} takes 1 to {_MOST[name]} labels, not {len(kept)}")
    if name == "set" and any("," in label for label in kept):
        raise TypeRefused("a label of a set holds a comma")
    if strict and len(set(kept)) < len(kept):
        raise TypeRefused(f"two labels of the {name} are equal")
    if charset == BINARY:
        return f"{name}({','.join(_bytes(label, name, server) for label in kept)})"
    return f"{name}({','.join(map(_quoted, kept))})"


def exactly(name: str, labels: Sequence[Label], charset: str) -> str:
    """Return the type with its exact labels; empty if ``labelled`` prints no question mark."""
    if charset == BINARY:
        return ""
    kept = [_kept(label, charset) for label in labels]
    if not any("?" in label or max(label, default="") > "\uffff" for label in kept):
        return ""
    quoted = ",".join(f"'{label.translate(_ESCAPES)}'" for label in kept)
    return f"{name}({quoted})"


def _bytes(label: str, name: str, server: Server) -> str:
    """A label of bytes; from MySQL 8.0 on, bytes of an ENUM that are not text are hexadecimal digits.

    Raise TypeRefused where a server would print only a part of such bytes.
    """
    if all(char <= "\uffff" and not "\udc80" <= char <= "\udcff" for char in label):
        return _quoted(label)
    if name == "enum" and since(server, mysql=(8, 0, 0), mariadb=None):
        return f"x'{label.encode(errors='surrogateescape').hex()}'"
    raise TypeRefused(f"a label of the {name} is bytes that are no text")


def labels_in(column_type: str) -> list[str]:
    """The labels in the output of ``labelled``."""
    inside = column_type.partition("(")[2].rpartition(")")[0]
    found, at = [], 0
    while at < len(inside):
        label, at = _unquoted(inside, at + 1)
        found.append(label)
        at += 1  # the comma
    return found


def read_again(labels: Sequence[str], old: str, new: str) -> list[str]:
    """Return labels whose bytes a server reinterprets, without conversion, in another character set.

    ALTER TABLE … CONVERT TO does so. Raise TypeRefused if the bytes are invalid in that character set.
    """
    encode = text_encoder(old) or _from_utf8
    decode = text_decoder(new) or bytes.decode
    try:
        return [decode(encode(label)) for label in labels]
    except UnicodeError:
        raise TypeRefused(f"the labels have no meaning in {new}") from None


def _kept(label: Label, charset: str) -> str:
    if charset == BINARY:
        raw = label if isinstance(label, bytes) else label.encode()
        return raw.decode(errors="surrogateescape")
    if isinstance(label, bytes):
        text = _read(label, charset)
    else:
        text = "".join(char if _holds(charset, char) else "?" for char in label)
    return text.rstrip(" ")


def _read(label: bytes, charset: str) -> str:
    decode = text_decoder(charset)
    if decode is None:
        raise TypeRefused(f"the characters of {charset} are not known")
    try:
        return decode(label)
    except UnicodeError:
        raise TypeRefused(f"0x{label.hex()} is no text in {charset}") from None


def _holds(charset: str, char: str) -> bool:
    encode = text_encoder(charset)
    if encode is None:
        return True
    try:
        encode(char)
    except UnicodeError:
        return False
    return True


def _from_utf8(label: str) -> bytes:
    return label.encode()


def _quoted(label: str) -> str:
    printed = "".join(char if char <= "\uffff" else "?" for char in label)
    return f"'{printed.translate(_ESCAPES)}'"


_UNESCAPED = {"0": "\0", "n": "\n", "r": "\r"}


def _unquoted(text: str, at: int) -> tuple[str, int]:
    """A label, starting after its opening quote, and the offset after the closing one."""
    found: list[str] = []
    while True:
        char = text[at]
        if char == "'" and text[at : at + 2] != "''":
            return "".join(found), at + 1
        if char == "\\":
            found.append(_UNESCAPED.get(text[at + 1], text[at + 1]))
        else:
            found.append(char)
        at += 2 if char in "'\\" else 1
