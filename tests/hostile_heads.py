"""Heads of requests that no HTTP listener of ours takes, and what each is answered: two readers could read them in two
ways, or they have no bound.
"""

from typing import Final

GET: Final = b"GET /a HTTP/1.1\r\nhost: localhost\r\n"
PUT: Final = b"PUT /a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED: Final = PUT + b"transfer-encoding: chunked\r\n"
HOSTILE: Final = [
    (CHUNKED + b"content-length: 4\r\n\r\n0\r\n\r\n", 400),
    (PUT + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (PUT + b"content-length: 2\r\ncontent-length: 2\r\n\r\nok", 400),
    (PUT + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok", 400),
    (PUT + b"content-length: 2, 2\r\n\r\nok", 400),
    (PUT + b"content-length: +2\r\n\r\nok", 400),
    (PUT + b"content-length: -1\r\n\r\nok", 400),
    (PUT + b"content-length: 0x2\r\n\r\nok", 400),
    (PUT + b"content-length:\r\n\r\nok", 400),
    (CHUNKED + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (PUT + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    (PUT + b"transfer-encoding: identity\r\n\r\nok", 400),
    (CHUNKED.replace(b"1.1", b"1.0") + b"\r\n0\r\n\r\n", 400),
    (CHUNKED + b"\r\n-1\r\n", 400),
    (CHUNKED + b"\r\n0x2\r\nok\r\n0\r\n\r\n", 400),
    (CHUNKED + b"\r\n2\nok\r\n0\r\n\r\n", 400),
    (CHUNKED + b"\r\n2\r\nokXX0\r\n\r\n", 400),
    (CHUNKED + b"\r\n" + b"f" * 30 + b"\r\n", 400),
    (CHUNKED + b"\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n", 400),
    (CHUNKED + b"\r\n2\r\nok\r\n0\r\nx: y\r\n z\r\n\r\n", 400),
    (GET + b"x: a\r\n b\r\n\r\n", 400),
    (GET + b"x: a\r\n\tb\r\n\r\n", 400),
    (GET + b"x: a\r\n \r\ny: b\r\n\r\n", 400),
    (GET + b"x : a\r\n\r\n", 400),
    (GET + b"x: a\rb\r\n\r\n", 400),
    (GET + b"x: a\0b\r\n\r\n", 400),
    (GET + b"x: a\ny: b\r\n\r\n", 400),
    (GET.replace(b"\r", b"") + b"\n", 400),
    (GET + b"host: localhost\r\n\r\n", 400),
    (GET + b"origin: http://evil\r\nOrigin: http://localhost\r\n\r\n", 400),
    (GET + b"sec-fetch-site: cross-site\r\nsec-fetch-site: same-origin\r\n\r\n", 400),
    (PUT + b"idempotency-key: 1-a\r\nidempotency-key: 1-b\r\ncontent-length: 2\r\n\r\nok", 400),
    (PUT + b"content-type: text/plain\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\nok", 400),
    (b"GET http://localhost/a HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (GET.replace(b"1.1", b"9.9") + b"\r\n", 505),
    (GET.replace(b"1.1", b"2.0") + b"\r\n", 505),
    (GET.replace(b"1.1", b"0.9") + b"\r\n", 505),
    (GET.replace(b"1.1", b"1.2") + b"\r\n", 505),
    (GET + b"x: " + b"y" * 60_000 + b"\r\n\r\n", 431),
    (b"GET /" + b"y" * 60_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", 431),
    (GET + b"x: y\r\n" * 10_000 + b"\r\n", 431),
]
