"""`subscriber`: list groups of subscribers, show their positions, and change them."""
