"""1003 beyond Java's: what a broker may say of itself in a body, and what it is told of its set if it wants to know.

Rules: stock brokers send no body and do not ask (``withTopology``), so nothing of this is in their answers. What is
told is the state at the decision or later, in fields that Java's header does not have.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.metadata.configs import of_set_in_force
from quorate.metadata.policy import PolicySettings
from quorate.model.state import BrokerSet, State
from quorate.wire.name_server import AnnouncedTopics, read_json

MASTER: Final = "master"
SLAVE: Final = "slave"
_json = msgspec.json.Encoder(order="sorted").encode


class RegisterBody(msgspec.Struct, frozen=True, gc=False):
    """Our own form of a body; or Java's ``RegisterBrokerBody``, of which the topics count, and no other part."""

    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()
    of_java: AnnouncedTopics = msgspec.field(default=AnnouncedTopics(), name="topicConfigSerializeWrapper")

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Their names, whichever form they came in."""
        return (*self.topics, *self.of_java.topic_config_table)


_body = msgspec.json.Decoder(RegisterBody)


def decode_body(body: bytes) -> RegisterBody:
    """The body of 1003; an empty one says nothing. Raises PeerError."""
    return read_json(_body, body, "body") if body else RegisterBody()


def topology(
    state: State, policy: PolicySettings, name: str, broker_id: int, leader: int | None, address: str | None
) -> dict[str, str]:
    """What a broker is told of its set: its role, who is in it, the settings in force for it (``policy``: this node's
    own), and who leads the controllers.
    """
    told = {} if leader is None or address is None else _leader(leader, address)
    known = state.known(name)
    if known is not None:
        told |= {
            "role": _role(known, broker_id),
            "members": _json(_members(known)).decode(),
            "configuration": _json(of_set_in_force(state, policy, name)).decode(),
        }
    return told


def _leader(leader: int, address: str) -> dict[str, str]:
    """Under the names of the answer to 1005."""
    return {"controllerLeaderId": f"n{leader}", "controllerLeaderAddress": address}


def _role(known: BrokerSet, broker_id: int) -> str:
    """Empty: nobody is master, and whoever asks for an election (1002) may be."""
    if known.master is None:
        return ""
    return MASTER if known.master == broker_id else SLAVE


def _members(known: BrokerSet) -> Mapping[str, str]:
    """Registered id → address."""
    return {str(replica.broker_id): replica.address for replica in known.replicas if replica.registered}
