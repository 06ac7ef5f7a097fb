"""Avro: the envelope in Confluent's wire format, with schemas of a registry."""
