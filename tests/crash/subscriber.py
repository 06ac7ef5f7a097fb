"""``python -m tests.crash.subscriber BOOTSTRAP PREFIX FILE``: reads a destination's rows, records each number.

Invariant: it is an ordinary consumer of committed records, in its own group, and shares no reader with the
product or the verdict; its file holds the numbers that it has read, one per line.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import orjson
from aiokafka import AIOKafkaConsumer


async def main(bootstrap: str, prefix: str, path: Path) -> None:
    """Read until it is killed."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=path.name,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        metadata_max_age_ms=1000,
    )
    consumer.subscribe(pattern=rf"^{re.escape(prefix)}\.(?!__).*")
    await consumer.start()
    with path.open("a", buffering=1) as file:
        async for message in consumer:
            if message.value is not None:
                file.write(f"{orjson.loads(message.value)['source']['seq']}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
