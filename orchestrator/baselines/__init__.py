"""Two judged runs → comparable or not, and what changed. Pure."""
