"""Offsets of Kafka's partitions."""

from __future__ import annotations

from collections.abc import Mapping

Offsets = Mapping[tuple[str, int], int]
