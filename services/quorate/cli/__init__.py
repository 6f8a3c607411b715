"""What operators type: ``quorate`` and its commands."""

from quorate.cli.program import main

__all__ = ["main"]
