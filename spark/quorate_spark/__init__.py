"""The facts, retold as pictures: PySpark jobs over the event topic.

It imports ``quorate.events`` and ``quorate.errors`` and nothing else of ours; its commands register in the entry-point
group ``quorate.commands``.
"""
