"""The settings in force at a node, and where each value comes from.

Rules: pure. Default, file, environment, flag; over them the log, whose word holds wherever it has one (docs/rules.md).
A listener without an address of its own has its voter's. A secret is never shown.
"""

from collections.abc import Iterator, Mapping

import msgspec

from quorate.gateway.http.answers import SettingItem
from quorate.metadata.configs import ENABLE_ELECT_UNCLEAN_MASTER, NOTIFY_BROKER_ROLE_CHANGED
from quorate.metadata.limits import SCOPE, UNSAID, in_words
from quorate.metadata.limits import in_force as limit_in_force
from quorate.model.brokers import values
from quorate.model.state import State
from quorate.node.settings import NodeSettings

SECRETS = frozenset({"cluster.key"})
JAVA_KEYS = {
    "policy.enable_elect_unclean_master": ENABLE_ELECT_UNCLEAN_MASTER,
    "policy.notify_broker_role_changed": NOTIFY_BROKER_ROLE_CHANGED,
}
"""Settings of a node that a scope of the log overrules, under Java's names."""


def in_force(settings: NodeSettings, sources: Mapping[str, str], state: State) -> list[SettingItem]:
    """Every setting of this node, in the order of the settings."""
    logged, listened = dict(_logged(state)), dict(_listened(settings))
    items = []
    for name, value in _leaves(settings, ""):
        item = SettingItem(name=name, value=_text(name, value), source=sources.get(name, "default"))
        items.append(listened.get(name) or logged.get(name, item))
    return items


def _listened(settings: NodeSettings) -> Iterator[tuple[str, SettingItem]]:
    """Where it listens at the address that the others dial, no other having been given."""
    for listener in settings.listening:
        if not getattr(settings.listeners, listener):
            name, source = f"listeners.{listener}", f"cluster.voters[{settings.node.id}].{listener}"
            yield name, SettingItem(name=name, value=getattr(settings.me, listener), source=source)


def _leaves(part: msgspec.Struct, path: str) -> Iterator[tuple[str, object]]:
    for field in msgspec.structs.fields(part):
        name, value = f"{path}{field.name}", getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _text(name: str, value: object) -> str:
    if name in SECRETS and value:
        return "(secret)"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _logged(state: State) -> Iterator[tuple[str, SettingItem]]:
    """Settings of a node that the log overrules."""
    if state.cluster is None:
        return
    scopes = ["controller", *([f"node/{state.leader.node_id}"] if state.leader is not None else [])]
    for name, key in JAVA_KEYS.items():
        for scope in scopes:
            if (value := values(state, scope).get(key)) is not None:
                yield name, SettingItem(name=name, value=value, source=f"log, scope {scope}")
    for name in UNSAID:
        source = f"log, scope {SCOPE}" if name in values(state, SCOPE) else "default"  # Of all nodes: no other holds.
        yield name, SettingItem(name=name, value=in_words(limit_in_force(state, name)), source=source)
