"""Real MySQL, Kafka and ZooKeeper on loopback ports, without containers or installation."""

from devstack.errors import DevstackError
from devstack.kafka import Kafka
from devstack.mysql import Mysql
from devstack.stack import Stack
from devstack.zookeeper import ZooKeeper

__all__ = ["DevstackError", "Kafka", "Mysql", "Stack", "ZooKeeper"]
