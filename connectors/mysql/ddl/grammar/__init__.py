"""The DDL grammar, from text to statements: lexer, token reader, and the kinds of statement."""
