"""Quorate: an event-sourced cluster controller (see docs/architecture.md)."""
