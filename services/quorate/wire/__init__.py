"""Protocols as pure functions: bytes in, values out; no sockets here."""
