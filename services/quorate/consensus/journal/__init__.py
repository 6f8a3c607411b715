"""The journal: Raft's log in segments of files."""
