from __future__ import annotations

import yaml

from app.migrate.draft import Draft, Entry, Imported, KnownKeys, Outcome

START = ("destinations", "d", "start")


def entry(key: str, value: str = "x") -> Entry:
    return Entry(key=key, value=value, file="f")


def draft() -> Draft:
    found = Draft()
    found.settings.put(("prefix",), "aq")
    found.settings.put(("kafka", "bootstrap_servers"), "k:9092")
    found.settings.put(("destinations", "d", "server_id"), 1)
    found.settings.put(("destinations", "d", "source", "host"), "h")
    found.settings.put(("destinations", "d", "source", "user"), "u")
    return found


def result(found: Draft) -> Imported:
    return found.result(settings_head=["s"], mapping_head=["m"])


def test_a_value_that_the_settings_refuse_is_reported_and_not_written() -> None:
    found = draft()
    found.take(entry("gtid"), (*START, "gtid_set"), "nonsense")
    found.take(entry("port"), ("http", "port"), 70_000)
    found.take(entry("lonely"), ("publish", "interval_ms"), 0)
    found.take(entry("good"), ("http", "bind"), "127.0.0.2")
    done = result(found)
    values = yaml.safe_load(done.settings)
    assert values["destinations"]["d"]["start"] == "earliest"
    assert values["http"] == {"bind": "127.0.0.2"}
    assert "publish" not in values
    notes = {one.key: one.text for one in done.of(Outcome.BY_HAND)}
    assert "not taken over from gtid (f)" in str(done.of(Outcome.BY_HAND)[1:])
    assert "not taken over from port (f)" in notes["http.port"]
    assert [one.key for one in done.of(Outcome.TAKEN)] == ["good"]


def test_what_no_removal_can_correct_is_reported() -> None:
    found = draft()
    found.settings.remove(("destinations", "d", "source", "user"))
    assert [one.key for one in result(found).of(Outcome.BY_HAND)] == ["destinations.d.source.user"]


def test_the_first_of_two_values_stays_and_the_other_is_reported() -> None:
    found = draft()
    found.take(entry("a"), ("topics", "partitions"), 3)
    found.take(entry("b"), ("topics", "partitions"), 4)
    done = result(found)
    assert yaml.safe_load(done.settings)["topics"] == {"partitions": 3}
    assert "another value" in done.of(Outcome.BY_HAND)[0].text


def test_a_mapping_with_a_fault_is_reported() -> None:
    found = draft()
    found.take_rule(entry("a"), ("tables", "d.t", "topic"), "no topic")
    assert "is no topic name" in [one.text for one in result(found).of(Outcome.BY_HAND)][-1]


def test_an_entry_without_a_finding_is_looked_up_by_exact_name_and_longest_prefix() -> None:
    known = KnownKeys({"a.": "short", "a.b.": "long", "a.b.c": "exact"})
    keys = {"A.b.c": "exact", "a.b.d": "long", "a.x": "short", "b": "not a key", "a.y": "empty"}
    found = Draft()
    found.account(((key, entry(key, "" if key == "a.y" else "x")) for key in keys), known)
    texts = {one.key: one.text for one in result(found).findings}
    assert all(texts[key].startswith(text) for key, text in keys.items())
