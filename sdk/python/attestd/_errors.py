"""The errors of the client, and how answers become errors."""

import http.client, json, re, time
from email.utils import parsedate_to_datetime

class AttestdError(Exception):
    """What every error of this package is."""

class ServiceError(AttestdError):
    """An answer of the service that is not a success. Programs go by status and code; the codes stand in the API reference. pointer names the member of the request that is
    refused (a JSON Pointer, or ""), request_id finds the cause in the service's log, retry_after are the seconds until a retry is welcome (0 where it does not say). foreign says that
    the answer is not the service's, but that of something before it, such as a gateway's page: it lacks the member error or the header X-Request-ID, and nothing is decided by it."""

    def __init__(self, operation, status, reason, code="", pointer="", request_id="", retry_after=0.0, foreign=False):
        super().__init__(operation, status, reason)
        # method and route, for no path: keys stand in paths
        self.operation, self.status, self.reason = operation, status, reason
        self.code, self.pointer, self.request_id, self.retry_after = code, pointer, request_id, retry_after
        # whether an earlier attempt had no answer, so that it may have had an effect
        self.repeated, self.foreign = False, foreign

    def __str__(self):
        where = (f" at {self.pointer}" if self.pointer else "") + (f" ({self.code})" if self.code else "")
        where += "; that is no answer of attestd, but of something before it" if self.foreign else ""
        return f"{self.operation}: {self.status} {self.reason}{where}" + (f", request {self.request_id}" if self.status >= 500 and self.request_id else "")

class ConnectionLost(AttestdError):
    """A call that got no whole answer. Whether it was carried out is unknown, unless unsent says that no connection was made."""

    def __init__(self, operation, cause, unsent=False):
        super().__init__(f"{operation}: no answer: {cause or type(cause).__name__}")
        self.unsent = unsent

class PayloadError(AttestdError, ValueError):
    """A value that cannot be sent as it is; nothing was sent. pointer is its place in what was given."""

    def __init__(self, pointer, reason):
        super().__init__(f"{pointer}: {reason}" if pointer else reason)
        self.pointer = pointer

PRUNED_DECISION = "pruned decision"

class RecordMismatchError(AttestdError):
    """ALARM: the service, or a proxy in front of it, has answered with records of something else than was sent. Whether what was sent is recorded is unknown. places says which of the
    items differ, and in what: agentId, actionType, payload, statement, delegation, decision, companyId or hash; PRUNED_DECISION where the payload was pruned with the decision, so that
    nothing can be compared."""

    def __init__(self, operation, places):
        at, what = next(iter(places.items()))
        super().__init__(f"{operation}: the service says that item {at} is recorded already, and that its payload was pruned with the decision: whether the record is of what was sent cannot be compared. "
                         "The archive of the operator has it" if what == PRUNED_DECISION else
                         f"ALARM: {operation}: {len(places)} of the records in the answer are not of what was sent: that of item {at} has another {what}. "
                         "Whether it is recorded is unknown. Find out what answers in place of the service")
        self.places = places

class VerificationError(AttestdError):
    """What was checked does not hold. code names the step that failed: for evidence and tokens one of the reference's, else KEY,
    RECORD, PRUNED, PROOF or STATUS."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code

class NotApprovedError(AttestdError):
    """A call that must not be made, for its approval is denied, expired, withdrawn or used up, or still pending when timeout ended. approval is what the service says of it."""

    def __init__(self, approval):
        super().__init__(f"the approval {approval['approvalId']} is {approval['state']}" + (f": {approval['reason']}" if approval.get("reason") else ""))
        self.approval = approval

class MissingCryptography(AttestdError, ImportError):
    """The package cryptography is not installed, without which no signature is checked."""

class RefusedError(AttestdError):
    """The service has refused items of a spool for good, or the disk has damaged them: refused is a list of (file, reason). They stand in folder, each with its reason. What was left has
    been sent or, where there is a __cause__, waits for that reason."""

    def __init__(self, folder, refused):
        super().__init__(f"{len(refused)} attestations were refused and stand in {folder}: {refused[0][1]}")
        self.folder, self.refused = folder, refused

class FullError(AttestdError):
    """The spool holds as much as it may. Nothing was added."""

def _service_error(operation, status, headers, body):
    said = _object(body)
    text = lambda name: said[name] if type(said.get(name)) is str else ""
    reason = ": ".join(filter(None, [text("error") or http.client.responses.get(status, "not the answer of the service"), text("error_description")]))
    request_id = headers.get("X-Request-ID", "")
    return ServiceError(operation, status, reason, text("code"), text("pointer"), request_id, _retry_after(headers.get("Retry-After", "")), not (text("error") and request_id))

def _is_page(error):
    """Whether something before the service has refused a request in its place."""
    return error.foreign and 400 <= error.status < 500 and error.status not in (408, 429)

def _wants_nonce(error):
    """Whether a request was refused for the nonce of its proof alone (RFC 9449, section 8): nothing was done."""
    return isinstance(error, ServiceError) and (error.code == "USE_DPOP_NONCE" or error.status == 400 and error.reason.startswith("use_dpop_nonce"))

def _object(body):  # {} of what is none, a proxy's page for example
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    if type(said) is str:  # as AuthZEN has errors
        return {"error": said}
    return said if type(said) is dict else {}

def _retry_after(said):  # seconds, or a date
    if re.fullmatch("[0-9]{1,9}", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0

def _place(error):  # of the item of a batch that a refusal names, or None
    named = re.match(r"/records/([0-9]+)", error.pointer)
    return int(named[1]) if named else None

class UnknownKeyError(AttestdError):
    """The agent has a key that it does not know: its holder can sign in its name."""

    def __init__(self, agent, key):
        super().__init__(f"ALARM: the agent {agent} has the key {key['thumbprint']}, enrolled at {key['createdAt']}, which this client does not know: its holder can sign in its "
                         "name. If it is not yours, revoke it and find out who enrolled it: the control log says by which credential")
        self.agent, self.key = agent, key

class OtherLogError(AttestdError):
    """The service names another log than the agent knows: another service answers, or one that has another history. The agent signs nothing from then on, and sends it no statement."""

    def __init__(self, agent, known, named):
        super().__init__(f"ALARM: the service says that the actions of the agent {agent} go into the log {named}, and this client knows the log {known}: it signs nothing. Find out which "
                         "service answers under this address; if its log has changed for a reason that you know, change log in the key file")
        self.agent, self.known, self.named = agent, known, named
