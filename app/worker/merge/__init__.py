"""The merge of several destinations' rows into one ordered topic."""
