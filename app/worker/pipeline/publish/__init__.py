"""Publish: finished pieces handed to the event loop, and one Kafka transaction for rows and cursor."""
