"""Where lines of the log go: a stream that holds nobody up, whether it takes them or not.

Rules: a pipe or a socket is given what it has room for and never waited for. A collector that stands still would stop
the loop, and nodes that share it would stop together. What it has no room for waits, up to ``WAITING_BYTES_MAX``; what
is more is dropped, counted, and told when there is room again. A file or a terminal is written as it is. What cannot be
written is lost, and nothing else.
"""

import os
import socket
import stat
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

WAITING_BYTES_MAX: Final = 256 * 1024
Write = Callable[[bytes], int]


class LogSink:
    """Writes whole lines. All who write to one stream of a process share its sink, so that none goes between two."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._write = _unblocked(self, stream)
        self._waiting = b""
        self._lost = 0

    def write(self, lines: bytes) -> None:
        """Some lines, each with its end."""
        if self._write is None:
            _whole(self._stream, lines)
            return
        if len(self._waiting) + len(lines) > WAITING_BYTES_MAX:
            self._drain(self._write)
        if len(self._waiting) + len(lines) > WAITING_BYTES_MAX:
            self._lost += lines.count(b"\n")
            return
        if self._lost:
            self._waiting += b'{"level":"warning","event":"lines of the log were lost","lines":%d}\n' % self._lost
            self._lost = 0
        self._waiting += lines
        self._drain(self._write)

    def _drain(self, write: Write) -> None:
        try:
            while self._waiting:
                self._waiting = self._waiting[write(self._waiting) :]
        except BlockingIOError:
            pass
        except OSError:  # Nobody reads any more.
            self._waiting = b""


def _whole(stream: TextIO | None, lines: bytes) -> None:
    if stream is None:
        return
    with suppress(OSError, ValueError):  # A full disk; a stream that was closed.
        below = getattr(stream, "buffer", None)
        if below is None:
            stream.write(lines.decode())
        else:
            below.write(lines)
        stream.flush()


def _unblocked(sink: LogSink, stream: TextIO | None) -> Write | None:
    """How to write to a pipe or a socket without waiting, though others who have it open may want to wait."""
    try:
        number = -1 if stream is None else stream.fileno()
        mode = os.fstat(number).st_mode
        if stat.S_ISFIFO(mode):
            own = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            weakref.finalize(sink, os.close, own)
            return partial(os.write, own)
        if stat.S_ISSOCK(mode):
            other_end = socket.socket(fileno=os.dup(number))
            weakref.finalize(sink, other_end.close)
            return lambda data: other_end.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except (OSError, ValueError, AttributeError):
        pass
    return None


_SINKS: weakref.WeakKeyDictionary[TextIO, LogSink] = weakref.WeakKeyDictionary()


def sink_of(stream: TextIO | None) -> LogSink:
    """The one of this stream."""
    if stream is None:
        return LogSink(None)
    found = _SINKS.get(stream)
    if found is None:
        found = _SINKS[stream] = LogSink(stream)
    return found
