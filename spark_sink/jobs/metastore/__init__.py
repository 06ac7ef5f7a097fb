"""The metastore: the warehouse's tables by name, for analysts, in a Hive metastore."""
