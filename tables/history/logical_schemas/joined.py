"""Forms of a column joined: the one of them that contains all others.

Invariant: no type is invented. Types of which none contains all others are not joined.
"""

from __future__ import annotations

from collections.abc import Iterable

from tables.history.impact.type_change import Kind, Relation, charset_relation, kind_of, relation
from tables.history.logical_schemas.shard import Form
from wire.table_version import Column

_CONTAINED = (Relation.SAME, Relation.WIDER)


def joined_form(forms: Iterable[Form]) -> Form | None:
    """The form that holds all values of these; None if their types or character sets cannot be joined."""
    found = sorted(set(forms), key=str)
    widest = joined_type({form.type for form in found})
    charset = _charset({form.charset for form in found if form.charset is not None})
    if widest is None or charset is None:
        return None
    return Form(widest, any(form.nullable for form in found), charset or None)


def joined_type(types: Iterable[str]) -> str | None:
    """The type among these that holds all values of the others in the same form; None if there is none."""
    ordered = sorted(set(types))
    return next((one for one in ordered if contains_all(one, ordered)), None)


def contains_all(wide: str, types: Iterable[str]) -> bool:
    """Whether a type holds all values of these types in the same form."""
    return all(relation(_kind(one), _kind(wide)) in _CONTAINED for one in types)


def _kind(type_text: str) -> Kind:
    return kind_of(Column(name="", type=type_text, nullable=True, charset=None))


def _charset(charsets: set[str]) -> str | None:
    """The character set that contains all of these; empty if there are none, None if no one does."""
    if not charsets:
        return ""
    ordered = sorted(charsets)
    return next(
        (
            one
            for one in ordered
            if all(charset_relation(other, one) in _CONTAINED for other in ordered)
        ),
        None,
    )
