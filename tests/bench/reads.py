"""Load on a projection worker's HTTP: keep-alive connections, pipelined, answers counted but not parsed.

Usage: ``python -m tests.bench.reads PORTS PATH SECONDS RATE CONNECTIONS`` (ports with commas; rate 0: as fast as they
come); prints one line of JSON.
"""

import json
import selectors
import socket
import sys
import time

DEPTH = 8
OK, ANY = b"HTTP/1.1 200", b"HTTP/1.1 "


def main(ports: list[int], path: str, seconds: float, rate: float, connections: int) -> dict[str, float]:
    """Ask until the time is up; what was answered."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    selector, good, every = selectors.DefaultSelector(), 0, 0
    links = []
    for number in range(connections):
        link = socket.create_connection(("127.0.0.1", ports[number % len(ports)]))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(link, selectors.EVENT_READ, link)
        links.append(link)
    began = time.monotonic()
    end, asked = began + seconds, 0
    if rate == 0:
        for link in links:
            link.sendall(request * DEPTH)
    while (now := time.monotonic()) < end:
        if rate:
            due = min(int((now - began) * rate) - asked, len(links))
            for number in range(due):
                links[(asked + number) % len(links)].sendall(request)
            asked += due
        for key, _ in selector.select(0.001 if rate else 0.1):
            link = key.data
            data = link.recv(1 << 18)
            if not data:
                raise ConnectionError("a worker hung up")
            found = data.count(ANY)
            good, every = good + data.count(OK), every + found
            if rate == 0 and found:
                link.sendall(request * found)
    took = time.monotonic() - began
    return {"per_second": round(good / took, 1), "operations": good, "others": every - good}


if __name__ == "__main__":
    ports, path, seconds, rate, connections = sys.argv[1:]
    print(json.dumps(main([*map(int, ports.split(","))], path, float(seconds), float(rate), int(connections))))
