"""The fields of a connection's heads, read by ``hpack`` with the one table that both ends keep (RFC 7541).

Rules: whatever becomes of a stream, its fields are read, for the table's sake. A head that left the table as it was is
remembered by its bytes for as long as the table stays so: clients say the same of most calls. Those that tell a
deadline tell another one in each, and the table takes it: of such a head what is in the table is looked up here.
"""

from typing import Final, cast

from hpack import Decoder
from hpack.exceptions import HPACKError, InvalidTableSizeError, OversizedHeaderListError
from hpack.huffman_table import decode_huffman

from quorate.gateway.grpc.heads import CallHead, Fields
from quorate.wire import http2
from quorate.wire.http2 import Http2Code, Http2Error

FIELDS_MAX: Final = 8 * 1024
"""Bytes of a head, as they come and as they are read."""
KNOWN_MAX: Final = 16
"""Heads that are remembered: so many, and none that is longer than ``KNOWN_BYTES``."""
KNOWN_BYTES: Final = 512
ENTRY_BYTES: Final = 32
"""What a field counts besides its bytes (RFC 7541, section 4.1)."""


class FieldReader:
    """Of one connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=FIELDS_MAX)
        self._known: dict[bytes, CallHead] = {}
        self._same = False
        """Did what was read last leave the table as it was?"""

    def known(self, piece: bytes) -> CallHead | None:
        """The head that these bytes say, if they were read before."""
        return self._known.get(piece)

    def remember(self, piece: bytes, head: CallHead) -> None:
        """What the bytes that were read last say."""
        if self._same and len(piece) <= KNOWN_BYTES and len(self._known) < KNOWN_MAX:
            self._known[piece] = head

    def read(self, piece: bytes) -> Fields:
        """What the bytes say. Raises Http2Error."""
        if http2.table_sizes(piece) > 2:
            raise Http2Error(Http2Code.COMPRESSION_ERROR, "a table whose size changes too often")
        before = self._table()
        try:
            fields = self._fields(piece)
        except OversizedHeaderListError as error:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, "a head of more than 8 KiB") from error
        except (HPACKError, ValueError, IndexError) as error:
            raise Http2Error(Http2Code.COMPRESSION_ERROR, "fields that cannot be read") from error
        now = self._table()
        self._same = now[:2] == before[:2] and now[2] is before[2]
        if not self._same:  # Indices mean something else from now on.
            self._known.clear()
        return fields

    def _fields(self, piece: bytes) -> Fields:
        """Raises HPACKError, and what hpack raises else."""
        fields: list[tuple[bytes, bytes]] = []
        rest = piece[self._indexed(piece, fields) :]
        if rest:
            if fields and rest[0] & 0xE0 == 0x20:
                raise InvalidTableSizeError("the table's size changes within a head")
            fields += cast(Fields, self._decoder.decode(rest, raw=True))
        if sum([ENTRY_BYTES + len(name) + len(value) for name, value in fields]) > FIELDS_MAX:
            raise OversizedHeaderListError
        return fields

    def _indexed(self, piece: bytes, fields: list[tuple[bytes, bytes]]) -> int:
        """Read fields that the table has, and those that it takes under a name that it has (RFC 7541, sections 6.1 and
        6.2.1), as long as they are short; answers where something else begins.
        """
        table, at, end = self._decoder.header_table, 0, len(piece)
        while at < end and len(fields) <= FIELDS_MAX // ENTRY_BYTES:  # One more is too many, whatever they are.
            first, behind = piece[at], at + 1
            most = 0x7F if first >= 0x80 else 0x3F
            index = first & most
            if first < 0x40 or not index:
                break
            if index == most:
                if behind == end or piece[behind] >= 0x80:
                    break
                index += piece[behind]
                behind += 1
            if first >= 0x80:
                fields.append(table.get_by_index(index))
            else:
                size = piece[behind] if behind < end else 0x7F
                start, behind = behind + 1, behind + 1 + (size & 0x7F)
                if size & 0x7F == 0x7F or behind > end:
                    break
                said, (name, _) = piece[start:behind], table.get_by_index(index)
                value = decode_huffman(said) if size & 0x80 else said
                table.add(name, value)
                fields.append((name, value))
            at = behind
        return at

    def _table(self) -> tuple[int, int, object]:
        """Size, length and newest field of the table that indices point into."""
        kept = self._decoder.header_table.dynamic_entries
        return self._decoder.header_table.maxsize, len(kept), kept[0] if kept else None
