"""Reading logs of real servers."""
