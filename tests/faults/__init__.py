"""What becomes of a node whose files were changed while it was stopped; ``python -m tests.faults`` prints the table."""
