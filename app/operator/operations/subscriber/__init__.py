"""Operations on groups of subscribers: where each is in its topics, and how to move it."""
