"""What is built on definitions: witnesses, online changes of tables, what a change means. On real servers."""
