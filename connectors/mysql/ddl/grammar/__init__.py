"""DDL from text to statements: lexer, token reader, and one file for each kind of statement."""
