"""The rules that an operator may choose; each default is the safe one (docs/rules.md has the table).

Rules: a fix of a RocketMQ defect is a setting named after what it does, on by default; with all of them
off a node answers as the Java controller does. Everything here is a plain value: where it comes from (file,
environment, 1009) is the gateway's and the command line's business.
"""

import msgspec

from quorate.bounds import bounded


class PolicySettings(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How elections, registrations and topics are judged."""

    enable_elect_unclean_master: bool = False
    """May a replica outside the sync state set become master? It may lack acknowledged messages."""
    notify_broker_role_changed: bool = True
    """Push role changes to brokers (1008); they also poll."""
    offset_comparison_64_bit: bool = True
    """Compare offsets whole. Java narrows the difference to 32 bits and elects a replica 4 GiB behind (issue 10578)."""
    single_epoch_bump_on_failed_election: bool = True
    """One ElectionFailed, one epoch, until the inputs of the election change. Java takes one per retry."""
    epoch_floor_from_reports: bool = True
    """A new master epoch exceeds every plausible one a member reported: brokers ignore lower ones (issue 6586)."""
    max_epoch_jump: int = 1_000_000
    """A reported epoch further ahead than this is not believed."""
    first_election_registered_only: bool = True
    """The first master must hold an id of the set; Java elects whatever id the request names."""
    no_failed_first_election: bool = True
    """A set that never had a master cannot lose it. Java then bumps the epoch, after which nobody can be elected."""
    exclude_learners: bool = True
    """A replica marked as learner is never elected (issue 10013)."""
    clean_living_keeps_unlisted: bool = True
    """Cleaning living brokers by id forgets those ids only; Java forgets the whole set."""
    no_half_known_sets: bool = True
    """Cleaning the last in-sync id keeps the rest of the set; Java then neither knows nor forgets it."""
    living_broker_keeps_address: bool = True
    """A broker that is alive keeps its address: another one registered under its id is refused. Java takes it."""
    elect_moved_master_anew: bool = True
    """A master that registers another address leads in a new epoch: its replicas follow a new address no other way."""
    broker_clusters: tuple[str, ...] = ()
    """RocketMQ clusters whose brokers are taken. A broker of another one, or that names another one than its set's, is
    refused at 1013 and 1003. Empty: any; a set is found by its own name alone, as in Java."""
    positive_broker_ids: bool = True
    """Broker ids start at 1. 0 is a master's id at the name server, and -1 means nobody in 1002."""
    protect_system_topics: bool = True
    """Refuse to create, change or delete RocketMQ's own topics (``validateSystemTopicWhenUpdateTopic``)."""
    allow_mixed_message_type: bool = False
    """Allow topics of message type MIXED (``enableMixedMessageType``)."""
    journal_disk_full_percent: int = 90
    """A member whose disk is as full is given no new copy of a segment."""
    journal_unclean_leaders: bool = False
    """May a copy that is not in sync lead a segment if no other can? It may lack acknowledged records. The log's holds
    (metadata/limits.py); a node's own is what its leader records where the log says nothing."""
    topic_queues_max: int = 1024
    """Most read or write queues of a topic."""
    replicas_max: int = 1_000
    """Most broker ids of one set; sets are small, and scanned."""
    name_length_max: int = 255
    """Longest cluster, broker set, scope or setting name, in characters."""
    text_length_max: int = 4096
    """Longest address, check code, capability or setting value, in characters."""
    listed_max: int = 10_000
    """Most capabilities or topics a registration may list; most settings that one change may name, or a scope hold."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("max_epoch_jump",))
