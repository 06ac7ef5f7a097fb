"""The journal's state: the fold of its records, its checkpoint in Faust's tables, and the leader."""
