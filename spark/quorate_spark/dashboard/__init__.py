"""The dashboard: one web page about a cluster and the data behind it (docs/dashboard.md). Needs neither Java nor Spark.

Theory: the event log is followed from any node (``follow``), kept (``spool``), folded into immutable values (``fold``,
``history``) and indexed (``index``). Every panel is a pure function of those and an offset (``panels``), so that it
answers for the past as for now; ``server`` and ``live`` carry the answers to the browser.
"""
