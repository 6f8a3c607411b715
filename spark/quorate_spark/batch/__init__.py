"""Batch jobs over the archive: what was, at any offset or time, and how reliable it was."""
