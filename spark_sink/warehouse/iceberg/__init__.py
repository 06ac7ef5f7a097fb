"""A warehouse in Apache Iceberg: the only user of Iceberg's libraries, catalogs and files."""
