"""The same faults, done to another program that publishes a binlog, and judged by the same checker."""
