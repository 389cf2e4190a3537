"""What a nightly concludes, and what it may remove. Pure."""
