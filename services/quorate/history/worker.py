"""The process that replays: ``python -m quorate.history.worker``, started by a node, over the socket that is its stdin.

Rules: it does what the socket says and ends when the socket does. It opens no file and no other socket, and it stands
back behind the node.
"""

import os
import socket
import sys

from quorate.history.replay import FRAME, Replay, framed, read_order


def read_exactly(connection: socket.socket, size: int) -> bytes | None:
    """So many bytes; None when the other side is gone."""
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def main(nice: int) -> None:
    """Serve one node until it hangs up."""
    os.nice(nice)
    connection = socket.socket(fileno=0)
    replay = Replay()
    while (head := read_exactly(connection, FRAME.size)) is not None:
        body = read_exactly(connection, FRAME.unpack(head)[0])
        if body is None:
            return
        for report in replay.take(read_order(body)):
            connection.sendall(framed(report))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        sys.exit(0)
