"""All keys of Debezium's connectors for MySQL and MariaDB, each with what Aqueduct does instead.

Source: the connectors' documented properties, with the names of Debezium 1.x that 2.0 renamed. A name that
ends with a dot is a prefix.
"""

from __future__ import annotations

from app.migrate.draft import KnownKeys

_SNAPSHOT = (
    "existing rows are read without a lock while the stream continues, within the source's load: "
    "docs/snapshots.md"
)
_HISTORY = (
    "the schema history is kept in the journal topic, in the Kafka transaction that has the rows"
)
_SIGNALS = (
    "signals are rows of snapshot.signal_table, or commands of `python -m app`; there is no topic"
)
_HEARTBEAT = "the cursor is committed for transactions of other tables too; heartbeat_seconds checks the stream"
_BATCHES = (
    "records are grouped into Kafka transactions by publish.interval_ms and publish.max_bytes"
)
_BUFFERS = "what is read and not yet published is bounded by Aqueduct itself"
_CONNECT = "Aqueduct is a program of its own, without Kafka Connect"
_RETRIES = "errors that can pass are retried with growing pauses, up to 30 s, without a limit"
_KEYSTORE = "certificates are PEM files: source.tls_ca"
_VALUES = "the format connect writes values as the connector does: docs/formats.md"
_SCHEMAS = "table definitions are on the schemas topic, one for each version"
_SOCKETS = "heartbeat_seconds detects a silent connection"
_TOPICS = "row_topics names the topics of rows"
_GTIDS = "the whole GTID set is tracked; a standby must have what was published: docs/failover.md"
_STATUS = "state and metrics are on /status and /metrics"
_FILTER = "filter.include and filter.black"
_COLUMNS = "a mapping has rules for columns"

_VALUE = "the format connect writes records as the JSON converter does: docs/formats.md"
KNOWN = KnownKeys(
    {
        "name": "the destination's name",
        "connector.class": "MySQL and MariaDB are recognized by the server itself",
        "tasks.max": "decoders is the number of processes that decode a destination",
        "topic.prefix": "prefix",
        "database.server.name": "prefix",
        "database.hostname": "source.host",
        "database.port": "source.port",
        "database.user": "source.user",
        "database.password": "source.password_file",
        "database.server.id": "server_id",
        "database.server.id.offset": "there is no second connection that needs a server id",
        "database.ssl.mode": "source.tls",
        "database.ssl.": _KEYSTORE,
        "database.include.list": _FILTER,
        "database.exclude.list": _FILTER,
        "database.whitelist": _FILTER,
        "database.blacklist": _FILTER,
        "table.include.list": _FILTER,
        "table.exclude.list": _FILTER,
        "table.whitelist": _FILTER,
        "table.blacklist": _FILTER,
        "table.ignore.builtin": "system databases are captured only if an expression begins with their name",
        "column.include.list": _COLUMNS,
        "column.exclude.list": _COLUMNS,
        "column.whitelist": _COLUMNS,
        "column.blacklist": _COLUMNS,
        "column.mask.": _COLUMNS,
        "column.truncate.": _COLUMNS,
        "column.propagate.source.type": _SCHEMAS,
        "datatype.propagate.source.type": _SCHEMAS,
        "message.key.columns": "a mapping has the key of a table",
        "snapshot.": _SNAPSHOT,
        "incremental.snapshot.": _SNAPSHOT,
        "read.only": _SNAPSHOT,
        "streaming.delay.ms": _SNAPSHOT,
        "min.row.count.to.stream.results": _SNAPSHOT,
        "query.fetch.size": _SNAPSHOT,
        "schema.history.internal": _HISTORY,
        "schema.history.internal.": _HISTORY,
        "database.history": _HISTORY,
        "database.history.": _HISTORY,
        "signal.data.collection": "snapshot.signal_table",
        "signal.": _SIGNALS,
        "heartbeat.": _HEARTBEAT,
        "topic.heartbeat.": _HEARTBEAT,
        "gtid.": _GTIDS,
        "tombstones.on.delete": "connect.tombstones",
        "provide.transaction.metadata": "provide_transaction_metadata: parts",
        "transaction.": "transaction markers are on <prefix>.__transactions.<destination>",
        "topic.transaction": "transaction markers are on <prefix>.__transactions.<destination>",
        "include.query": "include_query",
        "include.schema.changes": "DDL has its own topic, <prefix>.__ddl.<destination>",
        "include.schema.comments": _SCHEMAS,
        "skipped.operations": "truncates",
        "skip.messages.without.change": "each change in the binlog is published",
        "decimal.handling.mode": _VALUES,
        "time.precision.mode": _VALUES,
        "bigint.unsigned.handling.mode": _VALUES,
        "binary.handling.mode": _VALUES,
        "connect.decimal.precision": _VALUES,
        "enable.time.adjuster": _VALUES,
        "sourceinfo.struct.maker": _VALUES,
        "unavailable.value.placeholder": _VALUES,
        "converters": _VALUES,
        "key.converter": _VALUE,
        "key.converter.": _VALUE,
        "value.converter": _VALUE,
        "value.converter.": _VALUE,
        "header.converter": "headers are text: docs/wire.md",
        "header.converter.": "headers are text: docs/wire.md",
        "field.name.adjustment.mode": "names are published as they are",
        "schema.name.adjustment.mode": "names are published as they are",
        "sanitize.field.names": "names are published as they are",
        "event.": "poison: stop, or dead_letter",
        "inconsistent.schema.handling.mode": "a table that cannot be decoded is quarantined",
        "skip.unparseable.ddl": "a statement whose effect is not certain quarantines its tables",
        "resolve.create.table.like.schema": "CREATE TABLE … LIKE is resolved",
        "ddl.parser.type": "one grammar parses all DDL",
        "transforms": "each transform is reported by its type",
        "transforms.": "belongs to a transform, which is reported by its type",
        "predicates": "belongs to a transform, which is reported by its type",
        "predicates.": "belongs to a transform, which is reported by its type",
        "topic.creation.": "topics.partitions, topics.replication_factor and others",
        "topic.naming.strategy": _TOPICS,
        "topic.": _TOPICS,
        "max.batch.size": _BATCHES,
        "poll.interval.ms": _BATCHES,
        "poll.dispatch.interval.ms": _BATCHES,
        "max.queue.size": _BUFFERS,
        "max.queue.size.in.bytes": _BUFFERS,
        "binlog.buffer.size": _BUFFERS,
        "binlog.net.": _SOCKETS,
        "connect.": _SOCKETS,
        "connection.": _SOCKETS,
        "use.nongraceful.disconnect": _SOCKETS,
        "database.connectiontimezone": "time_zone",
        "database.initial.statements": "sessions run no statements of yours",
        "database.jdbc.": "there is no JDBC driver",
        "database.protocol": "there is no JDBC driver",
        "database.query.timeout.ms": _SOCKETS,
        "driver.": "there is no JDBC driver",
        "errors.": _RETRIES,
        "retriable.restart.connector.wait.ms": _RETRIES,
        "custom.retriable.exception": _RETRIES,
        "executor.shutdown.timeout.ms": _RETRIES,
        "notification.": _STATUS,
        "custom.metric.tags": _STATUS,
        "statistics.metrics.enabled": _STATUS,
        "custom.sanitize.pattern": _STATUS,
        "openlineage.": _STATUS,
        "log.position.check.enable": "the position is verified before each start",
        "guardrail.": "the number of tables is not limited",
        "extended.headers.enabled": "headers are described in docs/wire.md",
        "post.processors": _CONNECT,
        "config.action.reload": _CONNECT,
        "exactly.once.support": "rows and cursor are always one Kafka transaction",
        "producer.override.": "the producer is idempotent and transactional; publish.compression is a setting",
        "internal.": "internal to Debezium",
    }
)
