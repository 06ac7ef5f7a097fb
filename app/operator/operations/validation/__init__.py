"""Operations on validations: which tables are compared, by which definitions, topic after topic."""
