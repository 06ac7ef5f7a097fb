"""Commit participants: parts of a run that act before each Kafka transaction and after its commit."""
