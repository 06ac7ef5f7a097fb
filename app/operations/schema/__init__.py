"""Operations on the schema history: asked, checked and resolved; the impact and the replay of statements."""
