"""The impact of a schema change on subscribers: by column, key and type."""
