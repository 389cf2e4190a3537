"""Arguments → one call → text and exit code. Hands the runner its adapters."""
