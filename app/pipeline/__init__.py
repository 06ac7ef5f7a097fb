"""The steps between a decoded transaction and its records, one a file, in data order: filter, versions,
envelope, assemble."""
