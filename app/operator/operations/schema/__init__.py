"""Operations on the schema history: query, check, resolve; impact and replay of statements."""
