"""Input of the sink: topics read from Kafka, the envelope, table versions, types, claim checks."""
