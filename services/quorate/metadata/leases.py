"""Leases: they are granted, kept and ended, by etcd's rules (``server/lease/lessor.go`` of 3.6).

Rules: the end of a lease and the deletion of its keys are one decision. When a lease expires is known to the leader
alone, by its own clock of what it heard (controller/lease_keeper.py); what was left of it when a leader last wrote that
down is in the log, so that it does not live on for ever from leader to leader.
"""

from typing import Final

from quorate.errors import InvariantBrokenError
from quorate.events import KeyDeleted, LeaseCheckpointed, LeaseEnded, LeaseGranted
from quorate.metadata.commands import (
    Accepted,
    AskLease,
    CheckpointLeases,
    ExpireLease,
    GrantLease,
    KeepLease,
    LeaseIs,
    Refusal,
    RevokeLease,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.keys import numbered
from quorate.metadata.refusals import refuse
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue, State

TTL_MAX_S: Final = 9_000_000_000
"""As etcd's ``MaxLeaseTTL``."""
_NOT_FOUND: Final = refuse("LeaseNotFound", "requested lease not found")


def grant_lease(state: State, command: GrantLease, context: Context) -> Decision | Refusal:
    """Refuses LeaseExists, LeaseTtlTooLarge, LeaseNotFound (the number 0, as etcd)."""
    if not command.lease:
        return _NOT_FOUND
    if command.ttl_s > TTL_MAX_S:
        return refuse("LeaseTtlTooLarge", "too large lease TTL")
    if command.lease in state.leases:
        return refuse("LeaseExists", "lease already exists")
    ttl_s = max(command.ttl_s, 1)
    event = LeaseGranted(lease=command.lease, ttl_s=ttl_s)
    return Decision((event,), LeaseIs(lease=command.lease, ttl_s=ttl_s))


def revoke_lease(state: State, command: RevokeLease, context: Context) -> Decision | Refusal:
    """Refuses LeaseNotFound."""
    return _end(state, command.lease, "revoked", 0)


def expire_lease(state: State, command: ExpireLease, context: Context) -> Decision | Refusal:
    """Refuses LeaseNotFound."""
    return _end(state, command.lease, "expired", command.silent_ms)


def _end(state: State, lease: int, reason: str, silent_ms: int) -> Decision | Refusal:
    if lease not in state.leases:
        return _NOT_FOUND
    names = state.attached.get(lease, OrderedMap())
    keys = [_deleted(state.keys, name) for name in names]
    ended = LeaseEnded(lease=lease, reason=reason, keys=len(keys), silent_ms=silent_ms)
    return Decision(numbered(keys, (ended,)), Accepted())


def _deleted(keys: OrderedMap[KeyValue], name: bytes) -> KeyDeleted:
    found = keys.get(name)
    if found is None:
        raise InvariantBrokenError(f"the key {name!r} is attached to a lease and is not there")
    return KeyDeleted(key=found.key, lease=found.lease, following=0)


def keep_lease(state: State, command: KeepLease, context: Context) -> Decision | Refusal:
    """What was written down of a lease that is heard holds no more. Refuses LeaseNotFound."""
    lease = state.leases.get(command.lease)
    if lease is None:
        return _NOT_FOUND
    reply = LeaseIs(lease=lease.lease_id, ttl_s=lease.ttl_s)
    if not lease.remaining_s:
        return Decision((), reply)
    return Decision((LeaseCheckpointed(lease=lease.lease_id, remaining_s=0),), reply)


def ask_lease(state: State, command: AskLease, context: Context) -> Decision | Refusal:
    """Refuses LeaseNotFound."""
    lease = state.leases.get(command.lease)
    if lease is None:
        return _NOT_FOUND
    keys = tuple(state.attached.get(lease.lease_id, OrderedMap())) if command.with_keys else ()
    left_ms = context.leases.left_ms(lease.lease_id)
    left_s = lease.ttl_s if left_ms is None else left_ms // 1000  # One that is granted in flight has all of it.
    return Decision((), LeaseIs(lease=lease.lease_id, ttl_s=lease.ttl_s, left_s=left_s, keys=keys))


def checkpoint_leases(state: State, command: CheckpointLeases, context: Context) -> Decision | Refusal:
    """Of those that are still there, and have something else written down."""
    found = ((state.leases.get(number), remaining_s) for number, remaining_s in command.leases)
    events = tuple(
        LeaseCheckpointed(lease=lease.lease_id, remaining_s=remaining_s)
        for lease, remaining_s in found
        if lease is not None and lease.remaining_s != remaining_s
    )
    return Decision(events, Accepted())
