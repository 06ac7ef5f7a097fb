"""Whatever is wrong with a settings file: one SettingsError, by places that are in it, and no secret."""

from __future__ import annotations

import copy
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.settings.model import load
from connectors.errors import SettingsError
from tests.properties.examples import examples

SECRET = "hunter2-nobody-may-see"
GOOD: dict[str, Any] = {
    "prefix": "aq",
    "kafka": {"bootstrap_servers": "127.0.0.1:9092", "sasl_password": SECRET},
    "zookeeper": {"hosts": "127.0.0.1:2181"},
    "provide_transaction_metadata": True,
    "schema_history": {"store": "journal"},
    "topics": {"partitions": 4},
    "data_dir": "data",
    "destinations": {
        "shop": {
            "source": {"host": "db", "user": "u", "password": SECRET},
            "server_id": 1,
            "start": {"file": "b.000001", "pos": 4},
            "filter": {"include": "a.*", "black": ""},
            "failover": {"heartbeat": {"sql": "SELECT 1"}},
        }
    },
}
LEAKS = re.compile(
    r"function-|literal\[|\(place\)|\(word\)|\[key\]|Traceback|type=|input_value|tag "
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=8), st.just([]),
    st.just({}), st.just({"x": 1}), st.just([{"y": None}]), st.just("2026-99-99"), st.dates(),
    st.datetimes(), st.binary(max_size=4), st.just({1: 2}), st.just("earliest"),
)  # fmt: skip


def paths(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        for name, each in value.items():
            found += paths(each, (*at, name))
    return found


PATHS = paths(GOOD)


def said(text: bytes) -> str:
    """What loading says of a file; empty where it is good."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "aqueduct.yaml"
        path.write_bytes(text)
        with mock.patch.dict(os.environ, {"AQUEDUCT_CONFIG": str(path)}):
            try:
                load()
            except SettingsError as error:
                return str(error)
    return ""


def assert_fit_for_operators(text: str) -> None:
    assert SECRET not in text
    assert not LEAKS.search(text), text


def test_what_the_others_spoil_is_good() -> None:
    assert said(yaml.safe_dump(GOOD).encode()) == ""


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD), min_size=1, max_size=3))
@example([(("destinations", "shop", "start"), {"pos": 7})])
@example([(("destinations", "shop", "start"), "noon")])
@example([(("provide_transaction_metadata",), "some")])
@example([(("destinations",), {"Shop": {}})])
def test_a_wrong_value_is_a_fault_at_its_place(changes: list[tuple[tuple[str, ...], Any]]) -> None:
    wrong = copy.deepcopy(GOOD)
    for path, value in changes:
        at: Any = wrong
        for name in path[:-1]:
            at = at.get(name) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at[path[-1]] = value
    assert_fit_for_operators(
        said(yaml.safe_dump(wrong, allow_unicode=True).encode("utf-8", "replace"))
    )


@settings(deadline=None, max_examples=examples(100))
@given(at=st.integers(0, 500), length=st.integers(0, 9), put=st.binary(max_size=6))
@example(at=0, length=0, put=b"*x: ")
@example(at=0, length=0, put=b"1: 2\n")
@example(at=0, length=0, put=b"\0")
@example(at=0, length=0, put=b"\xff\xfe")
@example(at=0, length=0, put=b"a: &a [*a]\n")
@example(at=0, length=0, put=b"prefix: two\n")
@example(at=0, length=0, put=b"? [a]\n: b\n")
@example(at=0, length=0, put=b"t: 2026-99-99\n")
def test_a_damaged_file_is_a_fault_and_no_traceback(at: int, length: int, put: bytes) -> None:
    text = yaml.safe_dump(GOOD).encode()
    assert_fit_for_operators(said(text[:at] + put + text[at + length :]))
