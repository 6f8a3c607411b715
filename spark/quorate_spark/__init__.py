"""The facts, retold as pictures: where PySpark jobs over the event topic, and the page, will live.

Today this package holds no job. Its dependencies are locked (``make setup-all``), its place in the floors is fixed
(it may import ``quorate.events`` and nothing else of ours), and its commands will register in the entry-point group
``quorate.commands``.
"""
