"""All keys of Canal from 1.0.19 to 1.1.8, each with what Aqueduct does instead if it is not taken over.

Source: ``canal.properties`` and ``instance.properties`` of Canal's releases, its Spring files and its
MQ connectors.
A name that ends with a dot is a prefix.
"""

from __future__ import annotations

from app.migrate.draft import KnownKeys

_BUFFERS = (
    "chunks and finished batches are bounded by Aqueduct itself; there is no ring buffer to size"
)
_BATCHES = (
    "records are grouped into Kafka transactions by publish.interval_ms and publish.max_bytes"
)
_ADMIN = "`python -m app destination` controls destinations; settings are one file, without an admin server"
_CLIENTS = "subscribers read topics with Kafka's own authentication; there is no client port"
_CURSORS = "the cursor is committed in the same Kafka transaction as the rows, to the journal topic"
_RDS = "binlog files are read from the server only; one that was purged ends with PositionGone"
_OTHER_BROKERS = "records are published to Kafka only"
_PRODUCER = (
    "the producer is idempotent and transactional, with acks=all; its limits are not settings"
)
_SWITCH = "without a standby nothing is switched; heartbeat_seconds detects a silent connection"
_FOR_STANDBY = "used with a standby (canal.instance.standby.address) only"
_OPERATIONS = "all are published, unless a mapping has `operations` for the table"
_STATEMENTS = "a change of a captured table that is logged as a statement stops the destination"
_POSITION = "the cursor of Canal's clients precedes it, or it is part of another key's position"
_KEYSTORE = "certificates are PEM files: source.tls_ca"
_TSDB = "the schema history is always kept in the journal, whose folder or driver needs no setting"
_IMAGES = "the preflight requires binlog_format=ROW; partial images are decoded"
_DDL = (
    "DDL has its own topic, <prefix>.__ddl.<destination>; ddl.include and ddl.exclude select types"
)
_TOPIC = "each table has its own topic, <prefix>.<database>.<table>, unless a mapping names another"
_PARTITION = "rows are partitioned by key, so that the changes of a row stay in order"

KNOWN = KnownKeys(
    {
        "canal.id": "a worker is named by its host, or by worker.id",
        "canal.ip": "worker.advertised_address has the address; the HTTP server listens on http.bind",
        "canal.register.ip": "worker.advertised_address",
        "canal.port": _CLIENTS,
        "canal.user": _CLIENTS,
        "canal.passwd": _CLIENTS,
        "canal.withoutNetty": _CLIENTS,
        "canal.socketChannel": _CLIENTS,
        "canal.serverMode": "records are published to Kafka, which every subscriber reads",
        "canal.metrics.pull.port": "/metrics is on http.port, 8083",
        "canal.admin.": _ADMIN,
        "canal.manager.": _ADMIN,
        "canal.zkServers": "zookeeper.hosts",
        "canal.zookeeper.flush.period": _CURSORS,
        "canal.file.data.dir": f"{_CURSORS}; data_dir holds only files that may be lost",
        "canal.file.flush.period": _CURSORS,
        "canal.instance.memory.": _BUFFERS,
        "canal.instance.detecting.enable": _SWITCH,
        "canal.instance.detecting.sql": _SWITCH,
        "canal.instance.detecting.interval.time": _SWITCH,
        "canal.instance.detecting.retry.threshold": _SWITCH,
        "canal.instance.detecting.heartbeatHaEnable": _SWITCH,
        "canal.instance.transaction.size": "a transaction above publish.max_bytes is published in parts",
        "canal.instance.fallbackIntervalInSeconds": _FOR_STANDBY,
        "canal.instance.network.": "heartbeat_seconds detects a silent connection",
        "canal.instance.filter.regex": "filter.include",
        "canal.instance.filter.black.regex": "filter.black",
        "canal.instance.filter.field": "mapping: columns of the table",
        "canal.instance.filter.black.field": "mapping: column_actions of the table",
        "canal.instance.filter.druid.ddl": "one grammar parses all DDL",
        "canal.instance.filter.query.dcl": "account statements are not published",
        "canal.instance.filter.query.dml": _STATEMENTS,
        "canal.instance.filter.query.ddl": _DDL,
        "canal.instance.filter.table.error": "a table that cannot be decoded is quarantined",
        "canal.instance.filter.rows": "rows are published; a subscriber to the DDL topic alone sees none",
        "canal.instance.filter.transaction.entry": "provide_transaction_metadata: parts",
        "canal.instance.filter.dml.insert": _OPERATIONS,
        "canal.instance.filter.dml.update": _OPERATIONS,
        "canal.instance.filter.dml.delete": _OPERATIONS,
        "canal.instance.binlog.format": _IMAGES,
        "canal.instance.binlog.image": _IMAGES,
        "canal.instance.get.ddl.isolation": f"{_DDL}; each row names its schema version, so none waits for DDL",
        "canal.instance.parser.parallel": "decoders, which are processes",
        "canal.instance.parser.parallelThreadSize": "decoders, which are processes",
        "canal.instance.parser.parallelBufferSize": _BUFFERS,
        "canal.instance.tsdb.enable": _TSDB,
        "canal.instance.tsdb.dir": _TSDB,
        "canal.instance.tsdb.url": _TSDB,
        "canal.instance.tsdb.dbUsername": _TSDB,
        "canal.instance.tsdb.dbPassword": _TSDB,
        "canal.instance.tsdb.spring.xml": _TSDB,
        "canal.instance.tsdb.snapshot.interval": "schema_history.snapshot_interval_hours",
        "canal.instance.tsdb.snapshot.expire": "schema_history.snapshot_expire_hours",
        "canal.destinations": "each instance is a destination",
        "canal.destinations.expr": "each instance is a destination",
        "canal.conf.dir": "destinations are in one settings file, named by AQUEDUCT_CONFIG",
        "canal.auto.scan": "SIGHUP reads the destinations again",
        "canal.auto.scan.interval": "SIGHUP reads the destinations again",
        "canal.auto.reset.latest.pos.mode": "a position that is gone stops the destination; none is skipped",
        "canal.instance.global.": "destinations are in the settings; the journal topic holds their cursors",
        "canal.aliyun.": _RDS,
        "canal.instance.rds.": _RDS,
        "canal.instance.multi.stream.on": "one stream is read for each destination",
        "canal.instance.mysql.slaveId": "server_id",
        "canal.instance.gtidon": "GTIDs are used if the server has them",
        "canal.instance.master.address": "source.host and source.port",
        "canal.instance.master.journal.name": _POSITION,
        "canal.instance.master.position": _POSITION,
        "canal.instance.master.timestamp": _POSITION,
        "canal.instance.master.gtid": _POSITION,
        "canal.instance.master.": _KEYSTORE,
        "canal.instance.standby.address": "sources",
        "canal.instance.standby.journal.name": _FOR_STANDBY,
        "canal.instance.standby.position": _FOR_STANDBY,
        "canal.instance.standby.timestamp": _FOR_STANDBY,
        "canal.instance.standby.gtid": _FOR_STANDBY,
        "canal.instance.standby.": _KEYSTORE,
        "canal.instance.dbUsername": "source.user",
        "canal.instance.dbPassword": "source.password_file",
        "canal.instance.enableDruid": "passwords are in files or the environment, not encrypted by Druid",
        "canal.instance.pwdPublicKey": "passwords are in files or the environment, not encrypted by Druid",
        "canal.instance.defaultDatabaseName": "default_database",
        "canal.instance.connectionCharset": "connection_charset",
        "canal.instance.destination": "the destination's name in the settings",
        "canal.mq.topic": _TOPIC,
        "canal.mq.dynamicTopic": _TOPIC,
        "canal.mq.partition": _PARTITION,
        "canal.mq.partitionsNum": "topics.partitions",
        "canal.mq.partitionHash": _PARTITION,
        "canal.mq.dynamicTopicPartitionNum": _PARTITION,
        "canal.mq.enableDynamicQueuePartition": "a topic keeps the partitions it was first written with",
        "canal.mq.flatMessage": "destinations.<name>.format",
        "canal.mq.database.hash": _PARTITION,
        "canal.mq.transaction": "rows and cursor are always one Kafka transaction",
        "canal.mq.acks": _PRODUCER,
        "canal.mq.retries": _PRODUCER,
        "canal.mq.bufferMemory": _PRODUCER,
        "canal.mq.maxRequestSize": "topics.max_message_bytes limits a record",
        "canal.mq.properties.": _PRODUCER,
        "canal.mq.kafka.": "Kerberos is not supported; kafka.sasl_mechanism has PLAIN and SCRAM",
        "canal.mq.": _BATCHES,
        "kafka.bootstrap.servers": "kafka.bootstrap_servers",
        "kafka.compression.type": "publish.compression",
        "kafka.security.protocol": "kafka.security_protocol",
        "kafka.sasl.mechanism": "kafka.sasl_mechanism",
        "kafka.sasl.jaas.config": "kafka.sasl_username and kafka.sasl_password_file",
        "kafka.ssl.": "certificates are PEM files: kafka.ssl_cafile",
        "kafka.kerberos.": "Kerberos is not supported; kafka.sasl_mechanism has PLAIN and SCRAM",
        "kafka.max.request.size": "topics.max_message_bytes limits a record",
        "kafka.batch.size": _BATCHES,
        "kafka.linger.ms": _BATCHES,
        "kafka.": _PRODUCER,
        "rocketmq.": _OTHER_BROKERS,
        "rabbitmq.": _OTHER_BROKERS,
        "pulsarmq.": _OTHER_BROKERS,
    }
)
