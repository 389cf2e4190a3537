"""The only rooms with doors to the outside: files, processes, sockets, the machine."""
