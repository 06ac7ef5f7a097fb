"""Rules: which tables are captured, and what is published of them: values, without I/O."""
