"""A canary in columns that one of the two mappings masks: no report of a trial shows it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from app.operator.trial import tally
from app.operator.trial.tally import MASKED, ShownValues, Tally
from connectors.errors import MalformedEvent, MappingError, RowUnreadable, RuleImpossible
from connectors.mysql.stream.chunk import Chunk
from tests import made
from tests.unit.app.operator.trial.recorded import (
    DELETE,
    INSERT,
    ORDERS,
    UPDATE,
    USERS,
    Row,
    Tried,
    chunks,
    routes,
    rows,
    side,
    tried,
)

CANARY, NUMBER = "canary bird", 51_505_150
PLAIN = "tables: {users: {from: [shop.users], topic: users}}"
RULES = (
    "name: redact",
    "name: {redact: '***'}",
    "name: {truncate: 3}",
    "name: {hmac: k}",
    "name: drop",
    "id: {hmac: k}, name: drop",
)


def masking(rules: str, more: str = "") -> str:
    return f"tables: {{users: {{from: [shop.users], topic: masked{more}, column_actions: {{{rules}}}}}}}"


def recorded() -> Iterator[Chunk]:
    secret: Row = (NUMBER, 7, CANARY)
    other: Row = (NUMBER, 7, f"new {CANARY}")
    moved: Row = (NUMBER + 1, 8, CANARY)
    return chunks(
        rows(INSERT, USERS, secret),
        rows(UPDATE, USERS, secret, other),
        rows(UPDATE, USERS, other, moved),
        rows(DELETE, USERS, moved),
        rows(INSERT, ORDERS, (1, 1, "shown text")),
        [made.query(f"ALTER TABLE users ADD COLUMN more varchar(99) DEFAULT '{CANARY}'")],
    )


def leaks(text: str, *, key: bool) -> set[str]:
    """The traces of the canary in a text; ``key``: the number is masked too."""
    raw = CANARY.encode()
    encoded = (base64.b64encode(bytes(n) + raw)[4:-4].decode() for n in range(3))
    traces = {CANARY, raw.hex(), *encoded, *([str(NUMBER)[:-1]] if key else [])}
    return {one for one in traces if one in text}


@pytest.mark.parametrize("rules", RULES)
def test_no_sample_shows_a_value_that_either_mapping_masks(rules: str) -> None:
    for old, new in ((PLAIN, masking(rules)), (masking(rules), PLAIN)):
        found = tried(old, new, recorded())
        assert found.counts("users")["topic"] == 7
        shown = found.shown()
        assert leaks(shown, key="id:" in rules) == set()
        assert f"name='name', old='{MASKED}', new='{MASKED}'" in shown


def test_a_key_is_shown_as_published_and_without_what_only_the_other_mapping_masks() -> None:
    found = tried(PLAIN, masking("id: {hmac: k}"), chunks(rows(INSERT, USERS, (NUMBER, 7, "a"))))
    ((sample,),) = (one.samples["key"] for one in found.tally.tables())  # type: ignore[index]
    assert sample.old is not None
    assert sample.old.key == f'{{"id":"{MASKED}"}}'
    assert sample.new is not None
    assert str(sample.new.key).startswith('{"id":"k:')


def test_a_column_that_one_mapping_renames_and_the_other_masks_is_hidden_by_both_names() -> None:
    for old, new in (("rename: alias", "hmac: k"), ("hmac: k", "rename: alias")):
        first, second = (masking(f"name: {{{one}}}") for one in (old, new))
        assert leaks(tried(first, second, recorded()).shown(), key=False) == set()


def test_values_of_columns_that_neither_masks_are_shown() -> None:
    new = "tables: {orders: {from: [shop.orders], columns: [id]}}"
    shown = tried(None, new, recorded()).shown()
    assert "name='name', old='\"shown text\"', new='(none)'" in shown


def test_an_undecodable_row_is_not_quoted_where_either_mapping_masks() -> None:
    bad = (1, 1, f"{CANARY}\udcff")
    recorded_rows = list(chunks(rows(INSERT, USERS, bad), rows(INSERT, USERS, (2, 2, "b"))))
    for old, new in ((PLAIN, masking("name: {hmac: k}")), (masking("name: {hmac: k}"), PLAIN)):
        found = tried(old, new, recorded_rows, undecodable_limit=5)
        assert leaks(found.shown(), key=False) == set()
        error = _error(found, old, recorded_rows[0])
        text = f"{error} {error!r} {error.context}"
        assert leaks(text, key=False) == set()
        assert "coordinates" in error.context


def _error(found: Tried, mapping: str, chunk: Chunk) -> MalformedEvent:
    """What ends a trial at an undecodable row, as it is shown."""
    with pytest.raises(MalformedEvent) as raised:
        side(routes(mapping)).published(chunk)
    shown = ShownValues(found.old.routes, found.new.routes).error(raised.value)
    assert isinstance(shown, MalformedEvent)
    return shown


def test_errors_of_rules_are_shown_and_those_that_quote_rows_are_not() -> None:
    shown = ShownValues(routes(PLAIN), routes(masking("name: redact")))
    rule = RuleImpossible.of(("shop", "users"), "there is no column 'x'")
    assert shown.table_reason(rule) == "there is no column 'x'"
    row = RowUnreadable.of(("shop", "users"), CANARY)
    assert CANARY not in shown.table_reason(row)
    assert shown.table_reason(RowUnreadable.of(("shop", "orders"), "text")) == "text"
    assert str(shown.error(MappingError("two rules"))).startswith(str(MappingError("two rules")))
    hidden = shown.error(MalformedEvent(CANARY, gtid="g:1"))
    assert CANARY not in str(hidden)
    assert hidden.context == {"gtid": "g:1"}
    shown = ShownValues(routes(PLAIN), routes(masking("name: redact")))
    for table, is_shown in (("shop.orders", True), ("shop.users", False)):
        assert ("a text" in str(shown.error(MalformedEvent("a text", table=table)))) == is_shown
    # The text of a table is no less hidden if its database has a dot in its name.
    anywhere = "tables: {users: {from: [users], column_actions: {name: redact}}}"
    dotted = ShownValues(routes(None), replace(routes(anywhere), include=r".*\..*"))
    assert "a text" not in str(dotted.error(MalformedEvent("a text", table="my.shop.users")))
    plain = ShownValues(routes(PLAIN), routes(None))
    assert "text" in str(plain.error(MalformedEvent("text")))


Patch = Callable[[pytest.MonkeyPatch], None]


def _shows_masked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tally, "_actions", lambda _: {})


def _shows_queries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tally, "_PLAIN_FIELDS", {"source.query"})


@pytest.mark.parametrize("guard", [_shows_masked, _shows_queries])
def test_without_its_guard_a_sample_shows_the_canary(
    guard: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(monkeypatch)
    found = tried(PLAIN, masking("name: drop"), recorded())
    assert isinstance(found.tally, Tally)
    assert leaks(found.shown(), key=False)
