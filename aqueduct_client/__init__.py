"""The client of Aqueduct's topics: subscribe to logical tables, at least once or exactly once.

Invariant: aiokafka is the only library that it needs, and ``wire`` the only other package that it imports. The
guide is ``docs/subscriber.md``.
"""

from __future__ import annotations

from aqueduct_client.election import ZooKeeperTurn as ZooKeeperTurn
from aqueduct_client.in_flight import Batch as Batch
from aqueduct_client.kafka_transactions import KafkaTransactions as KafkaTransactions
from aqueduct_client.records import Record as Record
from aqueduct_client.sql import SqlProgress as SqlProgress
from aqueduct_client.start_positions import AfterGtids as AfterGtids
from aqueduct_client.start_positions import AfterSeq as AfterSeq
from aqueduct_client.start_positions import AtTime as AtTime
from aqueduct_client.start_positions import Earliest as Earliest
from aqueduct_client.start_positions import Latest as Latest
from aqueduct_client.subscribe import subscribe as subscribe
from aqueduct_client.subscribe import subscribe_async as subscribe_async
from aqueduct_client.subscriber import Subscriber as Subscriber
from aqueduct_client.sync import SyncSubscriber as SyncSubscriber
from wire.records import Op as Op
