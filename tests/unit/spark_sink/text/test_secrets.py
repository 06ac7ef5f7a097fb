"""No secret of the settings is in an error or in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spark_sink.errors import BadSettings, WarehouseUnusable
from spark_sink.settings import model as settings
from spark_sink.settings.model import Log
from spark_sink.spark import log
from spark_sink.text.secrets import hidden, is_secret

GOOD = "prefix: aq\nbootstrap_servers: x:1\nwarehouse: /w\n"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("jdbc:mysql://root:hunter2@db:3306/c failed", "jdbc:mysql://***@db:3306/c failed"),
        ("s3a://AKIA:x+y@lake/w: no such bucket", "s3a://***@lake/w: no such bucket"),
        ("cannot resolve root:hunter2@broker:9092", "cannot resolve ***@broker:9092"),
        (
            "jdbc:postgresql://h/d?user=u&password=hunter2&ssl=1",
            "jdbc:postgresql://h/d?user=u&password=***&ssl=1",
        ),
        ('required username="u" password="a b";', 'required username="u" password=***;'),
        ("fs.s3a.session.token=abc, endpoint=e", "fs.s3a.session.token=***, endpoint=e"),
        # What is no secret stays whole.
        (
            "abfss://container@account.dfs.core.windows.net/w",
            "abfss://container@account.dfs.core.windows.net/w",
        ),
        (
            "thrift://h:9083 at 12:30:01, 'aqueduct'@'%'",
            "thrift://h:9083 at 12:30:01, 'aqueduct'@'%'",
        ),
        ("check the password: it may be wrong", "check the password: it may be wrong"),
    ],
)
def test_what_a_driver_quotes_of_an_address_is_hidden(text: str, without: str) -> None:
    assert hidden(text) == without


def test_keys_of_secrets_are_those_of_spark_kafka_hadoop_and_catalogs() -> None:
    secret = (
        "spark.hadoop.fs.s3a.secret.key spark.hadoop.fs.s3a.access.key spark.hadoop.fs.s3a.session.token "
        "ssl.keystore.password sasl.jaas.config jdbc.password s3.secret-access-key s3.access-key-id token "
        "credential fs.azure.account.key.acc.dfs.core.windows.net fs.azure.sas.c.acc.blob.core.windows.net "
        "fs.azure.client-provided-key adls.auth.shared-key.account.key gcs.encryption-key gcs.decryption-key "
        "fs.gs.auth.service.account.private.key fs.gs.auth.service.account.private.key.id "
        "fs.s3a.encryption.key s3.sse.key ssl.keystore.key header.Authorization"
    )
    assert [key for key in secret.split() if not is_secret(key)] == []
    plain = (
        "fs.s3a.endpoint ssl.keystore.location uri io-impl fs.s3a.aws.credentials.provider s3.sse.type "
        "fs.azure.account.keyprovider.acc fs.azure.account.auth.type hadoop.security.authorization "
        "fs.gs.auth.service.account.json.keyfile fs.s3a.encryption.algorithm"
    )
    assert [key for key in plain.split() if is_secret(key)] == []


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_secret_is_read_from_its_file_and_in_no_line(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("0mY-secret\n")
    file = tmp_path / "sink.yaml"
    file.write_text(
        f"{GOOD}kafka_options: {{ssl.key.password: 0penly-given}}\n"
        f"spark_options: {{spark.hadoop.fs.s3a.secret.key: {{file: {secret}}}}}\n"
    )
    read = settings.read(file)
    assert read.spark_options == {"spark.hadoop.fs.s3a.secret.key": "0mY-secret"}
    quoted = "refused '0mY-secret' and 0penly-given"
    log.configure(Log(file=tmp_path / "log"))
    try:
        raise WarehouseUnusable(quoted) from ValueError(quoted)
    except WarehouseUnusable as error:
        logging.getLogger("spark_sink").exception("%s", quoted)
        text = str(error) + (tmp_path / "log").read_text()
    assert "refused '***' and ***" in text
    assert "0mY" not in text
    assert "0penly" not in text


def test_a_password_inside_a_value_is_hidden_where_it_is_quoted_alone(tmp_path: Path) -> None:
    file, key = tmp_path / "sink.yaml", tmp_path / "key"
    key.write_text("jdbc:mysql://h/c?password=in-a-file")
    file.write_text(
        f"{GOOD}format: iceberg\ncatalog: {{type: jdbc, name: c, uri: 'jdbc:mysql://u:hunter%402@h/c'}}\n"
        f"spark_options: {{spark.sql.catalog.d.uri: {{file: {key}}}, "
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net: an-azure-key}\n"
        "load: {options: {trustCertificateKeyStorePassword: of-the-store}, "
        "destinations: {d: {options: {clientCertificateKeyStorePassword: of-a-client}}}}\n"
    )
    settings.read(file)
    for secret in (
        "hunter%402",
        "hunter@2",
        "in-a-file",
        "an-azure-key",
        "of-the-store",
        "of-a-client",
    ):
        assert hidden(f"'{secret}' was refused") == "'***' was refused"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "kafka_options: {a: {file: /absent/key}}",
            "kafka_options.a: Value error, file /absent/key: No such file",
        ),
        (
            "catalog: {type: jdbc, name: c, uri: {file: /}}\nformat: iceberg",
            "file /: Is a directory",
        ),
        (
            "bootstrap_servers: u:hunter2@x:1",
            "bootstrap_servers: Value error, an address is without user",
        ),
        (
            "warehouse: s3a://AKIA:hunter2@lake/w",
            "warehouse: Value error, an address is without credentials",
        ),
    ],
)
def test_a_secret_in_the_wrong_place_or_an_absent_file_is_refused(
    tmp_path: Path, line: str, fault: str
) -> None:
    file = tmp_path / "sink.yaml"
    kept = [given for given in GOOD.splitlines() if given.split(":")[0] not in line.split(":")[0]]
    file.write_text("\n".join([*kept, line]) + "\n")
    with pytest.raises(BadSettings, match=fault.replace(".", r"\.")) as refused:
        settings.read(file)
    assert "hunter2" not in str(refused.value)
