"""Every table's columns as of any position: history, records, checkpoints, differences, retention."""
