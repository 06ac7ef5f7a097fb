"""The platform's demo: two masters with four shards each, as one logical database for its subscribers."""
