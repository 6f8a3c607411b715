"""The nodes a mirror reads from, asked over HTTP (``GET /v1/quorum``)."""

from quorate.asking import UnreachedError, quorum, unanswered
from quorate_projections.mirror.ports import MirrorError, NodeReport


class HttpNode:
    """Implements ports.NodeView for the one of these nodes (``host:port``, HTTP) that says it leads. Who led last is
    asked first: one that does not answer costs its ``timeout_s`` when the leader changes, not at every question.
    """

    def __init__(self, nodes: tuple[str, ...], timeout_s: float) -> None:
        self._nodes = nodes
        self._timeout_s = timeout_s
        self._led = ""

    def ask(self) -> NodeReport:
        """Does it lead now? Raises MirrorError when it cannot be asked."""
        report: NodeReport | None = None
        troubles = []
        for address in sorted(self._nodes, key=lambda address: address != self._led):
            try:
                standing = self._standing(address)
            except UnreachedError as error:
                troubles.append(error)
                continue
            if standing.leads:
                self._led = address
                return standing
            report = report or standing
        if report is None:
            told = str(unanswered(self._nodes, troubles))
            raise MirrorError("; ".join(told.splitlines()))
        return report

    def _standing(self, address: str) -> NodeReport:
        """A node's own account. Raises UnreachedError."""
        told = quorum(address, self._timeout_s, "")
        kafka = next((voter.kafka for voter in told.voters if voter.id == told.node), "")
        if not kafka:
            raise UnreachedError(f"node {address}: does not say where its Kafka listener is", sent=True)
        return NodeReport(told.role == "leader", told.cluster_id, kafka, told.term)
