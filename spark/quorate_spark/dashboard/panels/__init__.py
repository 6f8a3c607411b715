"""One module per panel: a pure function from a view of the log to the panel's data (docs/dashboard.md, API)."""
