"""What becomes of the facts in Spark: one file per pipeline, each a pure function.

Add one: a row struct in serving.py, a file here with a ``Fold``, one line in catalogue.py.
"""
