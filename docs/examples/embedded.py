"""A Quorate node inside your own program: start it, decide something, read it, follow the log, stop it.

    python docs/examples/embedded.py FOLDER FIRST_PORT

It listens on four ports of 127.0.0.1, from FIRST_PORT on. Run it again with the same folder: it goes on where it was.
"""

import asyncio
import sys
from pathlib import Path

from quorate.controller import Answered, ReadView
from quorate.errors import QuorateError
from quorate.metadata.commands import PutTopic
from quorate.node import Node
from quorate.node.logs import configure
from quorate.node.settings import NodeSettings, build


def settings(folder: Path, first_port: int) -> NodeSettings:
    """A cluster of one. For three, name three voters, and start a node for each of them."""
    rpc, raft, kafka, http = (f"127.0.0.1:{first_port + place}" for place in range(4))
    tree = {
        "node": {"id": 1, "data_dir": "data"},
        "log": {"level": "warning"},
        "cluster": {"id": "embedded", "voters": [{"id": 1, "rpc": rpc, "raft": raft, "kafka": kafka, "http": http}]},
    }
    return build(tree, environ={}, overrides={}, base=folder)


async def main(folder: Path, first_port: int) -> None:
    """One life of the node."""
    chosen = settings(folder, first_port)
    configure(chosen.log)  # To stderr; or leave structlog as your program has it.
    async with Node(chosen) as node:
        await node.ready(timeout_s=20)
        print("ready; ask it:  quorate status --node", node.addresses.http)
        # A command is decided by the leader, durable on a majority, and applied here when it is answered.
        command = PutTopic(topic="orders", read_queues=8, write_queues=8, permission=6)
        match await node.submit(command, principal="embedded.py"):
            case Answered(offset=offset):
                print("the topic is there; the log ends at", offset)
            case outcome:  # Refused; Busy, Unavailable: nothing happened; UnknownOutcome: ask again, same request id.
                print("not done:", outcome)
        # A linearizable read sees everything that was committed before it was asked.
        view = await node.read("linearizable")
        assert isinstance(view, ReadView), view  # NotLeader, Busy, Unavailable
        print("topics:", *sorted(view.state.topics))
        # Every event since the beginning; without the break it would wait for the next one.
        async for stamp, event in node.events(0):
            print(f"{stamp.offset:>4}  {stamp.principal:<12} {type(event).__name__}")
            if stamp.offset + 1 >= view.offset:
                break


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
    except QuorateError as error:  # Bad settings, an address or a directory that is in use, a disk that failed.
        sys.exit(f"{type(error).__name__}: {error}")
