"""The types that travel between the rooms; one type a concept, frozen and strict."""
