"""Character sets: bytes to text, differences between servers and Python, and the case of names."""
