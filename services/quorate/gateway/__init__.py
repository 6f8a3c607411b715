"""The edge: sockets, framing, who may do what. One package per protocol; no decision is taken here."""
