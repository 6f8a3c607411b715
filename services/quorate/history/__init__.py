"""The past: the state at any offset, from checkpoints and the events after them."""
