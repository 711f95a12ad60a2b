"""Attestations as the JSON text that is sent."""
from __future__ import annotations

import difflib, hashlib, json, re, secrets, time
from dataclasses import dataclass
from decimal import Decimal

from ._errors import PayloadError

def _encode(value):
    """The JSON of a value, made fit for canonical JSON: see the package's docstring."""
    try:
        _check(value, "")
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as refused:
        raise refused if isinstance(refused, PayloadError) else PayloadError("", f"has no form in JSON: {refused}") from None
    return _well_formed(text)

# two surrogates that belong together become their character, as in UTF-16, and others U+FFFD
def _well_formed(text):
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

def _check(value, at):
    if isinstance(value, dict):
        for name, member in value.items():
            _check(member, at + "/" + str(name).replace("~", "~0").replace("/", "~1"))
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            _check(element, f"{at}/{i}")
    elif isinstance(value, float) and value - value != 0:
        raise PayloadError(at, f"{value} has no form in JSON")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        if value.bit_length() > 1024 or Decimal(repr(float(value))) != value:
            raise PayloadError(at, "an integer beyond 2**53 that JSON numbers do not carry without loss; give it as a string")

def _prepare(attestation):
    """An attestation as it is sent, made once, for all retries. Refuses what could never be
    sent."""
    known = ("agentId", "actionType", "payload", "delegation", "decide", "folder", "passport", "idempotencyKey")
    _known("an attestation", attestation, known)
    body = {name: attestation[name] for name in ("agentId", "actionType", "payload", "delegation", "decide", "folder", "passport") if name in attestation}
    for name in ("agentId", "actionType"):
        if not isinstance(body.get(name), str) or not 1 <= len(body[name]) <= 256:
            raise PayloadError(f"/{name}", "must have 1 to 256 characters")
    if "payload" not in body:
        raise PayloadError("/payload", "is missing; None is a payload")
    if body.get("delegation", "") is None:
        del body["delegation"]
    for name in ("decide", "folder", "passport"):
        if not body.get(name):
            body.pop(name, None)
    given = attestation.get("idempotencyKey") or ""
    if given and not re.fullmatch("[ -~]{1,255}", given):
        raise PayloadError("/idempotencyKey", "must have 1 to 255 printable ASCII characters")
    return _Prepared(_encode(body), given or _new_key(), not given)

@dataclass(frozen=True)
class _Prepared:
    text: str  # JSON, without the key
    key: str
    made: bool  # the key is ours, and not the caller's

    def item(self):  # of a batch; a statement is its own key
        return self.text if not self.key else f'{self.text[:-1]},"idempotencyKey":{json.dumps(self.key)}}}'

    def rekeyed(self):
        """The same under another key, which all who have this one choose alike, so that it is
        recorded once."""
        return _Prepared(self.text, f"{self.key[:12]}-{hashlib.sha256(self.item().encode()).hexdigest()[:32]}", True)

def _new_key():
    """A unique key: the time, and 128 random bits. The time is first, because the service stores keys in the order of their beginnings, and those of one time cost it least."""
    return f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(16)}"

def _header_key(key):  # bare where it can be, else as a quoted string (RFC 8941, section 3.3.3)
    return '"' + re.sub(r'(["\\])', r"\\\1", key) + '"' if re.search(r'[ "\\]', key) else key

def _known(what, given, names):
    """Raises a TypeError for a name that is none of these; it says which one was perhaps meant.
    What is misspelt would be ignored otherwise: an expiry, for example."""
    for name in given:
        if name not in names:
            plain = lambda text: text.replace("_", "").lower()
            close = difflib.get_close_matches(plain(name), map(plain, names), 1, 0.6)
            meant = [f"; did you mean {one}?" for one in names if [plain(one)] == close]
            raise TypeError(f"{what} has no argument {name}" + (meant or [f"; it has {', '.join(names) or 'none'}"])[0])
