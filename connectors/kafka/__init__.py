"""Writing to Kafka: topics made with stated settings, one transaction for rows and journal."""
