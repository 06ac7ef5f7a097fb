"""Reading of committed records: up to an end, of many partitions, or for as long as a process lives."""
