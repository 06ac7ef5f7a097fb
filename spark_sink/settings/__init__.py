"""What an operator writes for the sink, and what the sink sets of Spark itself."""
