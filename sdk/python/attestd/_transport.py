"""Connections, retries, deadlines, and the credential of an OAuth client."""
from __future__ import annotations

import functools, http.client, io, random, select, socket, ssl, threading, time
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._errors import AttestdError, ConnectionLost, _service_error, ServiceError

@dataclass(frozen=True)
class Retry:
    """How often a request is sent again, beyond the first attempt, and after how many seconds: a random time between min and twice min, four times min and so on, at most max. After
    Retry-After it is at least that."""

    times: int = 2
    min: float = 0.5
    max: float = 8.0

    # before retry number n, from 0 on; None when it is not worth to
    def _wait(self, n, error, safe):
        if n >= self.times or not _retryable(error, safe):
            return None
        wait = random.uniform(self.min, max(self.min, min(self.max, self.min * 2 ** (n + 1))))
        wait = max(wait, getattr(error, "retry_after", 0))
        # 60 s: the window of the service's rate limits
        return wait if wait <= max(60, self.max) else None

def _retryable(error, safe):
    if isinstance(error, ConnectionLost):
        return safe or error.unsent
    if not isinstance(error, ServiceError):
        return False
    return error.status == 429 or error.code == "NOT_DONE" or safe and (error.status == 408 or error.status == 409 and error.code != "STATEMENT_REUSED" or error.status >= 500)

class OAuth:
    """The credential of an OAuth client. Its token is fetched at the first call, a minute before it expires, and when the service refuses one."""

    def __init__(self, client_id, client_secret):
        self._id, self._secret = client_id, client_secret
        self._lock, self._token, self._until = threading.Lock(), "", 0.0

    def _bearer(self, client, refused=""):
        with self._lock:
            if self._token in ("", refused) or time.monotonic() >= self._until:
                made = client.get_oauth_token(grant_type="client_credentials", client_id=self._id, client_secret=self._secret)
                life = made["expires_in"]
                self._token, self._until = made["access_token"], time.monotonic() + life - min(60, life / 2)
            return self._token

MAX_REFUSAL = 64 << 10  # the most bytes of an answer that is an error
# The most bytes of an answer in memory, and of a line or message of a long one.
MAX_ANSWER = 64 << 20

class _Socket:
    """A socket with one deadline over all that is sent and read, however slowly it comes. Python's own timeout restarts with each piece."""

    def __init__(self, sock, deadline):
        self.sock, self.deadline = sock, deadline
        self.more = False  # unrequested bytes came after an answer

    def within(self, seconds):
        """Ends the deadline: from now on each piece has so many seconds."""
        self.deadline = None
        self.sock.settimeout(seconds)

    def limit(self):
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            self.sock.settimeout(left)

    def sendall(self, data):
        left = memoryview(data)
        while left:
            self.limit()
            left = left[self.sock.send(left):]

    def makefile(self, mode):
        return _Answer(_Pieces(self))

    def close(self):
        self.sock.close()

    def is_usable(self):
        """Whether an open connection may be used again: nothing came on it since its last answer, and it was not closed."""
        if self.more or getattr(self.sock, "pending", int)():
            return False
        if hasattr(select, "poll"):  # select has no room for high numbers
            asked = select.poll()
            asked.register(self.sock, select.POLLIN)
            return not asked.poll(0)
        return not select.select([self.sock], [], [], 0)[0]

class _Pieces(io.RawIOBase):
    """What comes on a _Socket."""

    def __init__(self, bounded):
        # it holds the socket open until it is closed itself
        self.bounded, self.file, self.ended = bounded, bounded.sock.makefile("rb", 0), False

    def readable(self):
        return True

    def readinto(self, into):
        if self.ended:
            return 0
        self.bounded.limit()
        return self.file.readinto(into)

    def close(self):
        self.file.close()
        super().close()

class _Answer(io.BufferedReader):
    """The file of an answer. It tells its socket of what came behind the answer and would be lost with this buffer."""

    def close(self):
        if not self.closed:
            self.raw.ended = True
            self.raw.bounded.more = self.raw.bounded.more or len(self.peek(1)) > 0
        super().close()

class _Connections:
    """Connections to one service. An idle one may have been closed by the other side meanwhile, which may show only when it is used, so requests that must not be carried out twice
    always get a new one. One on which something came since its last answer is dropped: it would be taken for the next answer. Redirects are not followed: a redirected POST becomes a GET.
    Proxies of the environment are not used."""

    def __init__(self, url, timeout, context):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise AttestdError("the URL must look like https://attest.example.com, without a password or a query")
        self.prefix, self.timeout = parts.path.rstrip("/"), timeout
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        kind = functools.partial(http.client.HTTPSConnection, context=self._context) if self._context else http.client.HTTPConnection
        self._new = lambda: kind(parts.hostname, parts.port)
        self._idle, self._lock = [], threading.Lock()
        self.heard = lambda headers: None  # is told the headers of each answer

    def _kept(self):
        """An idle connection that may be used; None where there is none."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.sock.is_usable():
                return connection
            connection.close()

    def _connect(self, connection, deadline):
        """Connects, at one of the addresses of the name, before the deadline. Nothing bounds how long the system looks the name up."""
        failed = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(connection.host, connection.port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                bounded = _Socket(sock, deadline)
                bounded.limit()
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context:
                    bounded.limit()
                    bounded.sock = self._context.wrap_socket(sock, server_hostname=connection.host)
                connection.sock = bounded
                return
            except OSError as cause:
                sock.close()
                failed = cause
                if isinstance(cause, ssl.SSLError):
                    break
        raise failed

    def open(self, operation, path, headers, body, kept=False, deadline=None):
        """Sends a request: (connection, its socket, response). All of it, and reading what comes, ends at one deadline, unless the caller ends that."""
        deadline = deadline or time.monotonic() + self.timeout
        connection = self._kept() if kept else None
        used, connection = connection is not None, connection or self._new()
        try:
            if not used:
                self._connect(connection, deadline)
        except OSError as cause:
            connection.close()
            raise ConnectionLost(operation, cause, unsent=True) from None
        sock, lost = connection.sock, None
        sock.deadline = deadline
        try:
            try:
                connection.request(operation.split(" ")[0], self.prefix + path, None if body is None else body.encode(), headers)
            except OSError as cause:
                # The other side may have answered before the end of the request, and closed:
                # what is too large for it, for example. The connection is not used again.
                lost, sock.more = cause, True
            try:
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as cause:
                raise lost or cause
            self.heard(answer.headers)
            return connection, sock, answer
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            if used and time.monotonic() < deadline:
                return self.open(operation, path, headers, body, deadline=deadline)
            raise ConnectionLost(operation, cause) from None

    def whole(self, operation, path, headers, body, safe):
        """Sends a request and reads its answer whole: (status, headers, body)."""
        connection, sock, answer = self.open(operation, path, headers, body, kept=safe)
        parts, size = [], 0
        try:
            for part in _parts(answer):
                parts.append(part)
                size += len(part)
                if answer.status >= 300 and size > MAX_REFUSAL:  # of no error of the service
                    _end(answer, connection)
                    return answer.status, answer.headers, b""
                if size > MAX_ANSWER:
                    raise OSError(f"the answer is longer than {MAX_ANSWER} bytes")
        except (OSError, http.client.HTTPException) as cause:
            _end(answer, connection)
            raise ConnectionLost(operation, cause) from None
        with self._lock:
            if connection.sock is not None and not sock.more and len(self._idle) < 64:
                self._idle.append(connection)
                connection = None
        if connection:
            connection.close()
        return answer.status, answer.headers, b"".join(parts)

    def close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

def _end(answer, connection):
    """Ends an answer that is not read further, and then its connection. The answer goes first: it
    flushes its file, which from Python 3.13 on complains when that is closed."""
    answer.close()
    connection.close()

def _refusal(operation, answer, connection):
    """The error that an answer is which was not read yet; its connection is ended."""
    try:
        return _service_error(operation, answer.status, answer.headers, answer.read(MAX_REFUSAL))
    except (OSError, http.client.HTTPException) as cause:
        return ConnectionLost(operation, cause)
    finally:
        _end(answer, connection)

def _parts(answer):  # of its body, as they come; http.client itself takes an early end for the end
    while True:
        part = answer.read1(65536)
        if not part:
            break
        yield part
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    answer.close()
