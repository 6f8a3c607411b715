"""A node's settings under Java's names: 1009 and 1010 (``mqadmin updateControllerConfig``, ``getControllerConfig``).

Rules: a change is kept in the log, scope ``node/<id>``: it outlives the process and names who made it, and it counts
while this node leads, as in Java, where each controller has its own file. Keys Java knows but nothing here heeds are
kept and shown all the same, because tools set and compare them; docs/remoting.md says which are heeded. Unknown keys
and unparsable values are ignored in silence, as in Java (``MixAll.properties2Object``).
"""

from collections.abc import Mapping

from quorate.gateway.remoting import properties
from quorate.metadata.configs import BLACK_LIST, CONTROLLER_KEYS
from quorate.model.brokers import values
from quorate.model.state import State

JAVA_DEFAULTS: Mapping[str, str] = {
    "configBlackList": "configBlackList;configStorePath",
    "controllerRequestThreadPoolQueueCapacity": "50000",
    "controllerThreadPoolNums": "16",
    "controllerType": "DLedger",
    "electMasterMaxRetryCount": "3",
    "enableElectUncleanMaster": "false",
    "mappedFileSize": "1073741824",
    "metricGrpcExporterIntervalInMills": "60000",
    "metricGrpcExporterTimeOutInMills": "3000",
    "metricLoggingExporterIntervalInMills": "10000",
    "metricsExporterType": "DISABLE",
    "metricsGrpcExporterHeader": "",
    "metricsGrpcExporterTarget": "",
    "metricsInDelta": "false",
    "metricsLabel": "",
    "metricsPromExporterHost": "",
    "metricsPromExporterPort": "5557",
    "notifyBrokerRoleChanged": "true",
    "processReadEvent": "false",
    "scanInactiveMasterInterval": "5000",
    "scanNotActiveBrokerInterval": "5000",
}
"""Java ``ControllerConfig``; what the node really has comes with ``facts``."""

_SHOWN_AS = {"processReadEvent": "isProcessReadEvent"}
_BOOLEANS = frozenset(key for key, default in JAVA_DEFAULTS.items() if default in ("true", "false"))


class NodeConfig:
    """The configuration one node shows, and how changes to it are read. ``facts`` overrule Java's defaults."""

    def __init__(self, node_id: int, facts: Mapping[str, str]) -> None:
        self.scope = f"node/{node_id}"
        self._shown = {**JAVA_DEFAULTS, **facts}
        listed = self._shown["configBlackList"].split(";")
        self._black_list = BLACK_LIST | {name for name in listed if name}

    def text(self, state: State) -> str:
        """Body of the answer to 1010: sorted lines; what was set in the log overrules what the node started with."""
        merged = {**self._shown, **values(state, "controller"), **values(state, self.scope)}
        return properties.render({_SHOWN_AS.get(key, key): value for key, value in merged.items()})

    def changes(self, text: str) -> dict[str, str | None] | None:
        """What 1009 asks to set; None when it touches a black-listed key. Raises UsageError for unreadable text."""
        pairs = properties.parse(text)
        if not self._black_list.isdisjoint(pairs):
            return None
        wanted: dict[str, str | None] = {}
        for key, value in pairs.items():
            judge = CONTROLLER_KEYS.get(key)
            if judge is None:
                continue
            if key in _BOOLEANS:
                wanted[key] = "true" if value.lower() == "true" else "false"
            elif judge(value):
                wanted[key] = value
        return wanted
