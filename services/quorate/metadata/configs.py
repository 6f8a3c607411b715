"""Settings kept in the log, by scope: what may be set, to what, and which policy results for a broker set.

Rules: a scope is ``controller``, ``cluster``, ``node/<id>``, ``broker-set/<name>``, ``topic/<name>`` or
``subject/<name>``. In the scopes ``controller`` and ``node/<id>`` only keys of Java's ``ControllerConfig`` are known
(Java ignores others in silence, so its gateway asks ``CONTROLLER_KEYS`` first); in the others any well-formed key may
be set, and the ones that mean something here are checked. Settings do not depend on their subject: they may be set
before it exists and stay when it goes.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from quorate.events import ConfigChange, ConfigChanged
from quorate.metadata.commands import Accepted, ChangeConfig, Refusal
from quorate.metadata.compatibility import is_level
from quorate.metadata.context import Context, Decision
from quorate.metadata.limits import CHECKS, SCOPE
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.texts import fits
from quorate.model.state import State

BLACK_LIST: Final = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
"""Never changed at run time (Java ``ControllerManager.configBlackList``)."""

ENABLE_ELECT_UNCLEAN_MASTER: Final = "enableElectUncleanMaster"
NOTIFY_BROKER_ROLE_CHANGED: Final = "notifyBrokerRoleChanged"
LEARNERS: Final = "learners"
"""In a ``broker-set/<name>`` scope: ids never elected, ``2;3``. Stock heartbeats do not say who is a learner."""

_LABEL: Final = re.compile(r"(zone|host)\.[0-9]{1,18}")
"""In a ``broker-set/<name>`` scope: where a broker stands, for whoever looks at the page and asks what if."""
COMPATIBILITY: Final = "compatibility"
"""In a ``subject/<name>`` scope: how its next schema is checked."""
SCHEMAS_COMPATIBILITY: Final = "schemas.compatibility"
"""In the scope ``cluster``: the same, of every subject that has none of its own."""
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

_BROKER_SET_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {
    ENABLE_ELECT_UNCLEAN_MASTER: _is_boolean,
    NOTIFY_BROKER_ROLE_CHANGED: _is_boolean,
    LEARNERS: _is_ids,
}
_SUBJECT_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {COMPATIBILITY: is_level}
_CLUSTER_KEYS: Final[Mapping[str, Callable[[str], bool]]] = {**CHECKS, SCHEMAS_COMPATIBILITY: is_level}


def heeded(scope: str) -> frozenset[str] | None:
    """The settings that mean something in a scope; None: the rules themselves refuse what they do not know there."""
    if scope == "controller" or scope.startswith("node/"):
        return None
    if scope == SCOPE:
        return frozenset(_CLUSTER_KEYS)
    if scope.startswith("subject/"):
        return frozenset(_SUBJECT_KEYS)
    return frozenset(_BROKER_SET_KEYS) if scope.startswith("broker-set/") else frozenset()


def unread(scope: str, changes: Mapping[str, str | None]) -> str:
    """Says which of these nothing would ever read, more likely a mistake than a wish; empty: none. To unset is none."""
    keys = heeded(scope)
    named = scope.startswith(_NAMED_SCOPES) and not scope.endswith("/")
    if keys is None or not (named or scope == SCOPE):
        return ""  # The rules refuse what they do not know there, or the scope.
    labels = scope.startswith("broker-set/")
    wrong = (name for name, value in changes.items() if value is not None and name not in keys)
    name = next((name for name in wrong if not (labels and _LABEL.fullmatch(name))), None)
    if name is None:
        return ""
    return f"nothing reads {name} in {scope}" + (f"; there it is {', '.join(sorted(keys))}" if keys else "")


def change_config(state: State, command: ChangeConfig, context: Context) -> Decision | Refusal:
    """Set and unset; all of it or nothing. No event for what already is so.

    Refuses InvalidConfigScope, ConfigBlackListed, UnknownConfigKey, InvalidConfigValue.
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
    return Decision((ConfigChanged(scope=scope, changes=changes),) if changes else (), Accepted())


def values(state: State, scope: str) -> Mapping[str, str]:
    """The settings of a scope; empty when none was ever set."""
    config = state.configs.get(scope)
    return {} if config is None else config.values


def policy_in_force(state: State, policy: PolicySettings, broker_set: str = "") -> PolicySettings:
    """The policy of this node, overruled by the scopes ``controller``, ``node/<leader>``, ``broker-set/<name>``."""
    if not state.configs:
        return policy
    scopes = ["controller"]
    if state.leader is not None:
        scopes.append(f"node/{state.leader.node_id}")
    if broker_set:
        scopes.append(f"broker-set/{broker_set}")
    merged: dict[str, str] = {}
    for scope in scopes:
        merged.update(values(state, scope))
    unclean = merged.get(ENABLE_ELECT_UNCLEAN_MASTER)
    notify = merged.get(NOTIFY_BROKER_ROLE_CHANGED)
    if unclean is None and notify is None:
        return policy
    return msgspec.structs.replace(
        policy,
        enable_elect_unclean_master=policy.enable_elect_unclean_master if unclean is None else unclean == "true",
        notify_broker_role_changed=policy.notify_broker_role_changed if notify is None else notify == "true",
    )


def learners(state: State, broker_set: str) -> frozenset[int]:
    """The ids an operator named as learners of a set."""
    named = values(state, f"broker-set/{broker_set}").get(LEARNERS)
    return frozenset(map(int, named.split(";"))) if named else frozenset()


def refused_scope(scope: str, policy: PolicySettings) -> Refusal | None:
    """InvalidConfigScope for a scope that cannot be, of writes and of reads."""
    if scope in ("controller", "cluster") or _NODE.fullmatch(scope):
        return None
    kind, _, name = scope.partition("/")
    if f"{kind}/" in _NAMED_SCOPES and fits(name, policy.name_length_max):
        return None
    return refuse("InvalidConfigScope", f"There is no scope {scope!r}: there is {SCOPES}")


def _judge(scope: str, key: str, value: str | None, policy: PolicySettings) -> Refusal | None:
    if len(key) > policy.name_length_max or not _KEY.fullmatch(key):
        return refuse("UnknownConfigKey", f"{key!r} is not a name of a setting")
    closed = scope == "controller" or scope.startswith("node/")
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
