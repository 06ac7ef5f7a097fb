"""The schema registry: ids of Avro schemas, by the Confluent protocol."""
