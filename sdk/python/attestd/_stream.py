"""The WebSocket of the stream of records."""

import base64, hashlib, os, struct

from ._errors import ConnectionLost
from ._transport import _end, MAX_ANSWER, _refusal
from .check import must

def _upgrade(connections, path, bearer):
    """Asks for a WebSocket (RFC 6455): (connection, socket, answer, on whose file the messages
    come)."""
    operation, key = "GET /v1/ws", base64.b64encode(os.urandom(16)).decode()
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, **bearer}
    connection, sock, answer = connections.open(operation, path, headers, None)
    accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    if answer.status == 101 and answer.headers.get("Sec-WebSocket-Accept") == base64.b64encode(accept).decode():
        sock.within(75)  # the service pings every 30 s
        return connection, sock, answer
    raise _refusal(operation, answer, connection)

def _messages(connection, sock, answer):
    """The text messages of a WebSocket until it is closed, which raises ConnectionLost."""
    whole = b""
    try:
        for final, kind, data in _frames(answer.fp):
            if kind == 8:
                code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                raise ConnectionError(f"closed with {code} {data[2:].decode(errors='replace')}".rstrip())
            if kind == 9:
                _pong(sock, data)
            elif kind in (0, 1):
                whole += data
                must(len(whole) <= MAX_ANSWER, f"a message is longer than {MAX_ANSWER} bytes")
                if final:
                    yield whole.decode()
                    whole = b""
    except (OSError, ValueError) as cause:
        raise ConnectionLost("GET /v1/ws", cause) from None
    finally:
        _end(answer, connection)

def _frames(source):  # (final, kind, data); a server masks nothing
    def exactly_read(size):
        data = source.read(size)
        if len(data) < size:
            raise ConnectionError("broken off")
        return data
    while True:
        first, size = exactly_read(2)
        if size >= 126:
            size = int.from_bytes(exactly_read(2 if size == 126 else 8), "big")
            must(size <= MAX_ANSWER, f"a message is longer than {MAX_ANSWER} bytes")
        yield first >= 128, first & 15, exactly_read(size)

def _pong(sock, data):
    mask = os.urandom(4)
    sock.sendall(bytes([0x8A, 0x80 | len(data)]) + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))
