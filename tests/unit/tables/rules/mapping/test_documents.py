from __future__ import annotations

import hashlib
import pickle

import pytest

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_documents, from_json, from_yaml, to_json, to_yaml
from tables.rules.mapping.mapping import Difference, differences
from tables.rules.mapping.rules import Tag

SEED = {
    "com.pajk.Roma.dbs/ROMA_GROUP": '[{"logicDb":"logicDb1","realDbs":"realDb11,realDb12"},'
    '{"logicDb":"logicDb2","realDbs":"realDb21,realDb22"}]',
    "com.pajk.Roma.tbs/ROMA_GROUP": '[{"logicTb":"logicTb1","realTbs":"realTb11,realTb12"},'
    '{"logicTb":"logicTb2","realTbs":"realTb21,realTb22"}]',
    "com.pajk.Roma.topics/ROMA_GROUP": '[{"logicDb":"logicDb1","topic":"topic1"},'
    '{"logicDb":"logicDb2","topic":"topic2"}]',
    "com.pajk.Roma.tags/ROMA_GROUP": '[{"logicTb":"logicTb1,field1","tag":"tag1,f1"},'
    '{"logicTb":"logicTb2","tag":"tag2"}]',
}


def test_the_documents_of_roma_load_unchanged() -> None:
    found = from_documents(SEED).of(("REALDB12", "realTb11"))
    assert found is not None
    assert found.logical == ("logicDb1", "logicTb1")
    assert found.topic == "topic1"
    assert found.tags == (Tag(name="f1", column="field1"), Tag(name="tag1"))
    assert from_documents(SEED).of(("other", "other")) is None


def test_yaml_pickle_and_another_order_make_the_same_mapping() -> None:
    mapping = from_documents(SEED)
    for other in (
        from_yaml(to_yaml(mapping)),
        from_json(to_json(mapping)),
        pickle.loads(pickle.dumps(mapping)),
        from_documents(dict(reversed(SEED.items()))),
    ):
        assert other == mapping
        assert other.digest == mapping.digest


@pytest.mark.parametrize(
    ("data_id", "text", "fault"),
    [
        ("x.dbs", '[{"logicDb":1}', "line 1, column 15"),
        ("x.dbs", '[{"logicDb":"a","realDbs":"b"},{"logicDb":"c","realDbs":"B"}]', "a and to d"),
        ("x.dbs", '[{"logicDb":"a","realDbs":"b,b"}]', "listed twice"),
        ("x.dbs", '[{"logicDb":"a","realDbs":"b,"}]', "empty"),
        ("x.tbs", '[{"logicTb":"a","realTbs":"(b"}]', "not a regular expression"),
        ("x.topics", '[{"logicDb":"a","topic":"t"},{"logicDb":"b","topic":"t"}]', "one topic"),
        ("x.topics", '[{"logicDb":"a","topic":"t.t"},{"logicDb":"b","topic":"t_t"}]', "collide"),
        ("x.topics", '[{"logicDb":"a","topic":"__t"}]', "reserved"),
        ("x.tags", '[{"logicTb":"a,b","tag":"t"}]', "as many"),
        ("x.nothing", "[]", "no data id"),
    ],
)
def test_faults_are_named(data_id: str, text: str, fault: str) -> None:
    with pytest.raises(MappingError, match=fault.replace("(", r"\(")):
        from_documents({data_id: text})


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("{row_filter: 'sleep(1) > 0'}", "not allowed"),
        ("{key: [a], column_actions: {A: redact}}", "after redact different rows"),
        ("{key: [a], column_actions: {a: drop}}", "after drop different rows"),
        ("{partition_by: [a], column_actions: {A: drop}}", "which drop hides"),
        ("{column_actions: {a: {truncate: 0}}}", "length from 1"),
        ("{column_actions: {a: hmac}}", "needs an argument"),
        ("{column_actions: {a: {hmac: 7}}}", "needs the id of a key"),
        ("{column_actions: {a: {hmac: k, domain: 7}}}", "domain is a name, beside hmac"),
        ("{column_actions: {a: {hmac: k, domain: ''}}}", "domain is a name, beside hmac"),
        ("{column_actions: {a: {truncate: 7, domain: d}}}", "domain is a name, beside hmac"),
        ("{column_actions: {a: {domain: d}}}", "domain is a name, beside hmac"),
        ("{column_actions: {a: {hmac: k, redact: d}}}", "choose one of"),
        ("{column_actions: {a: [hmac]}}", "choose one of"),
        ("{column_actions: {a: redact, A: drop}}", "A, a: MySQL takes these for one column"),
        ("{columns: [a, A]}", "lists a name twice"),
        ("{key: [a, A]}", "lists a name twice"),
        ("{partition_by: [a, A]}", "lists a name twice"),
        (
            "{column_actions: {a: redact}}, X: {tags: {'': t}}",
            "X: is x, which has an entry already",
        ),
        ("{colour: red}", "unknown"),
        ("{topic: a, topic: b}", "repeated"),
        ("{from: []}", "not empty"),
        ("{from: }", "from must be a list"),
        ("{topic: }", "topic must be a text"),
        ("{share_topic: 1}", "share_topic must be true or false"),
        (
            "{format: protobuf}",
            "'protobuf' is unknown; choose from debezium, canal, connect, maxwell, avro",
        ),
        ("{columns: [a], key: [b]}", "columns omits b"),
        ("{column_actions: {a: {rename: c}, b: {rename: C}}}", "would have the name 'c'"),
        ("{columns: [b, c], column_actions: {b: {rename: c}}}", "would have the name 'c'"),
        ("{tags: {a: f}, tag_topics: [f, g]}", "tag_topics lists 'g', .*f"),
        ("{partitions: 2, repartition_from: 2}", "only get more partitions"),
        ("{repartition_from: 2}", "partitions is missing"),
        ("{truncates: leave}", "'leave' is unknown; choose from record, omit, deletes"),
        (
            "{truncates: record, operations: [insert]}",
            "a TRUNCATE is a delete, which operations omits",
        ),
        (
            "{truncates: deletes, operations: [update]}",
            "a TRUNCATE is a delete, which operations omits",
        ),
        ("{truncates: omit, on_drop: delete}", "omits that record too"),
        ("{tag_topics: [g]}", "table x: tag_topics lists 'g', .*it has none"),
        ("{from: [o]}, t.y: {from: [O]}", "'o' belongs to table t.y and to table x"),
    ],
)
def test_faults_of_yaml_are_named(entry: str, fault: str) -> None:
    with pytest.raises(MappingError, match=fault):
        from_yaml(f"tables: {{x: {entry}}}")


def test_a_logical_database_has_one_entry_whatever_its_case() -> None:
    with pytest.raises(MappingError, match="is trade, which has an entry already"):
        from_yaml("databases: {trade: {from: [a], format: avro}, Trade: {topic: t}}")


def test_equal_patterns_of_two_logical_databases_are_not_one_rule() -> None:
    mapping = from_yaml(
        "{databases: {t: {from: [t1]}, u: {from: [u1]}},"
        " tables: {t.x: {from: ['o_.*']}, u.x: {from: ['o_.*']}}}"
    )
    for database in "tu":
        found = mapping.of((f"{database}1", "o_1"))
        assert found is not None
        assert found.logical == (database, "x")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (
            "{tables: {a.x: {topic: t, share_topic: true, format: canal}, a.y: {topic: t, share_topic: true}}}",
            "canal by table a.x and debezium by table a.y",
        ),
        (
            "{databases: {a: {topic: t}}, tables: {a.x: {format: maxwell}}}",
            "debezium by database a and maxwell by table a.x",
        ),
        (
            "{databases: {a: {topic: t, format: canal}}, tables: {a.x: {format: maxwell}, a.y: {}}}",
            "canal by database a and maxwell by table a.x",
        ),
        (
            "{databases: {a: {topic: t, share_topic: true, format: canal}, b: {topic: t, share_topic: true}}}",
            "canal by database a and debezium by database b",
        ),
        (
            "{databases: {a: {format: canal}, b: {format: maxwell}}, tables: {x: {topic: t}}}",
            "canal by table x in database a and maxwell by table x in database b",
        ),
        (
            (
                "{databases: {a: {from: [r_1], format: canal}, b: {from: ['r_[2-3]']}},"
                " tables: {x: {from: [r_1.x, R_2.x], topic: t}}}"
            ),
            "canal by table x in database a and debezium by table x in database b",
        ),
        (
            (
                "{databases: {a: {topic: t, share_topic: true}, b: {format: canal}},"
                " tables: {x: {from: ['b.x'], topic: t, share_topic: true}}}"
            ),
            "debezium by database a and canal by table x in database b",
        ),
    ],
)
def test_tables_of_one_topic_have_one_format(text: str, rules: str) -> None:
    with pytest.raises(MappingError) as error:
        from_yaml(text)
    (fault,) = error.value.faults
    assert fault == f"topic 't' has the formats {rules}; give them one format"


@pytest.mark.parametrize(
    "text",
    [
        "{databases: {a: {format: canal}, b: {}}, tables: {x: {topic: t, format: canal}}}",
        "{databases: {a: {format: canal}, b: {format: canal}}, tables: {x: {topic: t}}}",
        "{databases: {a: {format: canal}, b: {from: [r_2]}}, tables: {x: {from: [r_1.x, a.x], topic: t}}}",
        "{databases: {a: {format: canal}, b: {}}, tables: {x: {}}}",
    ],
)
def test_a_rule_of_any_database_has_one_format_in_its_topic(text: str) -> None:
    assert from_yaml(text)


def test_a_table_of_a_database_that_is_not_listed_gives_its_topic_no_second_format() -> None:
    mapping = from_yaml("{databases: {a: {format: canal}}, tables: {x: {topic: t}, y: {}}}")
    of_listed = mapping.of(("a", "x"))
    assert of_listed is not None
    assert of_listed.format == "canal"
    with pytest.raises(
        MappingError, match="table x of database other has the format debezium"
    ) as error:
        mapping.of(("other", "x"))
    assert "table x in database a gives canal" in str(error.value)
    own = mapping.of(("other", "y"))
    assert own is not None
    assert own.format == "debezium"


def test_the_format_of_a_database_survives_yaml_and_other_rules_are_no_keys_of_it() -> None:
    mapping = from_yaml("{databases: {a: {format: canal}}, tables: {a.x: {format: maxwell}}}")
    assert from_yaml(to_yaml(mapping)) == from_json(to_json(mapping)) == mapping
    assert mapping.digest != from_yaml("{databases: {a: {}}, tables: {a.x: {}}}").digest
    with pytest.raises(MappingError, match="'key' is unknown"):
        from_yaml("{databases: {a: {key: [b]}}}")


def test_rules_survive_yaml() -> None:
    mapping = from_yaml(
        "tables: {t.x: {from: ['s_[0-63].x'], row_filter: a > 0, key: [a], partitions: 3,"
        " column_actions: {b: {hmac: k1}, c: {truncate: 4}, d: redact, e: {redact: x},"
        " f: {hmac: k1, domain: mail}}, truncates: omit}}"
    )
    assert from_yaml(to_yaml(mapping)) == from_json(to_json(mapping)) == mapping
    assert mapping.of(("s_63", "x")) is not None
    assert mapping.of(("s_64", "x")) is None


def test_a_digest_is_of_what_is_stated_so_that_a_later_rule_changes_none() -> None:
    mapping = from_yaml("tables: {t.x: {topic: x, key: [a], tags: {a: f}}}")
    stated = (
        "(LogicalTable(name='x', database='t', topic='x', tags=(Tag(name='f', column='a'),), "
        "rules=Rules(key=('a',))),)"
    )
    assert mapping.digest == hashlib.sha256(f"()\0{stated}".encode()).hexdigest()
    assert mapping.digest != from_yaml("tables: {t.x: {topic: x, key: [a]}}").digest


def test_the_more_specific_name_wins_and_equal_ranks_are_refused() -> None:
    mapping = from_yaml("tables: {a: {from: ['o_.*']}, b: {from: [o_1]}, c: {from: ['o_2+']}}")
    found = mapping.of(("d", "o_1"))
    assert found is not None
    assert found.logical == ("d", "b")
    with pytest.raises(MappingError, match=r"o_\.\*.* of a and .*o_2\+.* of c"):
        mapping.of(("d", "o_2"))


def test_differences_are_values() -> None:
    old = from_yaml("tables: {a: {topic: t}, b: {}}")
    new = from_yaml("tables: {a: {topic: u}, c: {}}")
    assert differences(old, new) == (
        Difference(kind="table", name="a", change="changed", parts=("topic",)),
        Difference(kind="table", name="b", change="removed"),
        Difference(kind="table", name="c", change="added"),
    )
