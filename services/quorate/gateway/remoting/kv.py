"""What tools keep at a name server, by namespace and key (100, 101, 102, 219).

Rules: they are keys of the cluster, ``/rocketmq/kv/<namespace>/<key>``: on every node the same, read linearizably, and
written in the log, where Java's name servers have a file each.
Source: Java ``KVConfigManager`` and ``DefaultRequestProcessor`` of 5.3.3.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from quorate.controller.views import ReadView
from quorate.events import ordered_name
from quorate.gateway.remoting import answers
from quorate.gateway.remoting.exchange import Exchange
from quorate.metadata.commands import Command, DeleteKeys, PutKey
from quorate.model.ordered import OrderedMap, after_prefix
from quorate.model.state import KeyValue, State
from quorate.wire.name_server import (
    DeleteKvRequest,
    GetKvRequest,
    KvListRequest,
    KvReplyFields,
    KvTableBody,
    PutKvRequest,
)
from quorate.wire.remoting import Message
from quorate.wire.remoting_headers import ReadFields, ResponseCode

KEYS: Final = "/rocketmq/kv/"
SMALL: Final = 64
"""Texts of a namespace; a larger one is told in a turn that has time for it."""
TEXTS_MAX: Final = 65_536
TEXT_BYTES_MAX: Final = 8 << 20
"""A namespace of more is told to nobody: the peer could not take it in a frame."""
_json = msgspec.json.Encoder().encode


class Host(Protocol):
    """What of the service the name server stands on."""

    @property
    def state(self) -> State:
        """The committed state."""

    def now(self) -> float:
        """Monotonic seconds."""

    def admitted(self, exchange: Exchange, operation: str, resource: str) -> bool:
        """May it? A refusal is answered."""

    def submit(self, exchange: Exchange, command: Command, resource: str) -> None:
        """Have it decided, and answer what became of it."""

    def catch_up(self, done: Callable[[bool], None]) -> None:
        """Apply what is committed by now; False: how far that is cannot be known."""

    def look(
        self,
        exchange: Exchange,
        fields: ReadFields,
        operation: str,
        resource: str,
        answer: Callable[[ReadView], Message],
        *,
        large: bool = False,
    ) -> None:
        """Answer from the state, linearizably; ``large``: in a turn that has time for it."""


class NameServerTexts:
    """The texts of all name servers, which are one here."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def put_kv(self, request: PutKvRequest, body: bytes, exchange: Exchange) -> None:
        """100."""
        fields = request.fields
        if fields.namespace is None or fields.key is None:
            exchange.reply(answers.failed("namespace or key is null"))
            return
        key = _key(fields.namespace, fields.key)
        command = PutKey(key=key, value=(fields.value or "").encode())
        self._host.submit(exchange, command, f"key/{ordered_name(key)}")

    def delete_kv(self, request: DeleteKvRequest, body: bytes, exchange: Exchange) -> None:
        """102; one that is not there is a success."""
        key = _key(request.fields.namespace or "", request.fields.key or "")
        self._host.submit(exchange, DeleteKeys(key=key), f"key/{ordered_name(key)}")

    def get_kv(self, request: GetKvRequest, body: bytes, exchange: Exchange) -> None:
        """101."""
        namespace, name = request.fields.namespace, request.fields.key
        key = _key(namespace or "", name or "")

        def answer(view: ReadView) -> Message:
            found = view.state.keys.get(key)
            if found is not None:
                return Message(0, KvReplyFields(found.value.decode(errors="replace")))
            return _not_found(f"No config item, Namespace: {_null(namespace)} Key: {_null(name)}")

        self._host.look(exchange, ReadFields(), "Range", f"key/{ordered_name(key)}", answer)

    def kv_list(self, request: KvListRequest, body: bytes, exchange: Exchange) -> None:
        """219."""
        namespace = request.fields.namespace
        prefix = _key(namespace or "", "")

        def answer(view: ReadView) -> Message:
            table = kept_texts(view.state, prefix)
            if table is None:
                return answers.failed(f"Namespace: {_null(namespace)} is too large to be told")
            if table:
                return Message(0, body=_json(KvTableBody(table)))
            return _not_found(f"No config item, Namespace: {_null(namespace)}")

        self._host.look(exchange, ReadFields(), "Range", f"key/{ordered_name(prefix)}", answer, large=True)


def _key(namespace: str, name: str) -> bytes:
    return f"{KEYS}{namespace}/{name}".encode()


def kept_texts(state: State, prefix: bytes) -> dict[str, str] | None:
    """Name → text of a namespace; None: it is too large."""
    end, size = after_prefix(prefix), 0
    if state.keys.count(prefix, end) > TEXTS_MAX:
        return None
    table: dict[str, str] = {}
    for key, one in state.keys.items(prefix, end):
        size += len(key) + len(one.value)
        if size > TEXT_BYTES_MAX:
            return None
        table[key[len(prefix) :].decode(errors="replace")] = one.value.decode(errors="replace")
    return table


class KeptTable:
    """A namespace as it is told, encoded once for as long as no key changes."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._keys: OrderedMap[KeyValue] | None = None
        self._body = b""

    def small(self, state: State) -> bool:
        """May it be told in any turn?"""
        return state.keys.count(self._prefix, after_prefix(self._prefix)) <= SMALL

    def body(self, state: State) -> bytes:
        """Nothing: it has no text, or it is too large."""
        if state.keys is not self._keys:
            table = kept_texts(state, self._prefix)
            self._keys, self._body = state.keys, _json(KvTableBody(table)) if table else b""
        return self._body


def _not_found(remark: str) -> Message:
    return Message(ResponseCode.QUERY_NOT_FOUND, remark=remark)


def _null(text: str | None) -> str:
    """As Java shows one."""
    return "null" if text is None else text
