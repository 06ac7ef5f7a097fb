"""Lag of the sink: Kafka's ends watched, and the time up to which the warehouse is complete."""
