"""The scenarios, by what is hurt; importing the package names them all."""

import importlib

for _name in (
    "workers",
    "decoders",
    "mysql_link",
    "kafka_link",
    "brokers",
    "files",
    "past",
    "accounts",
    "disks",
    "clocks",
    "changes",
    "journal",
    "quarantine",
    "zookeeper",
    "leaders",
    "switch",
    "subscribers",
    "nemesis",
):
    importlib.import_module(f"{__name__}.{_name}")
