"""Input of the sink: topics read from Kafka, table versions, types, claim checks."""
