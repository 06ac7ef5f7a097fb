"""Position lookup: by time, by GTID set, by landmark or by fingerprints of transactions."""
