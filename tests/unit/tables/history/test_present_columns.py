"""The columns of versions as the warehouse has them, which the audit finds by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tables.history.present_columns import Described, Followed, PresentColumns, Versions

T, OLD = ("shop", "t"), ("shop", "old")
ADDED = {"b": ("b@1", {"value": 5})}


def described(names: str, more: dict[str, tuple[str, Any]] | None = None) -> Described:
    columns = tuple(names.split())
    found = [(more or {}).get(name, (None, None)) for name in columns]
    return Described(
        columns=columns,
        types=("int",) * len(columns),
        charsets=(None,) * len(columns),
        primary_key=(),
        topic="aq.shop.t",
        ids=tuple(id_ for id_, _ in found),
        initial=tuple(initial for _, initial in found),
    )


def shown(
    versions: Versions, followed: Followed, number: int, name: tuple[str, str] = T
) -> dict[str, Any]:
    """What a row has whose columns have their own names as values."""
    key = (*name, number)
    image = {name: name for name in versions[key].columns}
    return PresentColumns(versions).of(key, T, followed).image(image)


def test_a_table_that_has_followed_nothing_has_the_columns_of_each_version() -> None:
    versions = {(*T, 1): described("a"), (*T, 2): described("a b", ADDED)}
    assert shown(versions, Followed(), 1) == {"a": "a"}
    assert shown(versions, Followed({T: 2}), 1) == {"a": "a", "b": 5}
    assert shown(versions, Followed({T: 2}), 2) == {"a": "a", "b": "b"}


def test_columns_keep_their_identities_through_renames_swaps_and_drops() -> None:
    swapped = {"a": ("b", None), "b": ("a", None), "c": ("c@3", {"unknown": "DEFAULT (uuid())"})}
    versions = {(*T, 1): described("a b"), (*T, 2): described("a b c", swapped)}
    assert shown(versions, Followed({T: 2}), 1) == {"b": "a", "a": "b", "c": None}
    versions[*T, 3] = described("b", {"b": ("b@3", {"value": 7})})
    assert shown(versions, Followed({T: 3}), 2) == {"b": 7, "a": "a", "c": "c"}


def test_columns_that_a_later_version_alters_are_named_as_they_are_now() -> None:
    wide = replace(
        described("a b c", {"b": ("b", None)}), primary_key=("a",), types=("int", "bigint", "int")
    )
    renamed = replace(described("a x c", {"x": ("b", None)}), primary_key=("a",))
    versions = {(*T, 1): wide, (*T, 2): renamed}

    def altered(number: int) -> frozenset[str]:
        return PresentColumns(versions).of((*T, number), T, Followed({T: 2})).altered

    assert [altered(1), altered(2)] == [{"x"}, frozenset()]
    versions[*T, 2] = replace(renamed, types=("int", "bigint", "int"), nullable=(True, True, False))
    assert altered(1) == {"c"}
    # Images of a table without a key lose a dropped column.
    versions |= {(*T, 1): described("a b"), (*T, 2): described("a")}
    assert altered(1) == {"b"}
    # So do those from before it was added, which had its initial value in between.
    versions |= {(*T, 1): described("a"), (*T, 2): described("a b", ADDED), (*T, 3): described("a")}
    known = PresentColumns(versions)
    found = [known.of((*T, one), T, Followed({T: 3})).altered for one in (1, 2, 3)]
    assert found == [{"b"}, {"b"}, set()]


def test_rows_from_before_a_rename_of_the_table_are_older_than_all_others() -> None:
    versions = {
        (*OLD, 1): described("a"),
        (*OLD, 2): described("a b", ADDED),
        (*T, 1): described("a b", ADDED),
    }
    followed = Followed.of(
        {"followed": [["shop", *OLD, 2], ["shop", *T, 1], ["crm", *T, 9]]}, "shop"
    )
    assert shown(versions, followed, 1, OLD) == {"a": "a", "b": 5}
    assert shown(versions, followed, 2, OLD) == {"a": "a", "b": "b"}


def test_versions_of_another_table_that_had_a_name_in_between_are_no_part_of_it() -> None:
    again = {"b": ("b@2", {"value": 6})}
    versions = {
        (*T, 1): described("a"),
        (*T, 2): described("a b", ADDED),
        (*OLD, 1): described("a"),
        (*OLD, 2): described("a b", again),
        (*T, 3): described("a b", again),
    }
    stays = [[*T, 1, 1, -1, -1], [*OLD, 2, 2, 1, 5], [*T, 3, 3, 1, 9]]
    followed = Followed.of({"followed": [["shop", *one] for one in stays]}, "shop")
    assert shown(versions, followed, 1) == {"a": "a", "b": 6}
    assert shown(versions, followed, 2, OLD) == {"a": "a", "b": "b"}
    # One that no batch had before.
    followed = Followed.of({"followed": [["shop", *one] for one in stays[:2]]}, "shop")
    assert shown(versions, followed, 1) == {"a": "a", "b": 6}


def test_a_source_table_of_several_is_by_itself() -> None:
    versions = {
        (*OLD, 1): described("a"),
        (*OLD, 2): described("a b", ADDED),
        (*T, 1): described("a"),
    }
    followed = Followed.of({"followed": [["shop", *OLD, 2]], "apart": True}, "shop")
    assert shown(versions, followed, 1, OLD) == {"a": "a", "b": 5}
    assert shown(versions, followed, 1) == {"a": "a"}
