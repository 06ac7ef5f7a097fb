"""Records whose rows were too large for the topic: fetched, or refused by name."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import ClaimLost, ClaimStoreUnreachable, MalformedRecord
from spark_sink.source.claims import Claim, _unreachable, path_of
from spark_sink.warehouse.coverage import Step
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LARGE = "x" * 100_000


def claimed(store: Path, change: Change, *, day: str = "2026-11-21") -> Change:
    """A change whose images are in a store, as a worker publishes it."""
    value = json.dumps({"before": change.before, "after": change.after}).encode()
    digest = hashlib.sha256(value).hexdigest()
    file = store / "aq.shop.t" / day / f"{digest}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(value)
    described = {"location": file.as_uri(), "size": len(value), "sha256": digest}
    return Change(op=change.op, seq=change.seq, more={"claim_check": described})


def by_id(warehouse: Warehouse) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in warehouse.rows()}


def test_a_claimed_row_is_fetched_and_takes_its_place_among_the_others(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    store = tmp_path / "claims [1] 100%"
    large = Change(op="c", seq=2, after={"id": 2, "v": LARGE})
    update = Change(op="u", seq=3, before={"id": 1, "v": "first"}, after={"id": 1, "v": "second"})
    warehouse.take(
        Change(op="c", seq=1, after={"id": 1, "v": "first"}),
        claimed(store, large),
        claimed(store, update),
        Change(op="u", seq=4, before={"id": 1, "v": "second"}, after={"id": 1, "v": "last"}),
    )
    found = by_id(warehouse)
    assert found.keys() == {1, 2}
    assert found[1] == "last"
    assert found[2] == LARGE


def test_the_same_images_of_two_days_are_two_rows_of_a_table_without_a_key(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("v", "longtext"), key=())]
    changes = [Change(op="c", seq=seq, after={"v": "same"}) for seq in (1, 2, 3)]
    warehouse.take(
        claimed(tmp_path, changes[0], day="2026-11-20"),
        *(claimed(tmp_path, change) for change in changes[1:]),
    )
    assert [row["v"] for row in warehouse.rows()] == ["same"] * 3


def test_a_table_waits_for_images_that_do_not_fit_their_record(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    pointer = claimed(tmp_path, Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    with pytest.raises(MalformedRecord, match="do not fit op"):
        warehouse.take(Change(op="d", seq=1, more=pointer.more))


@pytest.mark.remedy("sink.ClaimStoreUnreachable")
def test_a_bucket_that_this_spark_cannot_read_is_reported_with_what_it_takes(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    pointer = claimed(tmp_path, Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    described = (pointer.more or {})["claim_check"]
    file = Path(described["location"].removeprefix("file://"))
    name = "/".join(file.parts[-3:])
    elsewhere = Change(
        op="c", seq=1, more={"claim_check": {**described, "location": f"s3://bucket/claims/{name}"}}
    )
    with pytest.raises(ClaimStoreUnreachable, match=r"s3a://bucket/claims/.*hadoop-aws.*endpoint"):
        warehouse.take(elsewhere)
    # A copy that it can read will do.
    warehouse.applier.claim_checks = str(tmp_path)
    warehouse.take(elsewhere)
    assert by_id(warehouse) == {1: "a"}


@pytest.mark.remedy("sink.ClaimLost")
def test_a_store_may_be_elsewhere_for_the_sink(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    pointer = claimed(tmp_path / "worker", Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    (tmp_path / "worker").rename(tmp_path / "sink")
    with pytest.raises(ClaimLost, match=r"claim_checks.*reload shop.t;.*reload shop.t --skip"):
        warehouse.take(pointer)
    with pytest.raises(ClaimLost, match=r"1 record\(s\) not replaced"):
        warehouse.reload()
    warehouse.applier.claim_checks = str(tmp_path / "sink")
    warehouse.reload()
    assert by_id(warehouse) == {1: "a"}


def lose(pointer: Change) -> Path:
    """Moves the object of a claim away; returns where it belongs."""
    file = Path((pointer.more or {})["claim_check"]["location"].removeprefix("file://"))
    file.rename(file.with_suffix(".away"))
    return file


def damage(pointer: Change) -> None:
    """Changes the object of a claim."""
    file = Path((pointer.more or {})["claim_check"]["location"].removeprefix("file://"))
    file.write_bytes(file.read_bytes().replace(b"large", b"wrong"))


def test_an_object_that_is_lost_or_damaged_concerns_the_table_that_claims_it_alone(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    tables = ("t", "u", "other")
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"), table=one) for one in tables]
    pointers = {
        table: replace(
            claimed(tmp_path, Change(op="c", seq=seq, after={"id": 1, "v": f"large {table}"})),
            table=table,
        )
        for seq, table in enumerate(tables, 1)
    }
    file = lose(pointers["t"])
    damage(pointers["u"])
    start = warehouse.ends()
    for table, pointer in pointers.items():
        warehouse.write(pointer, key='{"id": 1}')
        warehouse.write(Change(op="c", seq=9, table=table, after={"id": 2, "v": "small"}))
    warehouse.catch_up(start)
    held = {table: warehouse.waiting(table) for table in tables}
    assert [one and one.error for one in held.values()] == ["ClaimLost", "MalformedRecord", None]
    assert {row["id"]: row["v"] for row in warehouse.rows("other")} == {
        1: "large other",
        2: "small",
    }
    lost, damaged = held["t"], held["u"]
    assert lost is not None
    assert damaged is not None
    assert re.search(
        rf"partition 0, offset 0: .*not in the claim store: file://{file}", lost.reason
    )
    assert re.search(r"offset 2: .*not the one that was stored: file://", damaged.reason)
    # They wait, batch after batch, and after a restart.
    warehouse.restart()
    warehouse.take(Change(op="c", seq=10, table="other", after={"id": 3, "v": "small"}))
    for table in ("t", "u"):
        with pytest.raises((ClaimLost, MalformedRecord), match="--skip-unusable"):
            warehouse.reload(table)
    file.with_suffix(".away").rename(file)
    warehouse.reload("t")
    assert by_id(warehouse) == {1: "large t", 2: "small"}
    warehouse.reload("u", skip_unusable=True)
    assert {row["id"]: row["v"] for row in warehouse.rows("u")} == {2: "small"}


def test_all_changes_of_a_table_whose_objects_are_gone_for_good_can_be_skipped(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    start = warehouse.ends()
    for seq in (1, 2, 3):
        image = {"id": seq, "v": f"large {seq}"}
        pointer = claimed(tmp_path, Change(op="c", seq=seq, after=image))
        warehouse.write(pointer, key=json.dumps({"id": seq}))
        if seq != 2:
            lose(pointer)
    warehouse.catch_up(start)
    assert warehouse.waiting() is not None
    warehouse.reload(skip_unusable=True)
    assert by_id(warehouse) == {2: "large 2"}
    assert warehouse.waiting() is None


def test_a_damaged_object_makes_a_dead_letter_and_a_lost_one_does_not_as_it_may_come_back(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"), table=one) for one in ("t", "u")]
    warehouse.unusable_limit = 5
    warehouse.restart()
    changes = [
        claimed(tmp_path, Change(op="c", seq=seq, after={"id": seq, "v": f"large {seq}"}))
        for seq in (1, 2, 3)
    ]
    damage(changes[0])
    lose(changes[2])
    start = warehouse.ends()
    for change in (changes[0], changes[1], replace(changes[2], table="u")):
        warehouse.write(change)
    warehouse.catch_up(start)
    assert warehouse.waiting() is None
    assert by_id(warehouse) == {2: "large 2"}
    assert warehouse.kept.letters.within({TOPIC: 0}, {TOPIC: 3}) == {(*TOPIC, 0)}
    held = warehouse.waiting("u")
    assert held is not None
    assert held.error == "ClaimLost"
    lose_back = next(tmp_path.rglob("*.away"))
    lose_back.rename(lose_back.with_suffix(".json"))
    warehouse.reload("u")
    assert {row["id"]: row["v"] for row in warehouse.rows("u")} == {3: "large 3"}


def test_readers_of_recent_changes_see_a_table_without_them_while_an_object_is_lost(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    pointer = claimed(tmp_path, Change(op="c", seq=2, after={"id": 2, "v": "large"}))
    file = lose(pointer)
    start = warehouse.ends()
    warehouse.write(pointer)
    warehouse.store(start, Step.BEGIN)
    assert [row["id"] for row in warehouse.fresh()] == [1]
    file.with_suffix(".away").rename(file)
    assert {row["id"]: row["v"] for row in warehouse.fresh()} == {1: "a", 2: "large"}
    damage(pointer)
    assert [row["id"] for row in warehouse.fresh()] == [1]


def test_an_object_that_may_not_be_read_is_as_one_that_is_lost(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    pointer = claimed(tmp_path, Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    file = lose(pointer)
    # A folder has no content, as a file that may not be read; the latter root could read.
    file.mkdir()
    with pytest.raises(ClaimLost, match="not in the claim store"):
        warehouse.take(pointer)


@pytest.mark.remedy("sink.RowNotInRecord")
def test_a_row_that_was_omitted_makes_its_table_wait_until_it_is_written_again(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "longtext"))]
    warehouse.write(Change(op="c", seq=1, after={"id": 1, "v": "a"}))
    omitted = Change(op="c", seq=2, more={"left_out": {"after": 21_000_000}})
    warehouse.write(omitted, key='{"id": 2}')
    warehouse.catch_up({})
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "RowNotInRecord"
    assert re.search(r"partition 0, offset 1.*after", held.reason)
    warehouse.take(Change(op="u", seq=3, before={"id": 2}, after={"id": 2, "v": "b"}))
    warehouse.reload()
    assert by_id(warehouse) == {1: "a", 2: "b"}


@pytest.mark.parametrize(
    ("location", "store", "path"),
    [
        ("file:///c/a%20b/t/d/x.json", "", "file:///c/a b/t/d/x.json"),
        ("file:///c/t/d/x.json", "s3a://bucket/claims/", "s3a://bucket/claims/t/d/x.json"),
        ("s3a://bucket/t/d/x.json", "", "s3a://bucket/t/d/x.json"),
        ("s3://bucket/p/t/d/x.json", "", "s3a://bucket/p/t/d/x.json"),
        ("s3://bucket/p/t/d/x.json", "/mnt/claims", "/mnt/claims/t/d/x.json"),
        ("file:///c/t/d/x.json", "s3://bucket/claims/", "s3a://bucket/claims/t/d/x.json"),
        ("s3://bucket/p/t/d/x.json", "s3://copy", "s3a://copy/t/d/x.json"),
    ],
)
def test_the_path_of_a_claim(location: str, store: str, path: str) -> None:
    assert path_of(Claim(location, 1, "x"), store) == path


THROWN = "An error occurred while calling o80.load.\n: "
FRAMES = (
    "\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:265)\n"
    "\tat org.apache.hadoop.fs.s3a.S3AFileSystem.s3GetFileStatus(S3AFileSystem.java:4014)\n"
    "\tat org.apache.hadoop.fs.s3a.S3AFileSystem.getFileStatus(S3AFileSystem.java:3846)\n"
)
ASKED = "s3a://claims/t/d/x.json: getFileStatus on s3a://claims/t/d/x.json"
NOT_FOUND = "java.lang.RuntimeException: java.lang.ClassNotFoundException"
OF_THE_SDK = "software.amazon.awssdk.core.exception.SdkClientException"


@pytest.mark.parametrize(
    ("thrown", "cause"),
    [
        (
            f"java.nio.file.AccessDeniedException: {ASKED}: S3Exception: null",
            "software.amazon.awssdk.services.s3.model.S3Exception: Forbidden (Service: S3, Status Code: 403)",
        ),
        (
            f"java.nio.file.AccessDeniedException: {ASKED}: NoAuthWithAWSException: No AWS Credentials",
            f"{OF_THE_SDK}: Unable to load credentials from system settings.",
        ),
        (
            f"java.net.UnknownHostException: {ASKED}: {OF_THE_SDK}: Received an UnknownHostException",
            "java.net.UnknownHostException: minio.example: Name or service not known",
        ),
        (
            "java.lang.RuntimeException: from option fs.s3a.aws.credentials.provider",
            "java.lang.ClassNotFoundException: Class software.amazon.awssdk.Mistyped not found",
        ),
    ],
)
def test_why_a_bucket_cannot_be_read_is_reported_and_not_that_there_is_no_file_system(
    thrown: str, cause: str
) -> None:
    between = f"Caused by: {OF_THE_SDK}: somewhere on the way\n{FRAMES}\t... 17 more\n"
    said = f"{THROWN}{thrown}\n{FRAMES}{between}Caused by: {cause}\n{FRAMES}\t... 30 more\n"
    described = str(_unreachable(said, "s3a://claims/t/d/x.json"))
    assert thrown in described
    assert cause in described
    assert "on the way" not in described
    assert "S3AFileSystem" not in described
    assert "no file system" not in described
    assert "fs.s3a.endpoint and the credentials" in described


@pytest.mark.parametrize(
    "thrown",
    [
        f"{NOT_FOUND}: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3a"',
        "java.lang.NoClassDefFoundError: software/amazon/awssdk/services/s3/model/S3Exception",
    ],
)
def test_a_jar_that_is_missing_is_reported_with_what_to_add(thrown: str) -> None:
    described = str(_unreachable(f"{THROWN}{thrown}\n{FRAMES}", "s3a://claims/t/d/x.json"))
    assert "no file system for buckets" in described
    assert "hadoop-aws" in described


def test_another_file_system_that_is_missing_is_reported_in_javas_words() -> None:
    thrown = 'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"'
    described = str(
        _unreachable(f"{THROWN}{thrown}\n\tat a.b(C.java:1)\n", "gs://claims/t/d/x.json")
    )
    assert thrown in described
    assert "a.b(" not in described
    assert "set claim_checks" in described
