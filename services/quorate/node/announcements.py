"""What brokers told this node as their name server, for the HTTP interface: neither gateway knows the other."""

from functools import partial

from quorate.gateway.http.answers import AnnouncedBroker, DataVersion
from quorate.gateway.http.context import Announcements
from quorate.gateway.remoting.announced import Announced, topic_told
from quorate.wire.name_server import AnnouncedVersion


def announcements(announced: Announced | None, broker_set: str, now: float) -> Announcements | None:
    """Of a set; None: this node is no name server, or was told nothing. ``now``: monotonic seconds."""
    known = None if announced is None else announced.sets.get(broker_set)
    if announced is None or known is None:
        return None
    brokers = tuple(
        AnnouncedBroker(
            broker_id=one.broker_id,
            address=one.address,
            ha_address=one.ha_address or "",
            silent_for_ms=round(1000 * (now - one.heard)),
            version=_version(one.version),
        )
        for one in announced.brokers_of(broker_set)
    )
    version = None if known.version is None else _version(known.version)
    return Announcements(brokers, version, known.topics.keys(), partial(topic_told, known))


def _version(version: AnnouncedVersion) -> DataVersion:
    return DataVersion(state_version=version.state_version, timestamp_ms=version.timestamp, counter=version.counter)
