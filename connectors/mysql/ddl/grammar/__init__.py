"""The DDL grammar, from text to statements: lexer, token reader, and one file per kind of statement."""
