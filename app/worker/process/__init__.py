"""The process: the Faust app, its journal agent, the HTTP server, and the journal's tail."""
