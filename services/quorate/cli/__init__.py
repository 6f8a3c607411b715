"""Composition: the only place that builds objects; and what operators type."""

from quorate.cli.program import main

__all__ = ["main"]
