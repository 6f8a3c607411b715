"""Quorate: an event-sourced cluster controller (see docs/architecture.md)."""

__version__ = "0.1.0"
