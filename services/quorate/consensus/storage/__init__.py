"""The store, the event log in it, the data directory, and the disk's worker."""
