"""Operations on the journal: unreadable records mended, a foreign open transaction ended."""
