"""The options of a JVM that has an archive of its classes, and of one that has not."""

from __future__ import annotations

from pathlib import Path

from spark_sink.spark.session import archive_options


def test_an_archive_beside_the_jars_is_used(tmp_path: Path) -> None:
    jars = tmp_path / "spark"
    jars.mkdir()
    assert archive_options(jars) == []

    (tmp_path / "kafka-1.jsa").touch()
    assert archive_options(jars) == []

    archive = tmp_path / "spark-1.jsa"
    archive.touch()
    used, *silent = archive_options(jars)
    assert used == f"-XX:SharedArchiveFile={archive}"
    # A JVM that cannot use it must not say so on the console.
    assert all(one.startswith("-Xlog:cds") and one.endswith("=off") for one in silent)
    assert silent
