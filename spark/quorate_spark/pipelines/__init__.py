"""The pipelines over the events in Spark: one file each, a pure function.

Add one: a row struct in serving.py, a file here with a ``Fold``, one line in catalogue.py.
"""
