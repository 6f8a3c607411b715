"""The facts, retold as tables: Faust projections whose changelog is the event topic itself; and its mirror.

Rules: imports ``quorate.events`` and ``quorate.errors`` and nothing else of ours. No truth lives here: every table can
be rebuilt from offset 0 at any time. The views produce nothing and commit nothing (docs/projections.md).
"""
