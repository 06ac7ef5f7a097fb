"""The process: the Faust app, its journal agent, the HTTP server, status, and the journal's tail."""
