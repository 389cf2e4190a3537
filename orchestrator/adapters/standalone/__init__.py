"""Programs that run without this package, wherever a server can be reached."""
