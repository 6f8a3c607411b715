"""The command line, and the only place that builds objects."""
