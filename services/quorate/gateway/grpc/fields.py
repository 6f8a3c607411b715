"""The fields of a connection's heads, read by ``hpack`` with the one table that both ends keep (RFC 7541).

Rules: whatever becomes of a stream, its fields are read, for the table's sake. A head that left the table as it was is
remembered by its bytes for as long as the table stays so: clients say the same of most calls.
"""

from typing import Final, cast

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from quorate.gateway.grpc.heads import CallHead, Fields
from quorate.wire import http2
from quorate.wire.http2 import Http2Code, Http2Error

FIELDS_MAX: Final = 8 * 1024
"""Bytes of a head, as they come and as they are read."""
KNOWN_MAX: Final = 16
"""Heads that are remembered: so many, and none that is longer than ``KNOWN_BYTES``."""
KNOWN_BYTES: Final = 512


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
            fields = cast(Fields, self._decoder.decode(piece, raw=True))
        except OversizedHeaderListError as error:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, "a head of more than 8 KiB") from error
        except (HPACKError, ValueError, IndexError) as error:
            raise Http2Error(Http2Code.COMPRESSION_ERROR, "fields that cannot be read") from error
        now = self._table()
        self._same = now[:2] == before[:2] and now[2] is before[2]
        if not self._same:  # Indices mean something else from now on.
            self._known.clear()
        return fields

    def _table(self) -> tuple[int, int, object]:
        """Size, length and newest field of the table that indices point into."""
        kept = self._decoder.header_table.dynamic_entries
        return self._decoder.header_table.maxsize, len(kept), kept[0] if kept else None
