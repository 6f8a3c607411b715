"""The Spark application, ``quorate stream``: its queries, kept running, and its command line."""
