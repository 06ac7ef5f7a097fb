"""Text that the sink writes: names in SQL and in the warehouse's folder, and what it hides of secrets."""
