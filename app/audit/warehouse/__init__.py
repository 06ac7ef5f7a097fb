"""The warehouse's rows: the sink's dump against the topics, by key and by value."""
