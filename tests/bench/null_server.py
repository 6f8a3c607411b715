"""The control of all rates: answers as the controller does, and does nothing for it. ``null_server.py PORT``."""

import asyncio
import re
import sys

import uvloop

from quorate.wire.remoting import FrameSplitter

CODE = re.compile(rb'"code":(\d+)')
OPAQUE = re.compile(rb'"opaque":(\d+)')
EPOCH = re.compile(rb'"syncStateSetEpoch":(\d+)')
ONEWAY = b'"flag":2'


class Null(asyncio.Protocol):
    """Answers 0 to everything, with the fields a client goes on with."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Its requests."""
        answers = []
        for frame in self._splitter.feed(data):
            if ONEWAY in frame.header:
                continue
            found = EPOCH.search(frame.body)
            epoch = int(found[1]) + 1 if found else 1
            opaque = OPAQUE.search(frame.header)
            header = (
                b'{"code":0,"extFields":{"masterBrokerId":"1","masterEpoch":"1","newSyncStateSetEpoch":"%d"},'
                b'"flag":1,"language":"OTHER","opaque":%s,"version":0}' % (epoch, opaque[1] if opaque else b"0")
            )
            body = b'{"syncStateSet":[1],"syncStateSetEpoch":%d}' % epoch
            answers.append(
                (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body
            )
        if answers:
            self._transport.write(b"".join(answers))  # type: ignore[attr-defined]


async def main(port: int) -> None:
    """Serve until killed."""
    await asyncio.get_running_loop().create_server(Null, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
