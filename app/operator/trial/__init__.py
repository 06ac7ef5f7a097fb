"""The trial of a mapping: it and the one in force over the same events, compared record by record."""
