"""Raft: elections, replication, reads, snapshots, and how a node comes back."""
