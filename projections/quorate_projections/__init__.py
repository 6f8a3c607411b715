"""The facts, retold as tables: where Faust projections of the event topic will live.

Today this package holds no projection. Its dependencies are locked (``make setup-all``), its place in the floors is
fixed (it may import ``quorate.events`` and nothing else of ours), and its commands will register in the entry-point
group ``quorate.commands``.
"""
