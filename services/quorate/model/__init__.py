"""What the events add up to, and how each is told: state, ``evolve``, questions, words; for all rooms and readers."""
