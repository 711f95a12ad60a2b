class Spool:
    """Attestations that wait on disk, for programs that cannot wait for the service.

    A folder with one file for each, written and synced under another name and then renamed, so that a process which is killed at any moment leaves a whole item or none. Its name begins with the
    time, by which items are sent. Many processes and threads may share the folder without a lock, those of the TypeScript client too: each item has its own idempotency key, so that two which send the same one make one record.
    Nothing is ever dropped: what the service refuses is moved to the folder refused, with the reason beside it."""

    def __init__(self, folder, client, *, limit=1 << 30):
        """limit, in bytes, is how much may wait."""
        self.folder, self.client, self.limit = Path(folder), client, limit
        self._last, self._size, self._lock = 0, -1, threading.Lock()  # the bytes that wait, as this process knows; -1 when it must look
        for name in ("new", "pending", "refused"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in (self.folder / "new").iterdir():  # by a process that was killed before it acknowledged them
            try:
                if left.stat().st_mtime < time.time() - 3600:
                    left.unlink()
            except FileNotFoundError:  # another process was first
                pass

    def add(self, agentId, actionType, payload, *, delegation=None, idempotencyKey=None):
        """Puts an attestation on disk and returns its idempotency key, once it is synced."""
        text, key = _prepare({"agentId": agentId, "actionType": actionType, "payload": payload, "delegation": delegation, "idempotencyKey": idempotencyKey})
        item = _item(text, key)
        with self._lock:  # the order of one process is kept when several come in a microsecond
            self._last = max(self._last + 1, time.time_ns() // 1000)
            name = f"{self._last:017}-{secrets.token_hex(8)}.json"
            self._size = (self._measure() if self._size < 0 else self._size) + len(item.encode())
            if self._size > self.limit:
                self._size = -1  # others may have sent what waits
                raise FullError(f"the spool holds its {self.limit} bytes")
        self._put("pending", name, item)
        return key

    def attest(self, agentId, actionType, payload, *, delegation=None, idempotencyKey=None):
        """Appends a record, or puts it on disk while the service is away. Returns {"queued": False, "record": …} or {"queued": True, "idempotencyKey": …}. It raises what
        the service says of a request that it will never take."""
        key = idempotencyKey or _new_key()
        try:
            return {"queued": False, "record": self.client.attest(agentId, actionType, payload, delegation=delegation, idempotencyKey=key)}
        except AttestdError as error:
            if not _retryable(error, True):
                raise
            return {"queued": True, "idempotencyKey": self.add(agentId, actionType, payload, delegation=delegation, idempotencyKey=key)}

    def pending(self):
        """How many items wait."""
        return len(self._names())

    def flush(self):
        """Sends all that waits, by batches. It raises where the service is away or takes no more for now, and what was not sent stays; and a RefusedError where, all else being sent,
        items had to be set apart."""
        refused, self._size = [], -1
        try:
            items, keys, size = [], set(), 0
            for name in self._names():
                text, key = self._read(name, refused)
                size += len(text)
                if items and (len(items) == 1000 or size > 1 << 20 or key in keys):  # well below what the service takes; and a key stands in a batch but once
                    self._send(items, refused)
                    items, keys, size = [], set(), len(text)
                if text:
                    items.append((name, text))
                    keys.add(key)
            self._send(items, refused)
        except AttestdError as error:
            if refused:
                raise RefusedError(self.folder / "refused", refused) from error
            raise
        if refused:
            raise RefusedError(self.folder / "refused", refused)

    def run(self, every, stop, failed=lambda error: None):
        """Flushes every so many seconds until stop, a threading.Event, is set. A flush that fails leaves what waits to the next, and failed learns of the error."""
        while not stop.wait(every):
            try:
                self.flush()
            except AttestdError as error:
                failed(error)

    def _measure(self):
        size = 0
        for name in self._names():
            try:
                size += (self.folder / "pending" / name).stat().st_size
            except FileNotFoundError:  # it was sent by another process
                pass
        return size

    def _names(self):
        return sorted(os.listdir(self.folder / "pending"))

    def _read(self, name, refused):
        """(text, key) of an item; empty of one that is gone, for another process has sent it, and of one that the disk has damaged, which is set apart."""
        try:
            text = (self.folder / "pending" / name).read_text("utf-8")
            key = json.loads(text)["idempotencyKey"]
            must(type(key) is str, "no key")
            return text, key
        except FileNotFoundError:
            return "", ""
        except (ValueError, LookupError, TypeError):
            self._set_apart(name, "what stands on the disk is no attestation", refused)
            return "", ""

    def _send(self, items, refused):
        while items:
            try:
                self.client.send_batch([text for _, text in items])
            except ServiceError as error:
                # A refusal that is about the credential and not about an item would empty the spool.
                if error.status not in (400, 403, 413, 422) or error.status == 403 and not error.pointer and error.code != "AGENT_DISABLED":
                    raise
                named = re.match(r"/records/([0-9]+)", error.pointer)
                at = 0 if len(items) == 1 else int(named[1]) if named else len(items)
                if at < len(items):
                    self._set_apart(items[at][0], str(error), refused)
                    items = items[:at] + items[at + 1 :]
                else:  # which of them it is, the answer does not say; or the batch is too large
                    half = (len(items) + 1) // 2
                    self._send(items[:half], refused)
                    items = items[half:]
            else:
                for name, _ in items:
                    (self.folder / "pending" / name).unlink(missing_ok=True)
                return

    def _set_apart(self, name, reason, refused):
        self._put("refused", name + ".reason", reason + "\n")
        try:
            os.rename(self.folder / "pending" / name, self.folder / "refused" / name)
        except FileNotFoundError:
            pass
        refused.append((name, reason))

    def _put(self, folder, name, text):  # writes a file that is there whole or not at all, and stays when the power fails
        made = self.folder / "new" / name
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, self.folder / folder / name)
        if os.name == "nt":
            return  # which cannot sync a folder
        kept = os.open(self.folder / folder, os.O_RDONLY)
        try:
            os.fsync(kept)
        finally:
            os.close(kept)
