"""A9: one frame of nine bytes, put between two frames of a voter, stops a cluster for good."""

import asyncio
import re
import struct
from collections.abc import Awaitable
from pathlib import Path

from tests.clusters import free_ports
from tests.findings.tree import Seen, cluster, until

NOTICE = struct.pack(">IBQ", 9, 7, (1 << 62) - 1)
"""Length, kind (a notice of a newer term), term."""
PROVEN_BYTES = 2000
"""A line that carried so much has a proven voter at each end."""


class OnPath:
    """Between one voter and another: passes everything on, and once something more."""

    def __init__(self, target: int) -> None:
        self.target, self.armed, self.done = target, False, False

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, both ways."""
        try:
            onward, outward = await asyncio.open_connection("127.0.0.1", self.target)
        except ConnectionError:
            writer.close()
            return

        async def dialer() -> None:
            passed = 0
            while (data := await reader.read(65536)) and not outward.is_closing():
                passed += len(data)
                outward.write(data)
                if self.armed and not self.done and passed > PROVEN_BYTES:
                    self.done = True
                    outward.write(NOTICE)
            outward.close()

        async def acceptor() -> None:
            while data := await onward.read(65536):
                writer.write(data)
            writer.close()

        both: list[Awaitable[None]] = [dialer(), acceptor()]
        await asyncio.gather(*both, return_exceptions=True)


async def play(tree: Path) -> Seen:
    """Node 1 reaches nodes 2 and 3 through somebody who adds the frame once."""
    with cluster(tree) as three:
        one, *others = three.nodes
        settings, paths = one.folder / "node.toml", []
        for node in others:
            port = free_ports(1)
            text, raft = settings.read_text(), node.ports["raft"]
            settings.write_text(re.sub(rf'raft = "127.0.0.1:{raft}"', f'raft = "127.0.0.1:{port}"', text))
            paths.append(path := OnPath(raft))
            await asyncio.start_server(path.meet, "127.0.0.1", port)
        await asyncio.to_thread(three.start)
        for path in paths:
            path.armed = True
        came = await asyncio.to_thread(until, lambda: any(path.done for path in paths))
        assert came, "no frame was added"
        await asyncio.sleep(3.0)
        writes = await asyncio.to_thread(until, lambda: any(node.put("afterwards") for node in three.nodes), 15.0)
        ended = [node.id for node in three.nodes if not node.runs]
        if writes and not ended:
            return Seen(False, "that connection ended; no node stopped, and a topic is acknowledged")
        return Seen(True, f"nodes that ended: {ended}; writes are {'' if writes else 'not '}acknowledged afterwards")


def look(tree: Path) -> Seen:
    """See ``play``: the one on the path has a loop."""
    return asyncio.run(play(tree))
