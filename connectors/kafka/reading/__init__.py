"""Reading of committed records: one partition to its end, many topics, the newest records, and a tail."""
