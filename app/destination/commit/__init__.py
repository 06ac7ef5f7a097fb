"""Commit participants: what of a run takes part in each Kafka transaction, before it and after its commit."""
