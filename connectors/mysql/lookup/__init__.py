"""Finding a position: by time, by GTID set, by landmark or by the fingerprints of transactions."""
