"""Settings kept in the log, by scope: what may be set, to what, and which policy results for a broker set.

Rules: a scope is ``controller``, ``cluster``, ``node/<id>``, ``broker-set/<name>``, ``topic/<name>`` or
``subject/<name>``. In the scopes ``controller`` and ``node/<id>`` only keys of Java's ``ControllerConfig`` are known
(Java ignores others in silence, so its gateway asks ``CONTROLLER_KEYS`` first); in the others any well-formed key may
be set, and the ones that mean something here are checked. Settings do not depend on their subject: they may be set
before it exists and stay when it goes.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from quorate.events import ConfigChange, ConfigChanged
from quorate.metadata.commands import Accepted, ChangeConfig, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.limits import CHECKS, SCOPE
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.row_bounds import SCOPE_BYTES_MAX, outgrows
from quorate.metadata.texts import fits
from quorate.model.brokers import LEARNERS, values, values_in_force
from quorate.model.state import State
from quorate.model.subjects import COMPATIBILITY, SCHEMAS_COMPATIBILITY, is_level

BLACK_LIST: Final = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
"""Never changed at run time (Java ``ControllerManager.configBlackList``)."""

ENABLE_ELECT_UNCLEAN_MASTER: Final = "enableElectUncleanMaster"
NOTIFY_BROKER_ROLE_CHANGED: Final = "notifyBrokerRoleChanged"

_LABEL: Final = re.compile(r"(zone|host)\.[0-9]{1,18}")
"""In a ``broker-set/<name>`` scope: where a broker stands, for whoever looks at the page and asks what if."""
SCOPES: Final = "controller, cluster, node/ID, broker-set/NAME, topic/NAME, subject/NAME"

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NODE: Final = re.compile(r"node/\d{1,9}")
_NAMED_SCOPES: Final = ("broker-set/", "topic/", "subject/")


def _is_boolean(value: str) -> bool:
    return value in ("true", "false")


def _is_number(value: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", value) is not None


def _is_text(value: str) -> bool:
    return True


def _is_ids(value: str) -> bool:
    return re.fullmatch(r"([0-9]{1,18}(;[0-9]{1,18})*)?", value) is not None


CONTROLLER_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {
    "controllerType": _is_text,
    "controllerDLegerGroup": _is_text,
    "controllerDLegerPeers": _is_text,
    "controllerDLegerSelfId": _is_text,
    "controllerStorePath": _is_text,
    "controllerThreadPoolNums": _is_number,
    "controllerRequestThreadPoolQueueCapacity": _is_number,
    "mappedFileSize": _is_number,
    "electMasterMaxRetryCount": _is_number,
    ENABLE_ELECT_UNCLEAN_MASTER: _is_boolean,
    NOTIFY_BROKER_ROLE_CHANGED: _is_boolean,
    "processReadEvent": _is_boolean,
    "scanNotActiveBrokerInterval": _is_number,
    "scanInactiveMasterInterval": _is_number,
    "metricsExporterType": _is_text,
    "metricsGrpcExporterTarget": _is_text,
    "metricsGrpcExporterHeader": _is_text,
    "metricGrpcExporterTimeOutInMills": _is_number,
    "metricGrpcExporterIntervalInMills": _is_number,
    "metricLoggingExporterIntervalInMills": _is_number,
    "metricsPromExporterPort": _is_number,
    "metricsPromExporterHost": _is_text,
    "metricsLabel": _is_text,
    "metricsInDelta": _is_boolean,
}
"""Java ``ControllerConfig`` by the names its setters take, each with what it accepts; the black-listed ones apart."""

_EFFECTIVE: Final = (ENABLE_ELECT_UNCLEAN_MASTER, NOTIFY_BROKER_ROLE_CHANGED)
"""Of these, what something here reads; Java's tools set and compare the others too."""
_BROKER_SET_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {
    **{key: CONTROLLER_KEYS[key] for key in _EFFECTIVE},
    LEARNERS: _is_ids,
}
_SUBJECT_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {COMPATIBILITY: is_level}
_CLUSTER_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {**CHECKS, SCHEMAS_COMPATIBILITY: is_level}


def heeded(scope: str) -> frozenset[str]:
    """The settings that mean something in a scope."""
    if _is_closed(scope):
        return frozenset(_EFFECTIVE)
    if scope == SCOPE:
        return frozenset(_CLUSTER_KEYS)
    if scope.startswith("subject/"):
        return frozenset(_SUBJECT_KEYS)
    return frozenset(_BROKER_SET_KEYS) if scope.startswith("broker-set/") else frozenset()


def unread(scope: str, changes: Mapping[str, str | None], nodes: Collection[int] | None = None) -> str:
    """Says which of these nothing would ever read, more likely a mistake than a wish; empty: none. To unset is none.
    ``nodes``: those there are, if that is known.
    """
    keys, closed = heeded(scope), _is_closed(scope)
    named = scope.startswith(_NAMED_SCOPES) and not scope.endswith("/")
    if not (named or closed or scope == SCOPE):
        return ""  # The rules refuse the scope.
    said = [name for name, value in changes.items() if value is not None]
    if said and nodes is not None and scope.startswith("node/") and scope not in {f"node/{node}" for node in nodes}:
        return f"nothing reads {said[0]} in {scope}: there is no such node"
    labels = scope.startswith("broker-set/")
    wrong = (name for name in said if name not in keys and not (labels and _LABEL.fullmatch(name)))
    name = next((name for name in wrong if not closed or name in CONTROLLER_KEYS), None)
    if name is None:  # In the closed scopes the rules refuse what Java does not know either.
        return ""
    return f"nothing reads {name} in {scope}" + (f"; there it is {', '.join(sorted(keys))}" if keys else "")


def change_config(state: State, command: ChangeConfig, context: Context) -> Decision | Refusal:
    """Set and unset; all of it or nothing. No event for what already is so. What is unset always goes.

    Refuses InvalidConfigScope, ConfigBlackListed, UnknownConfigKey, InvalidConfigValue, TooManySettings.
    """
    scope = command.scope
    if (refusal := refused_scope(scope, context.policy)) is not None:
        return refusal
    if len(command.changes) > context.policy.listed_max:
        return refuse("InvalidConfigValue", f"{len(command.changes)} settings in one change are too many")
    if any(key in BLACK_LIST for key in command.changes):
        return refuse("ConfigBlackListed", "Can not update config in black list.")
    for key, value in command.changes.items():
        refusal = _judge(scope, key, value, context.policy)
        if refusal is not None:
            return refusal
    current = values(state, scope)
    changes = tuple(
        ConfigChange(name=key, old=current.get(key), new=value)
        for key, value in sorted(command.changes.items())
        if current.get(key) != value
    )
    if not changes:
        return Decision((), Accepted())
    event = ConfigChanged(scope=scope, changes=changes)
    return _too_much(state, event, context.policy) or Decision((event,), Accepted())


def _too_much(state: State, event: ConfigChanged, policy: PolicySettings) -> Refusal | None:
    """TooManySettings for a scope that would have more than it may, and more than it has."""
    added = sum((one.old is None) - (one.new is None) for one in event.changes)
    most = policy.listed_max
    if added > 0 and len(values(state, event.scope)) + added > most:
        return refuse("TooManySettings", f"{event.scope} would have more than {most} settings")
    if outgrows(state, event, SCOPE_BYTES_MAX):
        return refuse("TooManySettings", f"the settings of {event.scope} would have more than {SCOPE_BYTES_MAX} bytes")
    return None


def policy_in_force(state: State, policy: PolicySettings, broker_set: str = "") -> PolicySettings:
    """The policy of this node, overruled by what the log says."""
    if not state.configs:
        return policy
    merged = values_in_force(state, broker_set)
    unclean = merged.get(ENABLE_ELECT_UNCLEAN_MASTER)
    notify = merged.get(NOTIFY_BROKER_ROLE_CHANGED)
    if unclean is None and notify is None:
        return policy
    return msgspec.structs.replace(
        policy,
        enable_elect_unclean_master=policy.enable_elect_unclean_master if unclean is None else unclean == "true",
        notify_broker_role_changed=policy.notify_broker_role_changed if notify is None else notify == "true",
    )


def of_set_in_force(state: State, policy: PolicySettings, broker_set: str) -> dict[str, str]:
    """What its scope says, and what is in force for it of what may be said elsewhere too."""
    found = policy_in_force(state, policy, broker_set)
    switches = {
        ENABLE_ELECT_UNCLEAN_MASTER: found.enable_elect_unclean_master,
        NOTIFY_BROKER_ROLE_CHANGED: found.notify_broker_role_changed,
    }
    told = {name: "true" if on else "false" for name, on in switches.items()}
    return {**values(state, f"broker-set/{broker_set}"), **told}


def refused_scope(scope: str, policy: PolicySettings) -> Refusal | None:
    """InvalidConfigScope for a scope that cannot be, of writes and of reads."""
    if scope in ("controller", "cluster") or _NODE.fullmatch(scope):
        return None
    kind, _, name = scope.partition("/")
    if f"{kind}/" in _NAMED_SCOPES and fits(name, policy.name_length_max):
        return None
    return refuse("InvalidConfigScope", f"There is no scope {scope!r}: there is {SCOPES}")


def _is_closed(scope: str) -> bool:
    """May only keys of Java's ``ControllerConfig`` be set there?"""
    return scope == "controller" or _NODE.fullmatch(scope) is not None


def _judge(scope: str, key: str, value: str | None, policy: PolicySettings) -> Refusal | None:
    if len(key) > policy.name_length_max or not _KEY.fullmatch(key):
        return refuse("UnknownConfigKey", f"{key!r} is not a name of a setting")
    closed = _is_closed(scope)
    table = CONTROLLER_KEYS if closed else _BROKER_SET_KEYS if scope.startswith("broker-set/") else {}
    if scope == SCOPE:
        table = _CLUSTER_KEYS
    elif scope.startswith("subject/"):
        table = _SUBJECT_KEYS
    if closed and key not in table:
        return refuse("UnknownConfigKey", f"There is no setting {key!r} in {scope}")
    if value is None:
        return None
    if not fits(value, policy.text_length_max, empty=True) or not table.get(key, _is_text)(value):
        return refuse("InvalidConfigValue", f"{key} in {scope} cannot be {value!r}")
    return None
