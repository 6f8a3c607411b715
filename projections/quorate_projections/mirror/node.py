"""The nodes a mirror reads from, asked over HTTP (``GET /v1/quorum``)."""

import msgspec

from quorate.asking import Request, UnreachedError, exchange
from quorate_projections.mirror.ports import MirrorError, NodeReport


class _Voter(msgspec.Struct):
    id: int
    kafka: str


class _Quorum(msgspec.Struct):
    node: int
    cluster_id: str
    role: str
    term: int
    voters: list[_Voter]


class HttpNode:
    """Implements ports.NodeView for the one of these nodes (``host:port``, HTTP) that says it leads."""

    def __init__(self, nodes: tuple[str, ...], timeout_s: float) -> None:
        self._nodes = nodes
        self._timeout_s = timeout_s

    def ask(self) -> NodeReport:
        """Does it lead now? Raises MirrorError when it cannot be asked."""
        report: NodeReport | None = None
        troubles = []
        for address in self._nodes:
            try:
                standing = self._standing(address)
            except MirrorError as error:
                troubles.append(str(error))
                continue
            if standing.leads:
                return standing
            report = report or standing
        if report is None:
            raise MirrorError("; ".join(troubles))
        return report

    def _standing(self, address: str) -> NodeReport:
        """A node's own account. Raises MirrorError."""
        try:
            _, body = exchange(address, Request("GET", "/v1/quorum"), self._timeout_s)
            quorum = msgspec.json.decode(body, type=_Quorum)
        except (UnreachedError, msgspec.DecodeError) as error:
            raise MirrorError(f"{address}: {error}") from error
        kafka = next((voter.kafka for voter in quorum.voters if voter.id == quorum.node), "")
        if not kafka:
            raise MirrorError(f"{address}: the node does not say where its Kafka listener is")
        return NodeReport(quorum.role == "leader", quorum.cluster_id, kafka, quorum.term)
