"""Limits and deadlines of the remoting listener and of calls to brokers."""

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError
from quorate.gateway.remoting.reach import ANYWHERE, AllowedNetworks
from quorate.wire.remoting import JAVA_FRAME_BYTES_MAX


class RemotingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and bytes unless the name says otherwise."""

    forward_to_leader: bool = True
    """False: a follower answers leader-only requests with 2007, as Java does."""
    spread_brokers: bool = False
    """1005 names a broker one of the nodes that are connected, by its set and id, instead of the leader: each node
    takes all its requests (``forward_to_leader``). Who sent no heartbeat to the node it asks is told the leader."""
    registration_epochs_required: bool = False
    """Refuse registrations (1003) and heartbeats (904) that do not say which life of the broker they come from
    (``registrationEpoch``). Stock brokers do not; those that do are checked in any case."""
    name_server: bool = True
    """Answer as a name server too: brokers and clients may name the nodes' rpc addresses as ``namesrvAddr``."""
    announced_max: int = 100_000
    """Brokers, and topics counted once for each set that has them, that a node keeps as a name server; one more is
    refused with code 1."""
    announcement_bytes_max: int = 8 << 20
    """The longest body of a broker's announcement (103), and the most that may come out of a compressed one."""
    java: str = ""
    """Other settings of Java's controller under their own names, a ``key=value`` a line: 1010 shows them, and their
    ``configBlackList`` holds for 1009. Nothing else heeds them."""
    leader_check_s: float = 1.0
    """How long 1005 may take to prove who leads; then nobody is named."""
    read_timeout_s: float = 2.5
    """How long a read that names its level may wait for an offset, the leader's word, or a replay."""
    waiting_max: int = 1000
    """Such reads that may wait for an offset at the same time; one more is answered with code 2."""
    connections_max: int = 10_000
    """When one more comes, the one that is longest without an answer goes, of those that have proven nothing."""
    connections_reserved: int = 500
    """Of these, how many proven connections leave to others (at most half)."""
    proven_per_address_max: int = 1000
    """Connections of one address that count as proven; registered brokers always do."""
    backlog: int = 1024
    """Connections the kernel may hold before we accept them (Java ``serverSocketBacklog``)."""
    frame_bytes_max: int = JAVA_FRAME_BYTES_MAX
    """A longer frame closes its connection, as in Java."""
    body_bytes_max: int = 1 << 20
    """A longer body of a request is answered with code 1."""
    names_max: int = 1024
    """Characters of a heartbeat's cluster, set and address together: the live table keeps them. More is refused."""
    partial_bytes_max: int = 64 << 20
    """Bytes of unfinished frames over all connections; the connection that exceeds it is closed."""
    partial_deadline_s: float = 10.0
    """How long a frame may take from its first byte to its last."""
    first_byte_deadline_s: float = 10.0
    """How long a connection may stay without having sent a byte."""
    idle_deadline_s: float = 120.0
    """A connection with no byte in or out for this long is closed (Java ``serverChannelMaxIdleTimeSeconds``)."""
    in_flight_max: int = 1024
    """Requests of one connection not yet answered; beyond it none is taken, and we stop reading from the connection."""
    requests_per_turn: int = 128
    """Pipelined requests of one connection taken before other work gets its turn."""
    write_buffer_bytes_max: int = 1 << 20
    """Answers a peer has not read; beyond it we stop reading from the connection …"""
    slow_reader_deadline_s: float = 10.0
    """… and close it when it still has not caught up after this."""
    sweep_period_s: float = 1.0
    """How often deadlines of connections are looked at."""
    push_deadline_s: float = 3.0
    """Connect, send and answer of one role change (Java waits 3 s)."""
    ask_deadline_s: float = 1.0
    """Connect, send and answer of a question to a broker, for which a client waits."""
    push_in_flight_max: int = 4096
    """Role changes under way to brokers; one more fails at once and is tried again by the reconciler."""
    push_connections_max: int = 4096
    """Connections to brokers; for one more an idle one is closed, and where none is idle the push fails at once."""
    push_idle_s: float = 60.0
    """A connection to a broker unused for this long is closed."""
    dial_deadline_s: float = 1.0
    """How long a dial that neither connects nor is refused may take; then it proves nothing."""
    dials_max: int = 2048
    """Dials under way; one more proves nothing at once."""
    broker_networks: tuple[str, ...] = ANYWHERE
    """Networks (CIDR) to which this node may connect for role changes and dials, for brokers name their addresses
    themselves. Addresses of no host (unspecified, multicast, link-local) are never connected to."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
        if self.spread_brokers and not self.forward_to_leader:
            raise UsageError("spread_brokers needs forward_to_leader: a follower would send each broker on")
        AllowedNetworks(self.broker_networks)
