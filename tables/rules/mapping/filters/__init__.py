"""Row filters: expressions over a row's columns, typed against a table version and compiled."""
