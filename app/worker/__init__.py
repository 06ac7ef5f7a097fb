"""The worker: from the sources' binlogs to Kafka, and which worker runs what."""
