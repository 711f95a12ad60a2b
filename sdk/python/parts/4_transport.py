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

class _Connections:
    """Connections to one service. One that is kept may have been closed by the other side meanwhile, which shows only when it is used, so requests that must not be carried out twice always
    get a new one. Redirects are not followed: a redirected POST becomes a GET. Proxies of the environment are not used."""

    def __init__(self, url, timeout, context):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise AttestdError("the URL must look like https://attest.example.com, without a password or a query")
        self.prefix, self.timeout = parts.path.rstrip("/"), timeout
        kind = http.client.HTTPConnection if parts.scheme == "http" else functools.partial(http.client.HTTPSConnection, context=context or ssl.create_default_context())
        self._new = lambda: kind(parts.hostname, parts.port, timeout=timeout)
        self._idle, self._lock = [], threading.Lock()
        self.heard = lambda headers: None  # is told the headers of each answer

    def open(self, operation, path, headers, body, kept=False):
        """Sends a request: (connection, its socket, response, deadline)."""
        with self._lock:
            connection = self._idle.pop() if kept and self._idle else None
        used, connection = connection is not None, connection or self._new()
        deadline = time.monotonic() + self.timeout
        try:
            if not used:
                connection.connect()
        except OSError as cause:
            connection.close()
            raise ConnectionLost(operation, cause, unsent=True) from None
        try:
            connection.sock.settimeout(self.timeout)
            sock = connection.sock
            connection.request(operation.split(" ")[0], self.prefix + path, None if body is None else body.encode(), headers)
            answer = connection.getresponse()
            self.heard(answer.headers)
            return connection, sock, answer, deadline
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            if used:
                return self.open(operation, path, headers, body)
            raise ConnectionLost(operation, cause) from None

    def whole(self, operation, path, headers, body, safe):
        """Sends a request and reads its answer whole: (status, headers, body)."""
        connection, sock, answer, deadline = self.open(operation, path, headers, body, kept=safe)
        parts = []
        try:
            for part in _parts(answer):
                parts.append(part)
                # at its end, with Connection: close, the socket is closed, too
                if not answer.isclosed():
                    sock.settimeout(max(0.001, deadline - time.monotonic()))
        except (OSError, http.client.HTTPException) as cause:
            _end(answer, connection)
            raise ConnectionLost(operation, cause) from None
        with self._lock:
            if connection.sock is not None and len(self._idle) < 64:
                self._idle.append(connection)
        return answer.status, answer.headers, b"".join(parts)

    def close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

def _end(answer, connection):
    """Ends an answer that nobody reads on, and then its connection. The answer goes first: it
    flushes its file, which from Python 3.13 on complains when that is closed."""
    answer.close()
    connection.close()

def _refusal(operation, answer, connection):
    """The error that an answer is which was not read yet; its connection is ended."""
    try:
        return _service_error(operation, answer.status, answer.headers, answer.read(65536))
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
