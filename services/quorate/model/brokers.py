"""What several ask about broker sets, and must not answer differently: when a master was lost, who is a learner, which
settings hold.

Rules: pure functions of events and state.
"""

from collections.abc import Mapping
from typing import Final

from quorate.events import BrokerDataCleaned, BrokerFenced, ElectionFailed, MasterElected
from quorate.model.state import BrokerSet, State

SILENCE: Final = "heartbeat expired"
"""The evidence by which the moment of a fault is only estimated."""
LEARNER_CAPABILITY: Final = "asyncLearner"
"""By which a broker says itself that it is a learner."""
UNSET_PRIORITY: Final = 2**31 - 1
"""What a broker reports that set no priority (Java ``Integer.MAX_VALUE``)."""
LEARNERS: Final = "learners"
"""In a ``broker-set/<name>`` scope: ids never elected, ``2;3``. Stock heartbeats do not say who is a learner."""


def fault_of(event: MasterElected | ElectionFailed | BrokerFenced | BrokerDataCleaned) -> tuple[int | None, bool]:
    """When what the event answers happened, and whether that is an estimate. None: the event says nothing of it.

    A closed connection is seen when it closes; silence begins, at the latest, with the last heartbeat.
    """
    if isinstance(event, BrokerDataCleaned):
        return None, False
    if event.evidence == SILENCE and event.last_heartbeat_ms > 0:
        return event.last_heartbeat_ms, True
    return event.detected_ms or None, False


def values(state: State, scope: str) -> Mapping[str, str]:
    """The settings of a scope; empty when none was ever set."""
    config = state.configs.get(scope)
    return {} if config is None else config.values


def values_in_force(state: State, broker_set: str = "") -> Mapping[str, str]:
    """What the log says for a set: the scopes ``controller``, ``node/<leader>``, ``broker-set/<name>``, each over the
    one before it.
    """
    leader = () if state.leader is None else (f"node/{state.leader.node_id}",)
    own = (f"broker-set/{broker_set}",) if broker_set else ()
    return {name: value for scope in ("controller", *leader, *own) for name, value in values(state, scope).items()}


def learners(state: State, broker_set: BrokerSet) -> frozenset[int]:
    """Who never leads: by the setting of the set, or by their own word."""
    named = values(state, f"broker-set/{broker_set.name}").get(LEARNERS)
    said = [r.broker_id for r in broker_set.replicas if r.capabilities.get(LEARNER_CAPABILITY, "").lower() == "true"]
    return frozenset(map(int, named.split(";"))).union(said) if named else frozenset(said)
