"""A client whose body never comes to its end, though some of it always comes."""

import asyncio
from typing import Final

ENDLESS: Final = (
    b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
)


async def dribble(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, until it is cancelled or hung up on."""
    while not writer.is_closing():
        writer.write(b" ")
        await asyncio.sleep(0.02)
