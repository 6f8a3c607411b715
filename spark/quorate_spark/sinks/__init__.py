"""Where the results go, exactly once: the serving store (SQLite, PostgreSQL) and the archive (Delta)."""
