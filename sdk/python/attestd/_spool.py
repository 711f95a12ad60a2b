"""Attestations that wait on disk, and sessions of them."""
from __future__ import annotations

import hashlib, json, os, re, secrets, socket, stat, threading, time
from dataclasses import dataclass, field, replace
from pathlib import Path

from ._agent import _agent_of
from ._errors import (
    AttestdError, ConnectionLost, FullError, _is_page, OtherLogError, _place, RecordMismatchError, RefusedError,
    ServiceError,
)
from ._jose import _name_of, _part_of, _sha256
from ._routes import _either, OPERATIONS
from ._session import _FurtherIDs, _is_refused, _is_reused, _Next, _refusal_of
from ._text import _prepare, _Prepared
from ._transport import _retryable
from .check import must

class Spool:
    """Attestations that wait on disk, for programs that cannot wait for the service.

    A folder with one file for each, written and synced under another name and then renamed, so that a process which is killed at any moment leaves a whole item or
    none. A file's name begins with the time, by which items are sent. It holds the SHA-256 of the rest in hex, whose key it is (made, or given by the caller) and the
    item as JSON, each behind a space. What does not have its checksum is not sent. Files that end in .json are of an earlier version, which made no checksum, and are
    sent as they are. Many processes and threads may share the folder without a lock, those of the TypeScript client too: each item has its own idempotency key, so that
    two which send the same one make one record. Nothing is ever dropped: what the service refuses, and what the disk has damaged, is moved to the folder refused, with
    the reason beside it.

    Of the service's rate limit a quarter is left to what is attested now."""

    def __init__(self, folder, client, *, limit=1 << 30):
        """folder is made where there is none, and so are those above it, for this user alone. One in which others may write, or that is below such a one, is refused: they could add,
        change and remove attestations. limit, in bytes, is how much may wait."""
        self.folder, self.client, self.limit = Path(folder), client, limit
        # the bytes that wait, as this process knows; -1 when it must look
        self._last, self._size, self._lock = 0, -1, threading.Lock()
        self._flushing = threading.Lock()
        # the names of the statements that wait, by file; None where an item has none
        self._signed = {}
        _check_private(self.folder)
        _make_private(self.folder)
        for name in ("new", "pending", "refusals", "refused", "sessions"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
            _check_private(self.folder / name)  # somebody may have made it meanwhile
        # left by a process that was killed before it acknowledged them; and of sessions that no one
        # goes on with
        for left, age in [(left, 3600) for left in (self.folder / "new").iterdir()] + [(left, 60 * 86400) for left in (self.folder / "refusals").iterdir()]:
            try:
                if left.stat().st_mtime < time.time() - age:
                    left.unlink()
            except FileNotFoundError:  # another process was first
                pass

    @_either
    def add(self, agent_id, action_type, payload, *, delegation=None, decide=False, folder=None, idempotency_key=None):
        """Puts an attestation on disk and returns its idempotency key, once it is synced."""
        return self._add(_prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "decide": decide, "folder": folder, "idempotencyKey": idempotency_key}))

    def session(self, id, *, continues=None):
        """Opens a session of the agent whose credential the client has, which goes on where the process before was, also after a kill. continues is the last of another session, which a
        new one goes on from."""
        return SpoolSession(self, id, continues=continues)

    def _put_refusal(self, refusal):  # for the process that has that session
        self._put("refusals", f"{_prefix_of(refusal['kid'], refusal['sid'])}.{refusal['seq']}", _sealed_json(refusal))

    def _refusals(self, kid, sid):
        """(file, refusal) of the statements of a session that a flush has found to be refused."""
        folder, prefix = self.folder / "refusals", _prefix_of(kid, sid) + "."
        found = [(folder / name, _unsealed_json(folder / name)) for name in os.listdir(folder) if name.startswith(prefix)]
        return [(file, refusal) for file, refusal in found if refusal]

    def _add(self, prepared):
        self._add_text(prepared.item(), prepared.made)
        return prepared.key

    def _add_text(self, text, made):  # returns the name of the file
        item = _sealed(text, made)
        with self._lock:  # preserves the order of one process when several come in a microsecond
            self._last = max(self._last + 1, time.time_ns() // 1000)
            name = f"{self._last:017}-{secrets.token_hex(8)}.item"
            self._size = (self._measure() if self._size < 0 else self._size) + len(item.encode())
            if self._size > self.limit:
                self._size = -1  # others may have sent what waits
                raise FullError(f"the spool holds its {self.limit} bytes")
        self._put("pending", name, item)
        return name

    def _waiting(self, statement):
        """(file, item, statement) of the statement of a name that waits; None where there is none."""
        with self._lock:
            names = self._names()
            self._signed = {name: self._signed[name] for name in names if name in self._signed}
            for name in names:
                if self._signed.get(name, statement) != statement:
                    continue
                try:
                    text = _unsealed((self.folder / "pending" / name).read_bytes())[1]
                    found = json.loads(text)["statement"]
                    self._signed[name] = _name_of(found)
                # it is gone, damaged or not signed
                except (OSError, ValueError, LookupError, TypeError):
                    self._signed[name] = None
                if self._signed[name] == statement:
                    return name, text, found
        return None

    def _remove(self, name):
        (self.folder / "pending" / name).unlink(missing_ok=True)

    @_either
    def attest(self, agent_id, action_type, payload, *, delegation=None, decide=False, folder=None, idempotency_key=None):
        """Appends a record, or puts it on disk while the service is away. Returns {"queued": False, "record": …} or {"queued": True, "idempotencyKey": …}. It raises what
        the service says of a request that it will never take. After a RecordMismatchError, too, the attestation is on disk."""
        prepared = _prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "decide": decide, "folder": folder, "idempotencyKey": idempotency_key})
        try:
            return {"queued": False, "record": self.client._attest(prepared)}
        except AttestdError as error:
            if isinstance(error, RecordMismatchError):
                self._add(prepared)
            if not _retryable(error, True) and not getattr(error, "foreign", False):
                raise
            return {"queued": True, "idempotencyKey": self._add(prepared)}

    def pending(self):
        """How many items wait."""
        return len(self._names())

    def flush(self):
        """Sends all that waits, by batches. It raises where the service is away or takes no more for now, and what was not sent stays; and a RefusedError where, all else being sent,
        items had to be set apart. retry_after of the ServiceError with the status 429 says when the rate limit takes more. A RecordMismatchError, perhaps as the __cause__, says that
        answers were not of what was sent: those items stay."""
        with self._flushing:
            found, cause, self._size = _Found([]), None, -1
            try:
                names = self._names()
                while names:
                    names = names[self._batch(names[: self._room()], found) :]
            except AttestdError as error:
                cause = error
            cause = found.mismatch or cause or found.unanswered
            if found.refused:
                raise RefusedError(self.folder / "refused", found.refused) from cause
            if cause:
                raise cause

    def run(self, every, stop, failed=lambda error: None):
        """Flushes every so many seconds, or as soon as the rate limit takes more, until stop, a
        threading.Event, is set. A flush that fails leaves what waits to the next, and failed learns
        of the error, but of a rate limit it does not."""
        wait = every
        while not stop.wait(wait):
            wait = every
            try:
                self.flush()
            except AttestdError as error:
                cause = error.__cause__ if isinstance(error, RefusedError) else error
                limited = isinstance(cause, ServiceError) and cause.status == 429
                if limited:
                    wait = cause.retry_after or every
                if cause is not error or not limited:
                    failed(error)

    def _room(self):
        """How many items the service takes now, if what is attested meanwhile is to find room.
        Raises where there is none."""
        rate = self.client._rate
        if rate is None or rate.limit and time.monotonic() >= rate.until:
            return 25  # a quarter of the usual limit; the answer says how many more
        if not rate.limit:
            return 1000
        room = rate.left - rate.limit // 4
        if room < 1:
            wait = max(0.1, rate.until - time.monotonic())
            raise ServiceError(OPERATIONS["attestBatch"].call, 429, "the rate limit has no room now for what waits in the spool", retry_after=wait)
        return min(room, 1000)

    def _batch(self, names, found):
        """Sends the first of some items, and returns how many are dealt with. A key is in a
        batch but once."""
        items, keys, size = [], set(), 0
        for read, name in enumerate(names):
            item = self._read(name, found)
            if item is None:
                continue
            size += len(item.text)
            if items and (size > 1 << 20 or item.key in keys):  # well below what the service takes
                self._send(items, found)
                return read
            items.append(item)
            keys.add(item.key)
        self._send(items, found)
        return len(names)

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

    def _read(self, name, found):
        """An item; None of one that is gone, for another process has sent it, and of one that the
        disk has damaged, which is set apart."""
        try:
            content = (self.folder / "pending" / name).read_bytes()
        except FileNotFoundError:
            return None
        try:
            made, text = (False, content.decode()) if name.endswith(".json") else _unsealed(content)
            item = json.loads(text)
            # which is its own key
            key = item["idempotencyKey"] if "idempotencyKey" in item else item["statement"]
            must(type(key) is str, "no key")
            return _Item(name, text, key, made)
        except (ValueError, LookupError, TypeError):
            self._set_apart(name, "the content on the disk is not what was written", found)
            return None

    def _send(self, items, found, renewed=()):
        while items:
            if found.blocked:
                items = [item for item in items if item.session() not in found.blocked]
                if not items:
                    return
            try:
                self.client.send_batch([item.text for item in items], patient=False)
            except RecordMismatchError as error:  # the others are recorded
                found.mismatch = found.mismatch or error
                for i, item in enumerate(items):
                    if i not in error.places:
                        self._remove(item.name)
                return
            except (ServiceError, ConnectionLost) as error:
                # Something before the service has answered, such as a gateway that takes an item
                # for an attack, or the connection is lost whenever an item is sent, which is too
                # large for something. That item waits, and so do later ones of its session.
                unanswered = _is_page(error) if isinstance(error, ServiceError) else not error.unsent
                if unanswered and len(items) == 1 and found.alone < 2:
                    found.unanswered, found.alone = found.unanswered or error, found.alone + 1
                    if items[0].session():
                        found.blocked.add(items[0].session())
                    return
                if unanswered and len(items) > 1:
                    found.lost += isinstance(error, ConnectionLost)
                    # a service that is away is found out by few attempts, which may take long
                    first = 1 if found.lost > 2 else (len(items) + 1) // 2
                    self._send(items[:first], found, renewed)
                    items = items[first:]
                    continue
                if isinstance(error, ConnectionLost) or error.foreign:
                    raise
                # A refusal that is about the credential and not about an item would empty the
                # spool.
                own = error.operation == OPERATIONS["attestBatch"].call and error.code != "FORBIDDEN_AGENT"
                named = error.pointer or error.code in ("AGENT_DISABLED", "AGENT_KEY_REQUIRED", "STATEMENT_KEY_UNKNOWN")
                if not own or error.status not in (400, 403, 413, 422) and error.code != "STATEMENT_REUSED" or error.status == 403 and not named:
                    raise
                at = 0 if len(items) == 1 else _place(error)
                # which of them it is, the answer does not say; or the batch is too large
                if at is None or at >= len(items):
                    half = (len(items) + 1) // 2
                    self._send(items[:half], found, renewed)
                    items = items[half:]
                elif error.code == "IDEMPOTENCY_KEY_REUSED" and items[at].made:
                    if items[at].name in renewed:
                        raise
                    renewed = {*renewed, items[at].name}
                    items = [*items[:at], self._rekey(items[at]), *items[at + 1 :]]
                else:
                    statement = json.loads(items[at].text).get("statement")
                    refusal = statement and _refusal_of(statement, error)
                    if refusal:
                        self._put_refusal(refusal)
                    self._set_apart(items[at].name, str(error), found)
                    items = items[:at] + items[at + 1 :]
            else:
                found.alone = found.lost = 0
                for item in items:
                    self._remove(item.name)
                return

    def _rekey(self, item):
        """The item under another key, on disk too, before it is sent."""
        body = json.dumps({"idempotencyKey": item.key}, separators=(",", ":"))[1:]
        must(item.text.endswith("," + body), "the key is not at the end")
        other = _Prepared(item.text[: -len(body) - 1] + "}", item.key, True).rekeyed()
        self._put("pending", item.name, _sealed(other.item(), True))
        return _Item(item.name, other.item(), other.key, True)

    def _set_apart(self, name, reason, found):
        self._put("refused", name + ".reason", reason + "\n")
        try:
            os.rename(self.folder / "pending" / name, self.folder / "refused" / name)
        except FileNotFoundError:
            pass
        found.refused.append((name, reason))

    # writes a file that is there whole or not at all, and stays when the power fails
    def _put(self, folder, name, text):
        made = self.folder / "new" / name
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text.encode())
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

def _make_private(folder):
    """Makes a folder and those above it, all for this user alone, whatever the umask is."""
    if not folder.exists():
        if folder.parent != folder:
            _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)

def _check_private(path, above=False, links=0):
    """Raises an error where another user, root aside, may replace what is at a path, or change it: when it, or a folder above it, belongs to another user or may be written by group
    or others. A folder with the sticky bit, such as /tmp, is no harm above a path. A link counts as what it leads to, and the place of the link."""
    if os.name != "posix":  # elsewhere no mode says so
        return
    path = os.path.abspath(path)
    try:
        found = os.lstat(path)
    except FileNotFoundError:  # it would be made in the folder above
        found = None
    if found:
        if found.st_uid not in (0, os.geteuid()):
            raise AttestdError(f"{path} belongs to another user ({found.st_uid}), who may change or replace what is there; name another place")
        if stat.S_ISLNK(found.st_mode):
            if links == 40:  # as Linux has it
                raise AttestdError(f"{path}: too many links")
            _check_private(os.path.join(os.path.dirname(path), os.readlink(path)), above, links + 1)
        elif found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX):
            raise AttestdError(f"{path}: group or others may write to it (mode {stat.S_IMODE(found.st_mode):o}), and so change or replace what is there; chmod go-w, or name another place")
    if os.path.dirname(path) != path:
        _check_private(os.path.dirname(path), True, links)

@dataclass
class _Found:  # by a flush, apart from what it has sent
    refused: list
    mismatch: RecordMismatchError | None = None  # the first answer that was not of what was sent
    # the error of the first item by itself that the service has not answered
    unanswered: AttestdError | None = None
    alone: int = 0  # of them in a row: after three the service cannot be reached
    lost: int = 0  # how often in a row the connection was lost with several items
    blocked: set = field(default_factory=set)  # sessions of which an item waits for that

@dataclass(frozen=True)
class _Item:
    name: str
    text: str  # JSON, with the key
    key: str
    made: bool

    def session(self):
        """Whose places the item's statement has; None outside of one."""
        statement = json.loads(self.text).get("statement")
        claims = _part_of(statement, 1) if statement else {}
        return (_part_of(statement, 0)["kid"], claims["sid"]) if "sid" in claims else None

def _sealed(text, made):
    rest = f"{'made' if made else 'given'} {text}"
    return f"{hashlib.sha256(rest.encode()).hexdigest()} {rest}"

def _unsealed(content):
    """(made, text) of a file; ValueError where its checksum is another."""
    checksum, _, rest = content.partition(b" ")
    must(hashlib.sha256(rest).hexdigest().encode() == checksum, "the checksum is another")
    whose, _, text = rest.partition(b" ")
    return whose == b"made", text.decode()

class SpoolSession:
    """A session of a spool. What is signed is on disk with its place before it is sent, so a process that is killed leaves no hole in the numbers and uses none twice. What the service
    refuses stays used too, at once or in a flush: the next statement names it. One process has a session at a time, its threads included, and the next one goes on where it was. Where
    another process that lives has the session, after its end, and under the next key of the agent, this one is under the ID with "~" and the time; its first statement names the last one
    of the run before, or the one that continues gives. While a statement waits, the same action under the same idempotency_key is the same statement."""

    def __init__(self, spool, id, *, continues=None):
        if not re.fullmatch("[A-Za-z0-9._-]{1,100}", id):
            raise AttestdError("the ID of a session must have 1 to 100 characters of A-Z, a-z, 0-9, '.', '_' and '-'")
        self._spool, self._agent, self._lock = spool, _agent_of(spool.client), threading.Lock()
        self._ids, self._signed, self._asked, self._left = _FurtherIDs(), None, False, None
        kid = self._agent.thumbprint
        self._name, taken, shared = _take_places(spool.folder / "sessions", [kid, *self._agent._known - {kid}], id)
        # what was signed last may be nowhere else; to send it twice makes no second record
        for _, state, _ in taken:
            if state.get("item") and state.get("at", 0) > (time.time() - 29 * 86400) * 1000:
                spool._add_text(state["item"], False)
        self._item, self._next = None, _Next(id)
        if taken:
            _, state, of = taken[-1]
            last = _Next(state["sid"], state["seq"], state.get("previous"), state.get("end", False), tuple(state.get("refused", ())), state.get("continues"), tuple(state.get("spent", ())))
            self._next = last if of == kid and not last.end else None
            before = last.last(of) or last.continues
        if shared or not self._next:
            self._next = _Next(self._ids.of(id), continues=before if taken else None)
        if continues and self._next.seq == 0:
            self._next = replace(self._next, continues=continues)
        self._place()
        for former, _, _ in taken:
            (spool.folder / "sessions" / former).unlink(missing_ok=True)

    @property
    def id(self):
        """The ID of the session. It changes where the service has other statements of that ID."""
        return self._next.sid

    @property
    def last(self):
        """The last statement, which a further session can go on from; None before the first."""
        return self._next.last(self._agent.thumbprint)

    @_either
    def add(self, action_type, payload, *, delegation=None, decide=False, folder=None, idempotency_key=None):
        """Signs an action at the next place. It returns when that is synced; a flush sends it."""
        self._add(self._prepared(action_type, payload, delegation, decide, folder, idempotency_key), False)

    @_either
    def attest(self, action_type, payload, *, delegation=None, decide=False, folder=None, idempotency_key=None, end=False):
        """As add, and sends it; with end, the last one of the session. Returns {"queued": False, "record": …} or, where there is no answer, {"queued": True}. What the service
        refuses is raised, and is in the folder refused then. After a RecordMismatchError or an OtherLogError it waits on disk, too."""
        prepared = self._prepared(action_type, payload, delegation, decide, folder, idempotency_key)
        if not self._asked:
            self._spool.client._learn_log()
        self._asked, sid = True, self.id
        try:
            return self._attest(prepared, end, True)
        except AttestdError as error:
            if not _is_reused(error) or self.id == sid:
                raise
        # Another statement has the place or the jti. Only the jti is the same elsewhere.
        return self._attest(prepared, end, False)

    def _prepared(self, action_type, payload, delegation, decide, folder, key):
        return _prepare({"agentId": self._agent.agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "decide": decide, "folder": folder, "idempotencyKey": key})

    def _attest(self, prepared, end, moves):
        signed, statement, name = self._add(prepared, end)
        try:
            record = self._spool.client._attest(signed)
        except AttestdError as error:
            if isinstance(error, (RecordMismatchError, OtherLogError)):
                raise
            if not _is_refused(error):
                return {"queued": True}
            with self._lock:
                self._add_signed()
                refusal = _refusal_of(statement, error)
                if refusal["sid"] == self.id:
                    self._refused(refusal, moves)
                    self._place()
                else:
                    self._spool._put_refusal(refusal)
                self._spool._set_apart(name, str(error), _Found([]))
            raise
        self._spool._remove(name)
        return {"queued": False, "record": record}

    def _add(self, prepared, end):
        with self._lock:
            self._add_signed()
            # what a flush has found
            refusals = self._spool._refusals(self._agent.thumbprint, self.id)
            for _, refusal in refusals:
                self._refused(refusal, True)
            id = self._next.id_of(prepared)
            waiting = id and self._spool._waiting((self._agent.thumbprint, id))
            if waiting:
                name, text, statement = waiting
                if not self._agent._says(statement, prepared, end):
                    raise AttestdError("the idempotency key is that of another action, which waits")
                return _Prepared(text, "", False), statement, name
            if self._next.end:
                raise AttestdError("the session has ended")
            signed, statement = self._agent._sign(prepared, self._next, end, id)
            self._next, self._item, self._signed = self._next.after(statement, end), signed.text, signed.text
            name = self._add_signed()
            for file, _ in refusals:
                file.unlink(missing_ok=True)
            return signed, statement, name

    def _add_signed(self):
        """Puts on disk what was signed: first its place, so that this is never used again."""
        if not self._signed:
            return None
        self._place()
        name = self._spool._add_text(self._signed, False)
        self._signed = None
        return name

    def _refused(self, refusal, moves):
        """Takes in a refusal. Where another statement has the place, or the jti, the session moves to another ID; when it is the jti, it comes back."""
        if refusal["hash"] == self._next.previous:
            self._item = None
        here, back, self._left = self._next.after_refusal(refusal), self._left, None
        if refusal["code"] != "STATEMENT_REUSED":
            self._next = here
        elif back and not moves:
            self._next = back
        else:
            self._next, self._left = self._next.elsewhere(refusal, self._ids.of(self.id)), here

    def _place(self):
        now, more = self._next, {"item": self._item, "refused": list(self._next.refused), "continues": self._next.continues, "spent": list(self._next.spent)}
        state = {"sid": now.sid, "seq": now.seq, "previous": now.previous, "end": now.end, "at": int(time.time() * 1000), **{name: value for name, value in more.items() if value}}
        self._spool._put("sessions", self._name, _sealed_json({name: value for name, value in state.items() if value is not None}))

def _sealed_json(value):
    text = json.dumps(value, separators=(",", ":"))
    return f"{_sha256(text)} {text}"

def _unsealed_json(path):  # None where the disk has changed it
    checksum, _, text = path.read_text("utf-8").partition(" ")
    return json.loads(text) if _sha256(text) == checksum else None

_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]

def _is_held(owner):  # whether the process that has a file lives, or may: it is on another machine
    host, pid = owner.split("-")[:2]
    if host != _HOST or int(pid) == os.getpid() or os.name == "nt":
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True

def _prefix_of(kid, id):  # of the files of a session
    return _sha256(f"{kid}\n{id}")[:32]

def _take_places(folder, kids, id):
    """Takes over the places of a session that processes have left, the newest last, by renaming the files, so that of many one gets each: the name of a new file, the (name, state, kid) of
    those, and whether another process may have the session. kids are the agent's own key, and then former ones."""
    new_name = lambda prefix: f"{prefix}.{_HOST}-{os.getpid()}-{secrets.token_hex(6)}"
    whose, taken, shared = {_prefix_of(kid, id): kid for kid in kids}, [], False
    for left in os.listdir(folder):
        prefix, _, owner = left.partition(".")
        if prefix not in whose:
            continue
        if _is_held(owner):
            shared = True
            continue
        name = new_name(prefix)
        try:
            os.rename(folder / left, folder / name)
        except FileNotFoundError:  # another was first
            shared = True
            continue
        state = _unsealed_json(folder / name)
        if state is None:
            shared = True
        else:
            taken.append((name, state, whose[prefix]))
    return new_name(_prefix_of(kids[0], id)), sorted(taken, key=lambda one: one[1].get("at", 0)), shared
