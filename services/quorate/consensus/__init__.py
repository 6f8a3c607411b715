"""One log for all nodes: Raft behind a guard, its journal, its transport, its snapshots."""
