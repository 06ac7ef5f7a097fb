"""`python -m app mapping`: mappings of real tables to logical ones."""
