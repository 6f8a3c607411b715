"""The node a mirror stands beside, asked over HTTP (``GET /v1/quorum``)."""

import http.client
import urllib.error
import urllib.request

import msgspec

from quorate_projections.mirror.ports import MirrorError, Standing

ANSWER_BYTES_MAX = 1024 * 1024


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
    """Implements ports.NodeView. ``address``: ``host:port`` of the node's HTTP listener."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._url = f"http://{address}/v1/quorum"
        self._timeout_s = timeout_s

    def ask(self) -> Standing:
        """See port."""
        try:
            with urllib.request.urlopen(self._url, timeout=self._timeout_s) as answer:  # noqa: S310 - always http
                found = msgspec.json.decode(answer.read(ANSWER_BYTES_MAX), type=_Quorum)
        except (OSError, urllib.error.URLError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise MirrorError(f"{self._url}: {error}") from error
        kafka = next((voter.kafka for voter in found.voters if voter.id == found.node), "")
        if not kafka:
            raise MirrorError(f"{self._url}: the node does not say where its Kafka listener is")
        return Standing(found.role == "leader", found.cluster_id, kafka, found.term)
