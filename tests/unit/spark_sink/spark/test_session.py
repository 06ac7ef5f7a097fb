"""The `spark-submit` options that the session refuses, and what is said of a JVM that has ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import spark_sink
from spark_sink.errors import BadSettings
from spark_sink.settings.required_conf import required
from spark_sink.spark import session
from spark_sink.spark.error_mapping import named
from spark_sink.text import secrets


def test_what_spark_submit_says_against_exactness_is_refused_by_name() -> None:
    given = SparkConf(loadDefaults=False)
    given.set("spark.sql.session.timeZone", "UTC").set("spark.sql.shuffle.partitions", "7")
    session.refuse_others(given, required("delta"))
    given.set("spark.sql.variable.substitute", "true")
    with pytest.raises(BadSettings, match=r"variable\.substitute is true, and must be false"):
        session.refuse_others(given, required("delta"))


PACKAGE = Path(spark_sink.__file__).parent
SUBSTITUTE = "spark.sql.variable.substitute"


@pytest.mark.spark
@pytest.mark.long("the test above has the rule; this starts three JVMs")
@pytest.mark.parametrize("by", ["--conf", "spark-defaults.conf", "PYSPARK_SUBMIT_ARGS"])
def test_substitution_of_variables_is_refused_wherever_it_is_asked_for(
    tmp_path: Path, by: str
) -> None:
    config, environment = tmp_path / "sink.yaml", dict(os.environ)
    config.write_text(
        f"prefix: aq\nbootstrap_servers: 127.0.0.1:1\nwarehouse: {tmp_path}/wh\nmetrics: {{port: 0}}\n"
    )
    home = Path(pyspark.__file__).parent
    environment |= {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PACKAGE.parent),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    if by == "--conf":
        command += ["--conf", f"{SUBSTITUTE}=true"]
    elif by == "spark-defaults.conf":
        (tmp_path / by).write_text(f"{SUBSTITUTE} true\n")
        environment["SPARK_CONF_DIR"] = str(tmp_path)
    if by == "PYSPARK_SUBMIT_ARGS":
        environment[by] = f"--conf {SUBSTITUTE}=true pyspark-shell"
        command = [sys.executable, "-m", "spark_sink"]
    else:
        command.append(str(PACKAGE / "__main__.py"))
    ended = subprocess.run(
        [*command, "--config", str(config)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    described = f"BadSettings: The settings cannot be used: {SUBSTITUTE} is true, and must be false"
    # Of a script, spark-submit prints both on its standard output.
    said = ended.stdout + ended.stderr
    assert described in said
    assert "Traceback" not in said


GOOD = "prefix: aq\nbootstrap_servers: x:1\n"
SUBMIT = """\
#!/bin/sh
printf '%s\\n' "$@" > "$SPARK_HOME/arguments"
env > "$SPARK_HOME/environment"
exit 1
"""
"""Replaces Spark's own script, which starts the JVM with the options that it is given."""


def started_with(folder: Path, options: str) -> tuple[str, str]:
    """With what the sink starts Spark by settings with these `spark_options`, and what it prints."""
    home = folder / "spark"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "bin/spark-submit").write_text(SUBMIT)
    (home / "bin/spark-submit").chmod(0o755)
    (folder / "jars").mkdir(exist_ok=True)
    (folder / "jars/delta.jar").touch()
    config = folder / "sink.yaml"
    config.write_text(
        f"{GOOD}warehouse: {folder}/wh\njars: {folder}/jars\nspark_options:\n{options}"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "spark_sink", "--config", str(config)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    seen = [home / name for name in ("arguments", "environment")]
    return "".join(one.read_text() for one in seen if one.exists()), ended.stderr


def test_no_value_from_a_file_or_with_a_secret_is_given_to_the_process(tmp_path: Path) -> None:
    names = ("spark.hadoop.any.name", "spark.sql.catalog.c.uri", "spark.hadoop.fs.s3a.access.key")
    options = ""
    for name in names:
        (tmp_path / name).write_text(f"of {name}\n")
        options += f"  {name}: {{file: {tmp_path / name}}}\n"
    (tmp_path / "short").write_text("abc")
    options += f"  spark.hadoop.short: {{file: {tmp_path / 'short'}}}\n"
    # A password that is part of the sink's own options takes none of them from the JVM.
    options += "  spark.hadoop.a.password: jars\n"
    options += "  spark.hadoop.fs.azure.account.key.acc: inline-1\n"
    options += "  spark.hadoop.fs.azure.sas.c.acc.blob: inline-2\n"
    options += "  spark.sql.catalog.d.uri: jdbc:mysql://u:inline-3@h/c\n"
    options += "  spark.sql.catalog.e.uri: jdbc:mysql://h/c?user=u&password=inline-4\n"
    options += "  spark.hadoop.fs.s3a.endpoint: https://minio.example:9000\n"
    given, _ = started_with(tmp_path, options)
    assert "spark.hadoop.fs.s3a.endpoint=https://minio.example:9000" in given
    assert "spark.driver.memory=1g" in given
    assert "jars/delta.jar" in given
    for name in names:
        assert f"of {name}" not in given
    assert "spark.hadoop.short" not in given
    assert "inline-" not in given


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.jars.repositories"])
def test_what_a_jvm_needs_for_its_start_is_refused_from_a_file_and_given_openly(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "value").write_text("-Dpassword=1234")
    given, printed = started_with(tmp_path, f"  {name}: {{file: {tmp_path / 'value'}}}\n")
    assert given == ""
    assert f"BadSettings: The settings cannot be used: {name} is from a file" in printed
    given, _ = started_with(tmp_path, f"  {name}: -Da.password=1234\n")
    assert f"{name}=-Da.password=1234" in given


@pytest.mark.spark
def test_a_secret_of_the_options_reaches_hadoop_and_no_command_line(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc.pid
    given = Path(f"/proc/{jvm}/cmdline").read_bytes()
    assert b"spark.driver.memory" in given
    for key, secret in (
        ("fs.s3a.secret.key", "a secret of all tests"),
        ("of.any.name", "the content of a file of all tests"),
    ):
        assert spark.sparkContext._jsc.hadoopConfiguration().get(key) == secret
        assert secret.encode() not in given
        assert secret.encode() not in Path(f"/proc/{jvm}/environ").read_bytes()


_FULL = """
import sys
from spark_sink.settings.model import Settings
from spark_sink.spark import session
from spark_sink.spark.error_mapping import named

given = {"prefix": "aq", "bootstrap_servers": "127.0.0.1:1", "warehouse": sys.argv[1]}
spark = session.start(Settings(**given, driver_memory=sys.argv[2]))
try:
    size = spark.sql("SELECT length(repeat('x', 400000000))")
    print("read", size.collect()[0][0])
except Exception as failure:
    print(named(failure))
finally:
    session.close(spark)
"""


@pytest.mark.spark
@pytest.mark.remedy("sink.MemoryExhausted")
def test_a_jvm_without_memory_is_one_error_and_does_what_was_asked_with_more(
    tmp_path: Path,
) -> None:
    def printed(memory: str) -> str:
        command = [sys.executable, "-c", _FULL, str(tmp_path), memory]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    found = printed("512m")
    assert "MemoryExhausted: Spark needs more memory than it has: the JVM has ended by an" in found
    assert "Raise driver_memory" in found
    assert "read 400000000" in printed("2g")


def test_the_jvms_own_log_hides_by_form_what_the_sinks_log_hides() -> None:
    layout = (PACKAGE / "log4j2.properties").read_text().replace("\\\\", "\\")
    for pattern in (secrets._USER_INFO.pattern, secrets._ASSIGNED.pattern):
        assert f"}}{{{pattern}}}{{" in layout
        assert not {"{", "}"} & set(pattern)


_LOGGED = """
import sys
from spark_sink.settings.model import Settings
from spark_sink.spark import session

given = {"prefix": "aq", "bootstrap_servers": "127.0.0.1:1", "warehouse": sys.argv[1]}
spark = session.start(Settings(**given, log={"file": sys.argv[2]}))
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("a.b")
log.error(sys.argv[3], spark._jvm.java.lang.RuntimeException(sys.argv[3]))
session.close(spark)
"""


@pytest.mark.spark
def test_the_jvms_own_log_has_no_password_of_an_address_or_after_a_secrets_name(
    tmp_path: Path,
) -> None:
    quoted = (
        "jdbc:mysql://root:hunter-1@db:3306/c root:hunter-7@broker:9092 "
        "jdbc:postgresql://h/d?user=u&password=hunter-2&ssl=1 "
        "username='u' password='hunter 3'; fs.s3a.session.token=hunter-4, "
        "fs.azure.account.key.acc.dfs=hunter-5 https://acc.blob/c?sv=1&sig=hunter-6&se=2"
    )
    log = tmp_path / "log"
    command = [sys.executable, "-c", _LOGGED, str(tmp_path / "wh"), str(log), quoted]
    subprocess.run(command, check=True, capture_output=True, text=True)
    text = Path(f"{log}.spark").read_text()
    # Once as the message, and once of the exception.
    assert (
        text.count("jdbc:mysql://***@db:3306/c ***@broker:9092 jdbc:postgresql://h/d?user=u&") == 2
    )
    assert "RuntimeException" in text
    assert "hunter" not in text


_ENDED = """
import os, signal, sys
from pyspark import SparkContext
from spark_sink.settings.model import Settings
from spark_sink.spark import session
from spark_sink.spark.error_mapping import named

given = {"prefix": "aq", "bootstrap_servers": "127.0.0.1:1", "warehouse": sys.argv[1]}
spark = session.start(Settings(**given))
os.kill(SparkContext._gateway.proc.pid, int(sys.argv[2]))
for act in (lambda: spark.range(3).collect(), lambda: spark.sql("SELECT 1")):
    try:
        act()
    except Exception as failure:
        print(named(failure))
session.close(spark)
"""


@pytest.mark.spark
def test_a_jvm_that_the_kernel_ends_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ENDED, str(tmp_path), str(int(signal.SIGKILL))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, second = printed.splitlines()
    assert first == second
    assert (
        "SparkFailed: Spark failed: the JVM was ended by SIGKILL. If the kernel's log says" in first
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (3, "MemoryExhausted: Spark needs more memory than it has: the JVM has ended by an Out"),
        (1, "SparkFailed: Spark failed: the JVM has ended with exit code 1"),
        (-15, "SparkFailed: Spark failed: the JVM was ended by signal 15"),
        (None, "SparkFailed: Spark failed: An error occurred while calling o1.isActive"),
    ],
)
@pytest.mark.parametrize(
    "failure",
    [
        Py4JError("An error occurred while calling o1.isActive"),
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        EOFError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_whatever_a_jvm_that_has_ended_does_not_answer_is_one_error(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, code: int | None, said: str
) -> None:
    def wait(seconds: float) -> int:
        if code is None:
            raise subprocess.TimeoutExpired("java", seconds)
        return code

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(wait=wait)))
    found = str(named(failure))
    if code is not None or "isActive" in str(failure):
        assert found.startswith(said)
    else:
        assert "the JVM" not in found
