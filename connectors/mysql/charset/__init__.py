"""Character sets: bytes to text, where servers differ from Python, and the case of names."""
