"""How long a connection may stay whose last answer is written."""

import asyncio
from typing import cast

from quorate.gateway.ending import Ending
from tests.unit.gateway.turns import UnreadWire


class Reader:
    """Pays no heed to how full the wire is."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def test_an_answer_has_time_while_it_is_taken() -> None:
    """The deadline begins again whenever some of it was taken; then it holds, for nothing is left to wait for."""
    wire = UnreadWire()
    wire.connection = Reader()
    wire.write(bytes(100))
    ending = Ending(cast(asyncio.Transport, wire), 0.0, deadline_s=10.0)
    assert wire.ended
    assert not ending.overdue(9.0)
    del wire.unread[:50]
    assert not ending.overdue(18.0)
    assert not ending.overdue(27.0)
    wire.take()
    assert not ending.overdue(30.0)
    assert not ending.overdue(40.0)
    assert ending.overdue(40.1)
