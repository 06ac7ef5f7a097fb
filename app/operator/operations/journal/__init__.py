"""Operations on the journal: repair unreadable records, end another producer's open transaction."""
