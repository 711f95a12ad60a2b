# The types of the Python client. Made of sdk/python/stub.pyi and the API reference by go
# generate ./web.
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Optional, Protocol, TypedDict, Union, overload
from typing_extensions import NotRequired, Self, TypeAlias

__all__ = [
    "Agent", "AgentKey", "AsyncClient", "AttestdError", "Client", "ConnectionLost", "FullError", "Keys", "OtherLogError", "MissingCryptography", "NotApprovedError", "OAuth", "OPERATIONS", "PayloadError", "RecordMismatchError", "RefusedError", "Retry", "ServiceError",
    "Session", "Signer", "Spool", "SpoolSession", "UnknownKeyError", "VerificationError", "generate_agent_key", "verify_evidence", "verify_inclusion", "verify_passport", "verify_proof", "verify_record", "verify_status", "verify_token",
]

APIKey = TypedDict("APIKey", {
    "createdAt": Timestamp,
    "key": Secret,
    "label": Union[str, None],
})

AboutToken = TypedDict("AboutToken", {
    "client_assertion": NotRequired[str],
    "client_assertion_type": NotRequired[str],
    "client_id": NotRequired[str],
    "client_secret": NotRequired[str],
    "token": str,
    "token_type_hint": NotRequired[str],
})

AccessDecisionContextError = TypedDict("AccessDecisionContextError", {
    "message": str,
    "status": int,
})

AccessDecisionContext = TypedDict("AccessDecisionContext", {
    "by": list[str],
    "code": NotRequired[str],
    "error": NotRequired[AccessDecisionContextError],
    "verdict": DecisionVerdict,
})

AccessDecision = TypedDict("AccessDecision", {
    "context": AccessDecisionContext,
    "decision": bool,
})

AccessDecisions2 = TypedDict("AccessDecisions2", {
    "evaluations": list[AccessDecision],
})

AccessDecisions: TypeAlias = Union[AccessDecision, AccessDecisions2]

AccessEvaluation = TypedDict("AccessEvaluation", {
    "action": AuthZENAction,
    "context": NotRequired[AuthZENContext],
    "resource": AuthZENEntity,
    "subject": AuthZENEntity,
})

AccessEvaluationsEvaluations1Item = TypedDict("AccessEvaluationsEvaluations1Item", {
    "action": NotRequired[AuthZENAction],
    "context": NotRequired[AuthZENContext],
    "resource": NotRequired[AuthZENEntity],
    "subject": NotRequired[AuthZENEntity],
})

AccessEvaluationsOptions1 = TypedDict("AccessEvaluationsOptions1", {
    "evaluations_semantic": NotRequired[Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit", None]],
})

AccessEvaluations = TypedDict("AccessEvaluations", {
    "action": NotRequired[AuthZENAction],
    "context": NotRequired[AuthZENContext],
    "evaluations": NotRequired[Union[list[AccessEvaluationsEvaluations1Item], None]],
    "options": NotRequired[Union[AccessEvaluationsOptions1, None]],
    "resource": NotRequired[AuthZENEntity],
    "subject": NotRequired[AuthZENEntity],
})

Act = TypedDict("Act", {
    "act": NotRequired[Act],
    "sub": SPIFFEID,
})

AgentAuthority = TypedDict("AgentAuthority", {
    "agentId": str,
    "last": ControlEntry,
    "next": ControlEntry,
    "registered": ControlEntry,
    "state": Literal["registered", "disabled", "notRegistered", "unknown"],
})

AgentDisabled = TypedDict("AgentDisabled", {
    "code": Literal["AGENT_DISABLED"],
    "error": str,
})

AgentKeyConflict = TypedDict("AgentKeyConflict", {
    "code": Literal["KEY_EXISTS", "TOO_MANY"],
    "error": str,
})

AgentKeyError = TypedDict("AgentKeyError", {
    "code": NotRequired[Literal["INVALID_DPOP_PROOF", "USE_DPOP_NONCE", "ENDORSEMENT_REQUIRED", "ENDORSEMENT_INVALID"]],
    "error": str,
})

AgentKeyObjectJwk = TypedDict("AgentKeyObjectJwk", {
    "crv": Literal["Ed25519", "P-256"],
    "kty": Literal["OKP", "EC"],
    "x": str,
    "y": NotRequired[str],
})

AgentKeyObject = TypedDict("AgentKeyObject", {
    "agentId": Segment,
    "alg": Literal["EdDSA", "ES256"],
    "createdAt": Timestamp,
    "expiresAt": Union[Timestamp, None],
    "jwk": AgentKeyObjectJwk,
    "label": Union[str, None],
    "revokedAt": Union[Timestamp, None],
    "thumbprint": Thumbprint,
})

AgentObject = TypedDict("AgentObject", {
    "agentId": Segment,
    "companyId": Segment,
    "disabledAt": NotRequired[Timestamp],
    "metadata": NotRequired[Metadata],
    "metadataAsSent": NotRequired[MetadataAsSent],
    "registeredAt": Timestamp,
    "spiffeId": SPIFFEID,
})

AgentPage = TypedDict("AgentPage", {
    "agents": list[AgentObject],
    "next": NotRequired[str],
    "total": int,
})

AgentRegistered = TypedDict("AgentRegistered", {
    "agentId": Segment,
    "registeredAt": Timestamp,
    "spiffeId": SPIFFEID,
    "svid": JWT,
})

AgentSVID = TypedDict("AgentSVID", {
    "agentId": Segment,
    "expiresAt": NotRequired[Timestamp],
    "spiffeId": SPIFFEID,
    "svid": IssuedJWT,
})

AgentToken = TypedDict("AgentToken", {
    "expiresAt": Timestamp,
    "token": IssuedJWT,
    "tokenType": Literal["urn:ietf:params:oauth:token-type:jwt"],
})

AlreadyRotated = TypedDict("AlreadyRotated", {
    "code": Literal["PASSPORT_REVOKED"],
    "error": Literal["Passport has already been revoked"],
})

Approval = TypedDict("Approval", {
    "actionType": str,
    "agentId": str,
    "approvalId": ApprovalID,
    "approvers": list[str],
    "by": list[str],
    "controlIndex": Union[int, None],
    "createdAt": Timestamp,
    "expiresAt": Timestamp,
    "hash": SHA256,
    "index": int,
    "log": str,
    "quorum": int,
    "reason": Union[str, None],
    "remaining": NotRequired[int],
    "requestReason": Union[str, None],
    "state": ApprovalState,
    "tool": str,
    "url": str,
    "uses": NotRequired[int],
})

ApprovalChoice = TypedDict("ApprovalChoice", {
    "reason": NotRequired[Union[str, None]],
    "until": NotRequired[Union[Timestamp, None]],
    "uses": NotRequired[Union[int, None]],
    "verdict": Literal["approve", "deny"],
})

ApprovalConflict = TypedDict("ApprovalConflict", {
    "code": Literal["APPROVAL_LIMIT", "APPROVAL_DECIDED", "APPROVAL_USED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN", "APPROVAL_COUNTED", "RELYING_PARTY"],
    "error": str,
})

ApprovalDecision = TypedDict("ApprovalDecision", {
    "credential": dict[str, Any],
    "reason": NotRequired[Union[str, None]],
    "until": NotRequired[Union[Timestamp, None]],
    "uses": NotRequired[Union[int, None]],
    "verdict": Literal["approve", "deny"],
})

ApprovalForbidden = TypedDict("ApprovalForbidden", {
    "code": Literal["APPROVER_REQUIRED", "APPROVAL_OWN", "PERSON_REQUIRED", "COMPANY_SUSPENDED", "AGENT_DISABLED"],
    "error": str,
})

ApprovalID: TypeAlias = str

ApprovalList = TypedDict("ApprovalList", {
    "approvals": list[Approval],
    "next": NotRequired[str],
})

ApprovalObject = TypedDict("ApprovalObject", {
    "agentId": str,
    "approvalId": ApprovalID,
    "expiresAt": Timestamp,
    "hash": SHA256,
    "index": int,
    "log": str,
    "person": str,
    "reason": Union[str, None],
    "tool": str,
    "uses": int,
    "verdict": Literal["approve", "deny"],
})

ApprovalOptions = TypedDict("ApprovalOptions", {
    "challenge": str,
    "object": ApprovalObject,
    "publicKey": dict[str, Any],
})

ApprovalRequest = TypedDict("ApprovalRequest", {
    "actionType": NotRequired[Union[str, None]],
    "agentId": str,
    "arguments": dict[str, Any],
    "callId": NotRequired[Union[str, None]],
    "expiresIn": NotRequired[Union[int, None]],
    "reason": NotRequired[Union[str, None]],
    "tool": str,
})

ApprovalState: TypeAlias = Literal["pending", "approved", "denied", "expired", "used", "withdrawn"]

ArgumentTest = TypedDict("ArgumentTest", {
    "absent": NotRequired[Literal[True]],
    "equals": NotRequired[Scalar],
    "in": NotRequired[list[Scalar]],
    "max": NotRequired[float],
    "min": NotRequired[float],
    "prefix": NotRequired[str],
})

AttestError = TypedDict("AttestError", {
    "code": NotRequired[Literal["STATEMENT_MALFORMED", "STATEMENT_SIGNATURE_INVALID", "STATEMENT_MISMATCH", "STATEMENT_TIME"]],
    "error": str,
    "pointer": NotRequired[ItemPointer],
})

AttestItem: TypeAlias = Any

AttestRequest = TypedDict("AttestRequest", {
    "actionType": str,
    "agentId": str,
    "decide": NotRequired[Union[bool, None]],
    "delegation": NotRequired[Union[str, None]],
    "folder": NotRequired[Union[str, None]],
    "passport": NotRequired[Union[str, None]],
    "payload": Any,
    "statement": NotRequired[Union[str, None]],
})

AttestationReceipt = TypedDict("AttestationReceipt", {
    "agentId": Segment,
    "agentSpiffeId": SPIFFEID,
    "delegationChain": SPIFFEIDs,
    "issuedBy": SPIFFEID,
    "org": Segment,
    "orgSpiffeId": SPIFFEID,
    "passportExpiresAt": Timestamp,
    "passportId": JTI,
    "passportIssuedAt": Timestamp,
    "scopeGranted": str,
    "tool": str,
    "type": str,
    "v": Literal[1],
    "verifiedAt": Timestamp,
    "verifier": str,
})

AttestationRecordPayload1 = TypedDict("AttestationRecordPayload1", {
    "actionType": str,
    "agentId": str,
    "companyId": Segment,
    "decision": NotRequired[Decision],
    "log": NotRequired[Literal["control"]],
    "payload": Any,
    "statement": NotRequired[str],
})

AttestationRecord = TypedDict("AttestationRecord", {
    "delegation": NotRequired[DelegationInfo],
    "hash": SHA256,
    "index": int,
    "payload": Union[AttestationRecordPayload1, None],
    "pruned": NotRequired[Literal[True]],
    "signature": Signature,
    "timestamp": Timestamp,
})

AuthZENAction = TypedDict("AuthZENAction", {
    "name": str,
    "properties": NotRequired[Union[dict[str, Any], None]],
})

AuthZENContext1 = TypedDict("AuthZENContext1", {
    "arguments": NotRequired[Union[dict[str, Any], None]],
})

AuthZENContext: TypeAlias = Union[AuthZENContext1, None]

AuthZENEntity = TypedDict("AuthZENEntity", {
    "id": str,
    "properties": NotRequired[Union[dict[str, Any], None]],
    "type": str,
})

AuthZENError: TypeAlias = str

AuthZENMetadata = TypedDict("AuthZENMetadata", {
    "access_evaluation_endpoint": str,
    "access_evaluations_endpoint": str,
    "policy_decision_point": str,
})

AuthorityControl = TypedDict("AuthorityControl", {
    "logId": str,
    "origin": str,
    "size": int,
})

AuthorityDelegation1 = TypedDict("AuthorityDelegation1", {
    "agents": list[AgentAuthority],
    "byActor": bool,
    "delegationChain": list[str],
})

AuthorityPassport = TypedDict("AuthorityPassport", {
    "issued": ControlEntry,
    "jti": str,
    "revoked": ControlEntry,
    "state": Literal["issued", "revoked", "expired", "issuedLater", "neverIssued", "unknown"],
})

AuthorityPassportsItem = TypedDict("AuthorityPassportsItem", {
    "authorizationDetails": NotRequired[AuthorizationDetails],
    "expiresAt": Timestamp,
    "issued": ControlEntry,
    "issuedAt": Timestamp,
    "jti": str,
    "revoked": ControlEntry,
    "scopes": list[str],
})

AuthoritySigningKey = TypedDict("AuthoritySigningKey", {
    "kid": str,
    "rotated": ControlEntry,
})

AuthorityStatement = TypedDict("AuthorityStatement", {
    "enrolled": ControlEntry,
    "kid": Thumbprint,
    "revoked": ControlEntry,
})

Authority = TypedDict("Authority", {
    "agent": AgentAuthority,
    "cannotSay": list[str],
    "control": AuthorityControl,
    "delegation": Union[AuthorityDelegation1, None],
    "index": int,
    "passport": NotRequired[AuthorityPassport],
    "passports": list[AuthorityPassportsItem],
    "signingKey": AuthoritySigningKey,
    "statement": NotRequired[AuthorityStatement],
    "timestamp": Timestamp,
})

AuthorizationDetails: TypeAlias = list[ToolCallDetail]

AuthorizationDetailsOrNone: TypeAlias = Union[list[ToolCallDetail], None]

CedarPolicy = TypedDict("CedarPolicy", {
    "cedar": str,
    "description": NotRequired[str],
    "policyId": str,
    "putAt": Timestamp,
    "putBy": NotRequired[str],
    "sha256": SHA256,
})

CedarPolicyList = TypedDict("CedarPolicyList", {
    "policies": list[CedarPolicy],
    "revision": int,
    "sha256": SHA256,
})

CedarPolicyRequest = TypedDict("CedarPolicyRequest", {
    "cedar": str,
    "description": NotRequired[Union[str, None]],
})

ChainInvalid = TypedDict("ChainInvalid", {
    "error": str,
    "failedAtIndex": int,
    "pruned": NotRequired[PrunedRecords],
    "valid": Literal[False],
})

ChainValid = TypedDict("ChainValid", {
    "merkleRoot": SHA256,
    "pruned": NotRequired[PrunedRecords],
    "valid": Literal[True],
})

CompanySuspended = TypedDict("CompanySuspended", {
    "reason": str,
    "since": Timestamp,
})

Company = TypedDict("Company", {
    "companyId": Segment,
    "metadata": NotRequired[Metadata],
    "metadataAsSent": NotRequired[MetadataAsSent],
    "registeredAt": Timestamp,
    "spiffeId": SPIFFEID,
    "suspended": NotRequired[CompanySuspended],
})

CompanyCreated = TypedDict("CompanyCreated", {
    "apiKey": Secret,
    "companyId": Segment,
    "registeredAt": Timestamp,
    "spiffeId": SPIFFEID,
})

CompanyKey = TypedDict("CompanyKey", {
    "compromisedAt": NotRequired[Timestamp],
    "createdAt": Timestamp,
    "endedAt": NotRequired[Timestamp],
    "fingerprint": Fingerprint,
    "fromIndex": int,
    "jwk": JWK,
    "kid": KID,
    "pem": PEM,
    "rotation": NotRequired[Rotation],
})

CompanyPolicy = TypedDict("CompanyPolicy", {
    "attest": Literal["any", "key"],
    "changes": NotRequired[Literal["any", "people"]],
    "decisions": NotRequired[Literal["denied", "all"]],
    "dryRun": NotRequired[PolicyDryRun],
    "exchangeAudiences": NotRequired[ExchangeAudiences],
})

CompanyPolicyRequest = TypedDict("CompanyPolicyRequest", {
    "attest": NotRequired[Literal["any", "key", None]],
    "changes": NotRequired[Literal["any", "people", None]],
    "decisions": NotRequired[Literal["denied", "all", None]],
    "dryRun": NotRequired[Union[bool, None]],
    "exchangeAudiences": NotRequired[ExchangeAudiences],
})

CompanySVID = TypedDict("CompanySVID", {
    "companyId": Segment,
    "spiffeId": SPIFFEID,
    "svid": JWT,
})

CompanySuspended = TypedDict("CompanySuspended", {
    "code": Literal["COMPANY_SUSPENDED"],
    "error": str,
})

Consistency = TypedDict("Consistency", {
    "from": int,
    "fromRoot": SHA256,
    "proof": list[SHA256],
    "to": int,
    "toRoot": SHA256,
})

ControlEntry1 = TypedDict("ControlEntry1", {
    "actionType": str,
    "by": Union[str, None],
    "index": int,
    "timestamp": Timestamp,
})

ControlEntry: TypeAlias = Union[ControlEntry1, None]

Credential = TypedDict("Credential", {
    "clientId": NotRequired[str],
    "createdAt": Timestamp,
    "expiresAt": NotRequired[Timestamp],
    "fingerprint": CredentialFingerprint,
    "kind": Literal["apiKey", "oauthClient"],
    "label": NotRequired[str],
    "lastUsedAt": NotRequired[Timestamp],
    "madeBy": NotRequired[CredentialFingerprint],
    "role": Role,
})

CredentialFingerprint: TypeAlias = str

CredentialList = TypedDict("CredentialList", {
    "credentials": list[Credential],
})

CredentialRequest = TypedDict("CredentialRequest", {
    "credential": PublicKeyCredential,
})

CursorBeyondLog = TypedDict("CursorBeyondLog", {
    "code": Literal["CURSOR_BEYOND_LOG"],
    "error": str,
})

DecisionContext = TypedDict("DecisionContext", {
    "delegation": NotRequired[list[str]],
    "details": NotRequired[list[list[Any]]],
    "door": str,
    "folder": NotRequired[str],
    "groups": NotRequired[list[str]],
    "person": NotRequired[str],
    "scopes": NotRequired[list[str]],
    "signed": NotRequired[bool],
    "time": Timestamp,
})

Decision = TypedDict("Decision", {
    "approval": NotRequired[ApprovalID],
    "by": list[str],
    "code": NotRequired[str],
    "context": DecisionContext,
    "errors": NotRequired[list[str]],
    "passport": NotRequired[str],
    "policies": SHA256,
    "revision": int,
    "verdict": DecisionVerdict,
})

DecisionVerdict: TypeAlias = Literal["allow", "deny", "ask"]

DelegateRequest = TypedDict("DelegateRequest", {
    "actingOn": Segment,
    "agentId": str,
    "authorizationDetails": NotRequired[AuthorizationDetailsOrNone],
    "scope": str,
})

Delegated = TypedDict("Delegated", {
    "act": Act,
    "authorizationDetails": NotRequired[AuthorizationDetails],
    "jti": JTI,
    "scope": str,
    "sub": SPIFFEID,
    "token": JWT,
})

DelegationInfo = TypedDict("DelegationInfo", {
    "act": Union[Act, None],
    "delegationChain": list[Principal],
    "subject": Principal,
    "tokenId": str,
})

Disabling = TypedDict("Disabling", {
    "agentId": Segment,
    "disabledAt": Timestamp,
    "revokedPassports": int,
})

DiscoveryPassport_format = TypedDict("DiscoveryPassport_format", {
    "audience": str,
    "claims_namespace": str,
    "scope_format": Literal["category:name"],
    "scope_wildcards_supported": Literal[True],
    "token_type": Literal["CAP+JWT"],
    "version": Literal[1],
})

Discovery = TypedDict("Discovery", {
    "algorithms_supported": Literal[["EdDSA"]],
    "company_id": Segment,
    "company_spiffe_id": SPIFFEID,
    "curve": Literal["Ed25519"],
    "fingerprint": Fingerprint,
    "id_token_signing_alg_values_supported": Literal[["EdDSA"]],
    "issuer": str,
    "jwks_uri": str,
    "key_type": Literal["OKP"],
    "keys": JWKs,
    "kid": KID,
    "passport_format": DiscoveryPassport_format,
    "response_types_supported": Literal[["token"]],
    "service_version": str,
    "token_endpoint": str,
    "token_endpoint_auth_methods_supported": Literal[["client_secret_post","client_secret_basic"]],
    "trust_domain": str,
})

DisobeyedCall = TypedDict("DisobeyedCall", {
    "done": int,
    "refused": int,
    "tool": str,
})

EnrolPasskeyRequest = TypedDict("EnrolPasskeyRequest", {
    "companyId": NotRequired[Union[str, None]],
    "credential": PublicKeyCredential,
    "invitation": str,
    "name": NotRequired[Union[str, None]],
    "personId": NotRequired[Union[str, None]],
})

EnrolRequest = TypedDict("EnrolRequest", {
    "endorsement": NotRequired[Union[str, None]],
    "expiresAt": NotRequired[Union[str, None]],
    "jwk": dict[str, Any],
    "label": NotRequired[Union[str, None]],
    "proof": NotRequired[Union[str, None]],
})

EnrolledKey = TypedDict("EnrolledKey", {
    "agentId": Segment,
    "alg": Literal["EdDSA", "ES256"],
    "createdAt": Timestamp,
    "expiresAt": Union[Timestamp, None],
    "jwk": jwk,
    "label": Union[str, None],
    "log": StatementLog,
    "revokedAt": Union[Timestamp, None],
    "thumbprint": Thumbprint,
})

Enrolment = TypedDict("Enrolment", {
    "expiresAt": Timestamp,
    "token": str,
})

Error = TypedDict("Error", {
    "error": str,
})

EvidenceAgentKey = TypedDict("EvidenceAgentKey", {
    "records": EvidenceRecords,
})

EvidenceApprovals = TypedDict("EvidenceApprovals", {
    "records": EvidenceRecords,
    "requests": EvidenceRecords,
})

EvidenceAuthority = TypedDict("EvidenceAuthority", {
    "records": EvidenceRecords,
})

EvidenceHexProof = TypedDict("EvidenceHexProof", {
    "proof": list[ProofNode],
    "root": SHA256,
    "size": int,
})

EvidenceKeysItem = TypedDict("EvidenceKeysItem", {
    "fingerprint": Fingerprint,
    "jwk": JWK,
    "kid": KID,
})

EvidenceLogsItemKeysItem = TypedDict("EvidenceLogsItemKeysItem", {
    "fromIndex": int,
    "kid": KID,
    "rotation": NotRequired[Rotation],
})

EvidenceLogsItem = TypedDict("EvidenceLogsItem", {
    "keys": list[EvidenceLogsItemKeysItem],
    "log": Literal["actions", "control"],
    "logId": str,
    "origin": str,
})

EvidencePassport = TypedDict("EvidencePassport", {
    "jti": str,
    "records": EvidenceRecords,
})

EvidencePassports = TypedDict("EvidencePassports", {
    "records": EvidenceRecords,
})

EvidencePolicies = TypedDict("EvidencePolicies", {
    "records": EvidenceRecords,
})

Evidence = TypedDict("Evidence", {
    "agentKey": NotRequired[EvidenceAgentKey],
    "approvals": NotRequired[EvidenceApprovals],
    "authority": NotRequired[EvidenceAuthority],
    "companyId": Segment,
    "delegation": NotRequired[DelegationInfo],
    "format": Literal["attestd-evidence/v1"],
    "hexProof": EvidenceHexProof,
    "keys": list[EvidenceKeysItem],
    "log": Literal["actions", "control"],
    "logs": list[EvidenceLogsItem],
    "notProven": list[str],
    "passport": NotRequired[EvidencePassport],
    "passports": NotRequired[EvidencePassports],
    "policies": NotRequired[EvidencePolicies],
    "record": AttestationRecord,
    "status": NotRequired[PassportStatus],
    "tlogProof": str,
    "witnesses": list[str],
})

EvidenceRecordsItem = TypedDict("EvidenceRecordsItem", {
    "record": AttestationRecord,
    "tlogProof": str,
})

EvidenceRecords: TypeAlias = list[EvidenceRecordsItem]

ExchangeAudiences: TypeAlias = Union[list[str], None]

ExchangeRequest = TypedDict("ExchangeRequest", {
    "actor_token": str,
    "actor_token_type": Literal["urn:ietf:params:oauth:token-type:jwt"],
    "authorization_details": NotRequired[Union[AuthorizationDetails, str]],
    "grant_type": Literal["urn:ietf:params:oauth:grant-type:token-exchange"],
    "subject_token": str,
    "subject_token_type": Literal["urn:ietf:params:oauth:token-type:jwt"],
})

Exchanged = TypedDict("Exchanged", {
    "access_token": JWT,
    "authorization_details": NotRequired[AuthorizationDetails],
    "delegation_chain": SPIFFEIDs,
    "expires_in": int,
    "issued_token_type": Literal["urn:ietf:params:oauth:token-type:jwt"],
    "token_type": Literal["N_A"],
})

ExportStatus = TypedDict("ExportStatus", {
    "code": int,
    "error": str,
    "message": str,
})

Federation = TypedDict("Federation", {
    "audience": str,
    "createdAt": Timestamp,
    "issuer": str,
    "jwks": NotRequired[dict[str, Any]],
    "jwksUri": NotRequired[str],
    "keys": FetchedKeys,
    "name": str,
    "rules": list[FederationRule],
})

FederationConflict = TypedDict("FederationConflict", {
    "code": Literal["FEDERATION_EXISTS", "TOO_MANY"],
    "error": str,
})

FederationList = TypedDict("FederationList", {
    "federations": list[Federation],
})

FederationRule = TypedDict("FederationRule", {
    "agentId": str,
    "match": dict[str, Any],
    "person": NotRequired[Union[bool, None]],
    "register": NotRequired[Union[bool, None]],
    "scope": NotRequired[Literal["agent", None]],
    "ttl": NotRequired[Union[int, None]],
})

FetchedKeys = TypedDict("FetchedKeys", {
    "count": int,
    "failure": NotRequired[str],
    "fetchedAt": Union[Timestamp, None],
})

Fingerprint: TypeAlias = str

ForbiddenAgent = TypedDict("ForbiddenAgent", {
    "code": Literal["FORBIDDEN_ROLE", "REAUTHENTICATE", "PERSON_REQUIRED", "FORBIDDEN_AGENT", "AGENT_DISABLED", "ENROLMENT_INVALID", "COMPANY_SUSPENDED"],
    "error": str,
})

ForbiddenRole = TypedDict("ForbiddenRole", {
    "code": Literal["FORBIDDEN_ROLE", "REAUTHENTICATE", "PERSON_REQUIRED"],
    "error": str,
})

Health = TypedDict("Health", {
    "status": Literal["ok"],
})

HistogramBucketsItem = TypedDict("HistogramBucketsItem", {
    "count": int,
    "since": Timestamp,
})

HistogramTopActionsItem = TypedDict("HistogramTopActionsItem", {
    "actionType": str,
    "total": int,
})

HistogramTopAgentsItem = TypedDict("HistogramTopAgentsItem", {
    "agentId": str,
    "counts": list[int],
    "total": int,
})

HistogramVerdictsItem = TypedDict("HistogramVerdictsItem", {
    "counts": list[int],
    "total": int,
    "verdict": Literal["allow", "deny", "ask"],
})

Histogram = TypedDict("Histogram", {
    "actions": NotRequired[int],
    "agents": NotRequired[int],
    "buckets": list[HistogramBucketsItem],
    "since": Timestamp,
    "size": int,
    "topActions": NotRequired[list[HistogramTopActionsItem]],
    "topAgents": NotRequired[list[HistogramTopAgentsItem]],
    "total": int,
    "until": Timestamp,
    "verdicts": NotRequired[list[HistogramVerdictsItem]],
})

InclusionProof = TypedDict("InclusionProof", {
    "proof": list[ProofNode],
    "record": AttestationRecord,
    "root": SHA256,
})

InternalError = TypedDict("InternalError", {
    "error": Literal["Internal Server Error"],
    "requestId": str,
})

Introspection1 = TypedDict("Introspection1", {
    "active": Literal[False],
})

Introspection2Cnf = TypedDict("Introspection2Cnf", {
    "jkt": str,
})

Introspection2May_act = TypedDict("Introspection2May_act", {
    "sub": str,
})

Introspection2 = TypedDict("Introspection2", {
    "act": NotRequired[StandardAct],
    "active": Literal[True],
    "agent_id": NotRequired[str],
    "aud": NotRequired[Union[str, list[str]]],
    "authorization_details": NotRequired[AuthorizationDetails],
    "client_id": str,
    "cnf": NotRequired[Introspection2Cnf],
    "exp": int,
    "iat": NotRequired[int],
    "iss": NotRequired[str],
    "jti": NotRequired[str],
    "may_act": NotRequired[Introspection2May_act],
    "org": str,
    "scope": NotRequired[str],
    "sub": str,
    "token_type": Literal["Bearer", "DPoP", "N_A"],
})

Introspection: TypeAlias = Union[Introspection1, Introspection2]

InvalidClient = TypedDict("InvalidClient", {
    "error": Literal["invalid_client"],
    "error_description": NotRequired[str],
})

InvitedRequest = TypedDict("InvitedRequest", {
    "companyId": NotRequired[Union[str, None]],
    "invitation": str,
    "name": NotRequired[Union[str, None]],
    "personId": NotRequired[Union[str, None]],
})

IssuePassport = TypedDict("IssuePassport", {
    "authorizationDetails": NotRequired[AuthorizationDetailsOrNone],
    "jkt": NotRequired[Union[str, None]],
    "scopes": NotRequired[Union[list[str], None]],
    "ttl": NotRequired[Union[int, None]],
})

IssuedJWT: TypeAlias = str

IssuerMetadata = TypedDict("IssuerMetadata", {
    "authorization_details_types_supported": list[Literal["tool_call"]],
    "authorization_endpoint": str,
    "authorization_grant_profiles_supported": list[str],
    "claims_supported": list[str],
    "code_challenge_methods_supported": list[str],
    "dpop_signing_alg_values_supported": list[str],
    "grant_types_supported": list[str],
    "id_token_signing_alg_values_supported": list[str],
    "introspection_endpoint": str,
    "introspection_endpoint_auth_methods_supported": list[str],
    "introspection_endpoint_auth_signing_alg_values_supported": list[str],
    "issuer": str,
    "jwks_uri": str,
    "response_types_supported": Literal[["id_token"]],
    "revocation_endpoint": str,
    "revocation_endpoint_auth_methods_supported": list[str],
    "revocation_endpoint_auth_signing_alg_values_supported": list[str],
    "scopes_supported": list[str],
    "subject_types_supported": list[str],
    "token_endpoint": str,
    "token_endpoint_auth_methods_supported": list[str],
    "token_endpoint_auth_signing_alg_values_supported": list[str],
})

ItemPointer: TypeAlias = str

JTI: TypeAlias = str

JWK = TypedDict("JWK", {
    "alg": Literal["EdDSA"],
    "crv": Literal["Ed25519"],
    "kid": KID,
    "kty": Literal["OKP"],
    "use": Literal["sig"],
    "x": str,
})

JWKs: TypeAlias = list[JWK]

JWT: TypeAlias = str

KID: TypeAlias = str

KeyCreated = TypedDict("KeyCreated", {
    "createdAt": Timestamp,
    "key": Secret,
})

KeyDeleted = TypedDict("KeyDeleted", {
    "deleted": Literal[True],
})

KeyList = TypedDict("KeyList", {
    "keys": list[APIKey],
})

KeyReused = TypedDict("KeyReused", {
    "code": Literal["IDEMPOTENCY_KEY_REUSED"],
    "error": str,
    "pointer": NotRequired[ItemPointer],
})

KeysRotated = TypedDict("KeysRotated", {
    "createdAt": Timestamp,
    "fingerprint": Fingerprint,
    "index": int,
    "kid": KID,
    "previousCompromisedAt": NotRequired[Timestamp],
    "previousEndedAt": Timestamp,
    "previousKid": KID,
})

LastKey = TypedDict("LastKey", {
    "code": Literal["LAST_API_KEY"],
    "error": str,
})

LogKeysKeysItem = TypedDict("LogKeysKeysItem", {
    "fromIndex": int,
    "kid": KID,
    "rotation": NotRequired[Rotation],
})

LogKeys = TypedDict("LogKeys", {
    "keys": list[LogKeysKeysItem],
    "log": Literal["control"],
    "origin": str,
})

LogListLogsItem = TypedDict("LogListLogsItem", {
    "log": Literal["actions", "control"],
    "logId": str,
    "merkleRoot": SHA256,
    "origin": str,
    "root": SHA256,
    "size": int,
    "vkeys": list[str],
})

LogList = TypedDict("LogList", {
    "logs": list[LogListLogsItem],
})

Me = TypedDict("Me", {
    "companyId": str,
    "createdAt": Timestamp,
    "email": Union[str, None],
    "groups": list[str],
    "name": str,
    "passkeys": list[Passkey],
    "personId": str,
    "roles": list[Literal["admin", "approver", "reader"]],
    "session": PersonSession,
    "subjects": list[PersonSubject],
})

Metadata: TypeAlias = dict[str, Any]

MetadataAsSent: TypeAlias = str

Misdirected = TypedDict("Misdirected", {
    "code": Literal["NAME_UNKNOWN"],
    "error": str,
})

NewAgent = TypedDict("NewAgent", {
    "agentId": Segment,
    "metadata": NotRequired[Union[dict[str, Any], None]],
})

NewCompany = TypedDict("NewCompany", {
    "companyId": Segment,
    "metadata": NotRequired[Union[dict[str, Any], None]],
})

NewExpiry: TypeAlias = Union[str, None]

NewFederation = TypedDict("NewFederation", {
    "audience": str,
    "issuer": str,
    "jwks": NotRequired[Union[dict[str, Any], None]],
    "jwksUri": NotRequired[Union[str, None]],
    "name": str,
    "rules": list[FederationRule],
})

NewKey = TypedDict("NewKey", {
    "expiresAt": NotRequired[NewExpiry],
    "label": NotRequired[Union[str, None]],
    "role": NotRequired[NewRole],
})

NewNames: TypeAlias = Union[list[str], None]

NewOAuthClient = TypedDict("NewOAuthClient", {
    "expiresAt": NotRequired[NewExpiry],
    "jwks": NotRequired[Union[dict[str, Any], None]],
    "jwksUri": NotRequired[Union[str, None]],
    "role": NotRequired[NewRole],
})

NewRole: TypeAlias = Literal["reader", "writer", "admin", None]

NewWebhook = TypedDict("NewWebhook", {
    "actions": NotRequired[NewNames],
    "agents": NotRequired[NewNames],
    "description": NotRequired[Union[str, None]],
    "url": str,
})

NotInItsName = TypedDict("NotInItsName", {
    "code": Literal["FORBIDDEN_ROLE", "REAUTHENTICATE", "PERSON_REQUIRED", "FORBIDDEN_AGENT", "AGENT_DISABLED", "AGENT_KEY_REQUIRED", "STATEMENT_KEY_UNKNOWN", "COMPANY_SUSPENDED"],
    "error": str,
    "pointer": NotRequired[str],
})

NotReady = TypedDict("NotReady", {
    "code": Literal["NOT_DONE", "OUTCOME_UNKNOWN", "FILE_CHANGED", "DATABASE_DAMAGED", "CLOCK", "ROLLED_BACK", "TABLES_CHANGED", "DISK_LOW", "STOPPING"],
    "error": str,
    "requestId": str,
})

OAuthClient = TypedDict("OAuthClient", {
    "clientId": str,
    "createdAt": Timestamp,
    "jwksUri": NotRequired[str],
    "keys": NotRequired[FetchedKeys],
})

OAuthClientCreated = TypedDict("OAuthClientCreated", {
    "clientId": str,
    "clientSecret": NotRequired[str],
    "companyId": Segment,
    "createdAt": Timestamp,
})

OAuthClientList = TypedDict("OAuthClientList", {
    "clients": list[OAuthClient],
})

OidcError = TypedDict("OidcError", {
    "code": Literal["OIDC_OFF", "OIDC_STATE", "OIDC_REFUSED", "OIDC_NO_RULE", "OIDC_NO_PERSON", "PERSON_DISABLED", "COMPANY_SUSPENDED"],
    "error": str,
})

OidcUnavailable = TypedDict("OidcUnavailable", {
    "code": Literal["OIDC_UNAVAILABLE", "NOT_DONE", "OUTCOME_UNKNOWN", "FILE_CHANGED", "DATABASE_DAMAGED", "CLOCK", "ROLLED_BACK", "TABLES_CHANGED"],
    "error": str,
    "requestId": str,
})

PEM: TypeAlias = str

Passkey = TypedDict("Passkey", {
    "aaguid": str,
    "algorithm": Literal[-7, -8, -257],
    "backupEligible": bool,
    "createdAt": Timestamp,
    "credentialId": str,
    "fingerprint": str,
    "revokedAt": NotRequired[Timestamp],
    "transports": list[str],
})

PasskeyError = TypedDict("PasskeyError", {
    "code": NotRequired[Literal["PASSKEY_INVALID", "COMPANY_REQUIRED"]],
    "error": str,
})

PasskeyOptions = TypedDict("PasskeyOptions", {
    "companyId": NotRequired[str],
    "name": NotRequired[str],
    "personId": NotRequired[str],
    "publicKey": dict[str, Any],
})

PasskeyRefusal = TypedDict("PasskeyRefusal", {
    "code": NotRequired[Literal["PASSKEY_REFUSED", "PASSKEY_CHALLENGE", "INVITATION_INVALID", "INVALID_DPOP_PROOF"]],
    "error": str,
})

Passport = TypedDict("Passport", {
    "agentId": Segment,
    "authorizationDetails": NotRequired[AuthorizationDetails],
    "caPublicKey": PEM,
    "delegationChain": SPIFFEIDs,
    "expiresIn": int,
    "org": str,
    "orgSpiffeId": SPIFFEID,
    "passport": JWT,
    "scopes": Scopes,
    "spiffeId": SPIFFEID,
})

PassportAccepted = TypedDict("PassportAccepted", {
    "claims": PassportClaims,
    "receipt": AttestationReceipt,
    "scopeGranted": str,
    "valid": Literal[True],
})

PassportBody = TypedDict("PassportBody", {
    "agentId": Segment,
    "delegationChain": SPIFFEIDs,
    "org": Segment,
    "orgSpiffeId": SPIFFEID,
    "scopes": Scopes,
    "v": Literal[1],
})

PassportClaimsCnf = TypedDict("PassportClaimsCnf", {
    "jkt": Thumbprint,
})

PassportClaims = TypedDict("PassportClaims", {
    "aud": list[str],
    "authorization_details": NotRequired[AuthorizationDetails],
    "cnf": NotRequired[PassportClaimsCnf],
    "exp": int,
    "iat": int,
    "iss": SPIFFEID,
    "jti": JTI,
    "nbf": int,
    "service": NotRequired[PassportBody],
    "sub": SPIFFEID,
})

PassportDenied = TypedDict("PassportDenied", {
    "code": VerificationCode,
    "error": str,
    "valid": Literal[False],
})

PassportError = TypedDict("PassportError", {
    "code": VerificationCode,
    "error": str,
})

PassportNotFound = TypedDict("PassportNotFound", {
    "code": Literal["PASSPORT_NOT_FOUND"],
    "error": str,
})

PassportPage = TypedDict("PassportPage", {
    "next": NotRequired[str],
    "passports": list[PassportSummary],
})

PassportStatus = TypedDict("PassportStatus", {
    "caPublicKey": PEM,
    "checkedAt": Timestamp,
    "companyId": Segment,
    "jti": str,
    "reason": NotRequired[str],
    "revokedAt": NotRequired[Timestamp],
    "signature": Signature,
    "status": Literal["valid", "revoked", "unknown"],
})

PassportSummary = TypedDict("PassportSummary", {
    "agentId": Segment,
    "authorizationDetails": NotRequired[AuthorizationDetails],
    "expiresAt": Timestamp,
    "issuedAt": Timestamp,
    "jti": JTI,
    "reason": NotRequired[str],
    "revokedAt": NotRequired[Timestamp],
    "scopes": Scopes,
    "status": Literal["valid", "revoked", "expired"],
})

PayloadPruned = TypedDict("PayloadPruned", {
    "code": Literal["PAYLOAD_PRUNED"],
    "error": str,
})

PeopleConflict = TypedDict("PeopleConflict", {
    "code": NotRequired[Literal["LAST_ADMIN", "PERSON_EXISTS", "PERSON_DISABLED", "PASSKEY_EXISTS", "SUBJECT_TAKEN", "TOO_MANY", "RELYING_PARTY"]],
    "error": str,
})

Person = TypedDict("Person", {
    "createdAt": Timestamp,
    "disabledAt": NotRequired[Timestamp],
    "email": Union[str, None],
    "groups": list[str],
    "name": str,
    "passkeys": NotRequired[list[Passkey]],
    "personId": str,
    "roles": list[Literal["admin", "approver", "reader"]],
    "subjects": list[PersonSubject],
})

PersonChange = TypedDict("PersonChange", {
    "disabled": NotRequired[Union[bool, None]],
    "email": NotRequired[Union[str, None]],
    "groups": NotRequired[Union[list[str], None]],
    "name": NotRequired[Union[str, None]],
    "roles": NotRequired[Union[list[Literal["admin", "approver", "reader"]], None]],
    "subjects": NotRequired[Union[list[PersonSubject], None]],
})

PersonForbidden = TypedDict("PersonForbidden", {
    "code": Literal["PERSON_REQUIRED", "REAUTHENTICATE", "COMPANY_SUSPENDED"],
    "error": str,
})

PersonInvitation = TypedDict("PersonInvitation", {
    "expiresAt": Timestamp,
    "url": str,
})

PersonInvitationRequest = TypedDict("PersonInvitationRequest", {
    "expiresIn": NotRequired[Union[int, None]],
})

PersonList = TypedDict("PersonList", {
    "people": list[Person],
})

PersonRequest = TypedDict("PersonRequest", {
    "email": NotRequired[Union[str, None]],
    "groups": NotRequired[Union[list[str], None]],
    "name": str,
    "personId": str,
    "roles": NotRequired[Union[list[Literal["admin", "approver", "reader"]], None]],
    "subjects": NotRequired[Union[list[PersonSubject], None]],
})

PersonSession = TypedDict("PersonSession", {
    "createdAt": Timestamp,
    "expiresAt": Timestamp,
    "lastUsedAt": Timestamp,
    "passkey": NotRequired[str],
    "present": bool,
    "reauthenticatedAt": NotRequired[Timestamp],
    "sessionId": str,
    "signedIn": Literal["passkey", "oidc"],
})

PersonSessionList = TypedDict("PersonSessionList", {
    "sessions": list[PersonSession],
})

PersonSubject = TypedDict("PersonSubject", {
    "issuer": str,
    "sub": str,
})

Policy = TypedDict("Policy", {
    "agentId": NotRequired[str],
    "attest": NotRequired[Literal["any", "key"]],
    "dryRun": NotRequired[PolicyDryRun],
    "groups": NotRequired[list[str]],
})

PolicyDryRunAgentsItem = TypedDict("PolicyDryRunAgentsItem", {
    "agentId": str,
    "refused": int,
})

PolicyDryRun = TypedDict("PolicyDryRun", {
    "agents": list[PolicyDryRunAgentsItem],
    "complete": bool,
    "records": int,
    "refused": int,
    "since": Timestamp,
})

PolicyError = TypedDict("PolicyError", {
    "code": NotRequired[Literal["POLICY_INVALID", "POLICY_UNKNOWN_NAME"]],
    "column": NotRequired[int],
    "error": str,
    "line": NotRequired[int],
})

PolicyLimit = TypedDict("PolicyLimit", {
    "code": Literal["POLICY_LIMIT"],
    "error": str,
})

PolicyRequest = TypedDict("PolicyRequest", {
    "attest": NotRequired[Literal["any", "key", None]],
    "dryRun": NotRequired[Union[bool, None]],
    "groups": NotRequired[Union[list[str], None]],
})

PolicyTrial = TypedDict("PolicyTrial", {
    "agentId": NotRequired[Union[str, None]],
    "draft": NotRequired[Union[TriedPolicy, None]],
    "from": NotRequired[Union[int, None]],
    "limit": NotRequired[Union[int, None]],
    "policies": NotRequired[Union[list[TriedPolicy], None]],
    "remove": NotRequired[Union[list[str], None]],
    "to": NotRequired[Union[int, None]],
})

PolicyTriedDifferentItem = TypedDict("PolicyTriedDifferentItem", {
    "becomes": DecisionVerdict,
    "by": list[str],
    "index": int,
    "was": Literal["allow", "deny", "ask", None],
})

PolicyTried = TypedDict("PolicyTried", {
    "decided": int,
    "different": list[PolicyTriedDifferentItem],
    "next": Union[int, None],
})

Principal: TypeAlias = str

ProofNode = TypedDict("ProofNode", {
    "position": Literal["left", "right"],
    "sibling": SHA256,
})

PrunedRecords: TypeAlias = int

PublicKey = TypedDict("PublicKey", {
    "companyId": Segment,
    "fingerprint": Fingerprint,
    "jwk": JWK,
    "keys": JWKs,
    "kid": KID,
    "pem": PEM,
    "spiffeId": SPIFFEID,
})

PublicKeyCredential: TypeAlias = dict[str, Any]

PublicKeys = TypedDict("PublicKeys", {
    "companyId": Segment,
    "keys": list[CompanyKey],
    "logs": list[LogKeys],
    "origin": str,
    "spiffeId": SPIFFEID,
})

QuotaExceeded = TypedDict("QuotaExceeded", {
    "code": Literal["QUOTA_EXCEEDED"],
    "error": str,
    "requestId": str,
})

Ready = TypedDict("Ready", {
    "callsDisobeyed": NotRequired[int],
    "cosigner": NotRequired[Literal["behind"]],
    "headFile": NotRequired[Literal["written", "behind"]],
    "logsFailed": NotRequired[int],
    "reasons": NotRequired[list[Literal["BACKUP_OVERDUE", "CERTIFICATE_ENDS", "CLOCK_APART", "CLOCK_LEAP", "COSIGNER_BEHIND", "DISOBEYED", "DUTY_UNKNOWN", "EXPORT_BEHIND", "HEAD_FILE_BEHIND", "LOG_FAILED", "ROLLED_BACK", "TABLES_CHANGED", "WITNESS_ALARM", "WITNESS_SILENT"]]],
    "rolledBack": NotRequired[int],
    "status": Literal["ready", "degraded"],
    "tablesChanged": NotRequired[int],
    "witnessAlarms": NotRequired[int],
    "witnessesBehind": NotRequired[int],
})

Reauthenticated = TypedDict("Reauthenticated", {
    "until": Timestamp,
})

RecordDamaged = TypedDict("RecordDamaged", {
    "code": Literal["RECORD_DAMAGED"],
    "error": str,
    "requestId": str,
})

RecordList = TypedDict("RecordList", {
    "records": list[AttestationRecord],
})

RecordPageRead = TypedDict("RecordPageRead", {
    "from": int,
    "to": int,
})

RecordPage = TypedDict("RecordPage", {
    "next": NotRequired[str],
    "pruned": NotRequired[int],
    "read": RecordPageRead,
    "records": list[AttestationRecord],
    "size": int,
})

RecoverKey = TypedDict("RecoverKey", {
    "companyId": Segment,
})

Redirection = TypedDict("Redirection", {
    "location": str,
})

RefusedDetails = TypedDict("RefusedDetails", {
    "code": NotRequired[Literal["invalid_authorization_details"]],
    "error": str,
    "pointer": NotRequired[str],
})

RegistrationClosed = TypedDict("RegistrationClosed", {
    "code": Literal["REGISTRATION_CLOSED"],
    "error": str,
})

ResourceMetadata = TypedDict("ResourceMetadata", {
    "authorization_servers": NotRequired[list[str]],
    "bearer_methods_supported": list[str],
    "dpop_signing_alg_values_supported": list[str],
    "jwks_uri": NotRequired[str],
    "resource": str,
    "resource_name": str,
    "scopes_supported": list[str],
})

Revocation = TypedDict("Revocation", {
    "jti": JTI,
    "reason": NotRequired[str],
    "revokedAt": Timestamp,
})

RevocationList = TypedDict("RevocationList", {
    "revoked": list[Revocation],
})

RevokeKeyRequest = TypedDict("RevokeKeyRequest", {
    "reason": NotRequired[Union[str, None]],
    "since": NotRequired[Union[Timestamp, None]],
})

RevokePassport = TypedDict("RevokePassport", {
    "reason": NotRequired[Union[str, None]],
})

Role: TypeAlias = Literal["reader", "writer", "admin"]

RotateKeys = TypedDict("RotateKeys", {
    "compromised": NotRequired[Union[bool, None]],
})

RotatedPassport = TypedDict("RotatedPassport", {
    "agentId": Segment,
    "authorizationDetails": NotRequired[AuthorizationDetails],
    "caPublicKey": PEM,
    "delegationChain": SPIFFEIDs,
    "expiresIn": int,
    "org": str,
    "orgSpiffeId": SPIFFEID,
    "passport": JWT,
    "rotatedFrom": JTI,
    "scopes": Scopes,
    "spiffeId": SPIFFEID,
})

Rotation = TypedDict("Rotation", {
    "newSignature": Signature,
    "oldSignature": Signature,
    "statement": str,
})

SHA256: TypeAlias = str

SPIFFEBundle = TypedDict("SPIFFEBundle", {
    "keys": list[TokenKey],
    "spiffe_refresh_hint": Literal[300],
    "spiffe_sequence": int,
})

SPIFFEID: TypeAlias = str

SPIFFEIDs: TypeAlias = list[SPIFFEID]

Scalar: TypeAlias = Union[str, float, bool, None]

Scopes: TypeAlias = list[str]

Secret: TypeAlias = str

Segment: TypeAlias = str

SessionKind: TypeAlias = Literal["statement", "hook", "mcp", "run", "telemetry"]

SessionObjectContinues = TypedDict("SessionObjectContinues", {
    "hash": str,
    "kid": Thumbprint,
    "sid": str,
})

SessionObject = TypedDict("SessionObject", {
    "agentId": str,
    "completeness": NotRequired[Literal["sealed", "open", "gap", "broken", "unproven", "pruned"]],
    "continues": NotRequired[SessionObjectContinues],
    "disobeyed": NotRequired[list[DisobeyedCall]],
    "ended": bool,
    "first": int,
    "firstAt": Timestamp,
    "kid": str,
    "kind": SessionKind,
    "last": int,
    "lastAt": Timestamp,
    "missing": list[list[int]],
    "pruned": NotRequired[Literal[True]],
    "records": int,
    "refused": int,
    "sid": str,
    "source": str,
    "state": Literal["sealed", "open", "gap", "broken", "unproven", "pruned", "disobeyed"],
})

SignInWays = TypedDict("SignInWays", {
    "oidc": bool,
    "passkey": bool,
})

Signature: TypeAlias = str

SignedIn = TypedDict("SignedIn", {
    "companyId": str,
    "expiresAt": Timestamp,
    "personId": str,
})

SignedOut = TypedDict("SignedOut", {
    "deleted": Literal[True],
})

StandardAct = TypedDict("StandardAct", {
    "act": NotRequired[StandardAct],
    "sub": str,
})

StatementLog: TypeAlias = str

StreamMessage: TypeAlias = Union[StreamRecordValid, StreamRecordInvalid]

StreamRecordInvalid = TypedDict("StreamRecordInvalid", {
    "failedAtIndex": int,
    "record": AttestationRecord,
    "type": Literal["record"],
    "valid": Literal[False],
})

StreamRecordValid = TypedDict("StreamRecordValid", {
    "merkleRoot": SHA256,
    "record": AttestationRecord,
    "type": Literal["record"],
    "valid": Literal[True],
})

Thumbprint: TypeAlias = str

Timestamp: TypeAlias = str

TokenError = TypedDict("TokenError", {
    "error": Literal["unsupported_grant_type", "invalid_request", "invalid_scope", "invalid_dpop_proof", "use_dpop_nonce", "unauthorized_client", "invalid_grant", "invalid_target", "invalid_authorization_details", "access_denied"],
    "error_description": NotRequired[str],
})

TokenKey = TypedDict("TokenKey", {
    "alg": Literal["ES256", "RS256", "EdDSA"],
    "crv": NotRequired[Literal["P-256", "Ed25519"]],
    "e": NotRequired[Literal["AQAB"]],
    "kid": str,
    "kty": Literal["EC", "RSA", "OKP"],
    "n": NotRequired[str],
    "use": Literal["sig", "jwt-svid"],
    "x": NotRequired[str],
    "y": NotRequired[str],
})

TokenKeySet = TypedDict("TokenKeySet", {
    "keys": list[TokenKey],
})

TokenRequest = TypedDict("TokenRequest", {
    "actor_token": NotRequired[str],
    "actor_token_type": NotRequired[str],
    "assertion": NotRequired[str],
    "audience": NotRequired[Union[str, list[str]]],
    "authorization_details": NotRequired[Union[AuthorizationDetails, str]],
    "client_assertion": NotRequired[str],
    "client_assertion_type": NotRequired[str],
    "client_id": NotRequired[str],
    "client_secret": NotRequired[str],
    "grant_type": Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"],
    "may_act": NotRequired[str],
    "requested_token_type": NotRequired[str],
    "resource": NotRequired[Union[str, list[str]]],
    "scope": NotRequired[str],
    "subject_token": NotRequired[str],
    "subject_token_type": NotRequired[str],
})

TokenResponse = TypedDict("TokenResponse", {
    "access_token": str,
    "authorization_details": NotRequired[AuthorizationDetails],
    "expires_in": int,
    "issued_token_type": NotRequired[Literal["urn:ietf:params:oauth:token-type:access_token", "urn:ietf:params:oauth:token-type:jwt"]],
    "scope": NotRequired[str],
    "token_type": Literal["bearer", "Bearer", "DPoP", "N_A"],
})

TooMany = TypedDict("TooMany", {
    "code": Literal["TOO_MANY"],
    "error": str,
})

TooManyRequests = TypedDict("TooManyRequests", {
    "error": Literal["Too Many Requests"],
})

ToolCallDetail = TypedDict("ToolCallDetail", {
    "arguments": NotRequired[dict[str, Any]],
    "tools": list[str],
    "type": Literal["tool_call"],
})

TriedPolicy = TypedDict("TriedPolicy", {
    "cedar": str,
    "policyId": str,
})

Unauthorized = TypedDict("Unauthorized", {
    "code": NotRequired[Literal["INVALID_DPOP_PROOF", "USE_DPOP_NONCE"]],
    "error": str,
})

Unavailable = TypedDict("Unavailable", {
    "code": Literal["NOT_DONE", "OUTCOME_UNKNOWN", "FILE_CHANGED", "DATABASE_DAMAGED", "CLOCK", "ROLLED_BACK", "TABLES_CHANGED"],
    "error": str,
    "requestId": str,
})

Verdict: TypeAlias = Union[ChainValid, ChainInvalid]

VerificationCode: TypeAlias = Literal["MALFORMED_TOKEN", "ALGORITHM_MISMATCH", "WRONG_TOKEN_TYPE", "SIGNATURE_INVALID", "TOKEN_EXPIRED", "TOKEN_NOT_YET_VALID", "AUDIENCE_MISMATCH", "INVALID_ISSUER", "INVALID_SUBJECT", "MALFORMED_CLAIMS", "UNSUPPORTED_VERSION", "CHAIN_INCOHERENT", "SCOPE_DENIED", "DETAILS_DENIED", "PASSPORT_REVOKED", "NOT_PROVEN", "VERIFICATION_ERROR", "POLICY_DENIED", "DECISION_ERROR"]

VerifyPassport = TypedDict("VerifyPassport", {
    "arguments": NotRequired[Any],
    "htm": NotRequired[Union[str, None]],
    "htu": NotRequired[Union[str, None]],
    "passport": str,
    "proof": NotRequired[Union[str, None]],
    "tool": NotRequired[str],
})

Webhook = TypedDict("Webhook", {
    "actions": NotRequired[list[str]],
    "agents": NotRequired[list[str]],
    "createdAt": Timestamp,
    "description": NotRequired[str],
    "disabledAt": NotRequired[Timestamp],
    "disabledReason": NotRequired[Literal["requested", "gone", "failing"]],
    "failedAttempts": int,
    "fingerprint": CredentialFingerprint,
    "nextAttemptAt": NotRequired[Timestamp],
    "nextIndex": int,
    "publicKey": str,
    "skippedRecords": NotRequired[int],
    "url": str,
    "webhookId": str,
})

WebhookList = TypedDict("WebhookList", {
    "webhooks": list[Webhook],
})

WebhookTested = TypedDict("WebhookTested", {
    "delivered": bool,
    "failure": NotRequired[str],
    "messageId": str,
    "status": NotRequired[int],
})

WebhookWithSecret = TypedDict("WebhookWithSecret", {
    "actions": NotRequired[list[str]],
    "agents": NotRequired[list[str]],
    "createdAt": Timestamp,
    "description": NotRequired[str],
    "disabledAt": NotRequired[Timestamp],
    "disabledReason": NotRequired[Literal["requested", "gone", "failing"]],
    "failedAttempts": int,
    "fingerprint": CredentialFingerprint,
    "nextAttemptAt": NotRequired[Timestamp],
    "nextIndex": int,
    "publicKey": str,
    "secret": str,
    "skippedRecords": NotRequired[int],
    "url": str,
    "webhookId": str,
})

Witness = TypedDict("Witness", {
    "name": str,
    "vkey": str,
})

Log: TypeAlias = Literal["actions", "control"]
Given: TypeAlias = Union[str, bytes, Mapping[str, Any]]

Attestation = TypedDict("Attestation", {
    "agentId": str,
    "actionType": str,
    "payload": Any,
    "delegation": NotRequired[Optional[str]],
    "idempotencyKey": NotRequired[Optional[str]],
})

Attested = TypedDict("Attested", {
    "queued": bool,
    "record": NotRequired[AttestationRecord],
    "idempotencyKey": NotRequired[str],
})

class Route:
    call: str
    members: tuple[str, ...]
    query: tuple[str, ...]
    header: tuple[str, ...]
    body: str
    status: int
    denies: bool
    answer: str
    public: bool
    safe: bool

OPERATIONS: dict[str, Route]

class AttestdError(Exception): ...

class ServiceError(AttestdError):
    operation: str
    status: int
    reason: str
    code: str
    pointer: str
    request_id: str
    retry_after: float
    repeated: bool
    foreign: bool
    def __init__(self, operation: str, status: int, reason: str, code: str = ..., pointer: str = ..., request_id: str = ..., retry_after: float = ..., foreign: bool = ...) -> None: ...

class ConnectionLost(AttestdError):
    unsent: bool
    def __init__(self, operation: str, cause: BaseException, unsent: bool = ...) -> None: ...

class PayloadError(AttestdError, ValueError):
    pointer: str
    def __init__(self, pointer: str, reason: str) -> None: ...

class RecordMismatchError(AttestdError):
    places: dict[int, str]
    def __init__(self, operation: str, places: Mapping[int, str]) -> None: ...

class VerificationError(AttestdError):
    code: str
    def __init__(self, code: str, reason: str) -> None: ...

class NotApprovedError(AttestdError):
    approval: Approval
    def __init__(self, approval: Approval) -> None: ...

class MissingCryptography(AttestdError, ImportError): ...

class RefusedError(AttestdError):
    folder: Path
    refused: list[tuple[str, str]]
    def __init__(self, folder: Path, refused: list[tuple[str, str]]) -> None: ...

class FullError(AttestdError): ...

class Retry:
    times: int
    min: float
    max: float
    def __init__(self, times: int = ..., min: float = ..., max: float = ...) -> None: ...

class OAuth:
    def __init__(self, client_id: str, client_secret: str) -> None: ...

class Signer(Protocol):
    jwk: dict[str, str]
    def sign(self, message: bytes) -> bytes: ...

class AgentKey:
    jwk: dict[str, str]
    def __init__(self, jwk: Mapping[str, str]) -> None: ...
    def sign(self, message: bytes) -> bytes: ...

def generate_agent_key(algorithm: Literal["EdDSA", "ES256"] = ...) -> dict[str, str]: ...

class UnknownKeyError(AttestdError):
    agent: str
    key: dict[str, Any]
    def __init__(self, agent: str, key: Mapping[str, Any]) -> None: ...

class OtherLogError(AttestdError):
    agent: str
    known: str
    named: str
    def __init__(self, agent: str, known: str, named: str) -> None: ...

class Continuation(TypedDict):
    sid: str
    kid: str
    hash: str

class Agent:
    key: Signer
    spiffe_id: str
    company_id: str
    agent_id: str
    thumbprint: str
    dpop: bool
    log: Optional[str]
    def __init__(self, key: Signer, spiffe_id: str, *, log: Optional[str] = ..., dpop: bool = ..., known: Iterable[str] = ..., alarm: Optional[Callable[[AttestdError], object]] = ...) -> None: ...
    @classmethod
    def read(cls, path: Union[str, PathLike[str]], *, dpop: bool = ..., alarm: Optional[Callable[[AttestdError], object]] = ...) -> Self: ...

class Session:
    @property
    def id(self) -> str: ...
    @property
    def last(self) -> Optional[Continuation]: ...
    def __init__(self, client: Client, id: Optional[str] = ..., *, continues: Optional[Continuation] = ...) -> None: ...
    @overload
    def attest(self, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotency_key: Optional[str] = ..., end: bool = ...) -> AttestationRecord: ...
    @overload
    def attest(self, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotencyKey: Optional[str] = ..., end: bool = ...) -> AttestationRecord: ...

class SpoolSession:
    @property
    def id(self) -> str: ...
    @property
    def last(self) -> Optional[Continuation]: ...
    def __init__(self, spool: Spool, id: str, *, continues: Optional[Continuation] = ...) -> None: ...
    @overload
    def add(self, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotency_key: Optional[str] = ...) -> None: ...
    @overload
    def add(self, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotencyKey: Optional[str] = ...) -> None: ...
    @overload
    def attest(self, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotency_key: Optional[str] = ..., end: bool = ...) -> Attested: ...
    @overload
    def attest(self, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotencyKey: Optional[str] = ..., end: bool = ...) -> Attested: ...

class Client:
    url: str
    def __init__(self, url: str, credential: Union[str, OAuth, Agent, None] = ..., *, timeout: float = ..., retry: Retry = ..., context: Optional[ssl.SSLContext] = ...) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType], /) -> None: ...
    @overload
    def attest(self, agent_id: str, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotency_key: Optional[str] = ...) -> AttestationRecord: ...
    @overload
    def attest(self, agentId: str, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotencyKey: Optional[str] = ...) -> AttestationRecord: ...
    def session(self, id: Optional[str] = ..., *, continues: Optional[Continuation] = ...) -> Session: ...
    @overload
    def token(self, audience: Union[str, Sequence[str]], *, agent_id: Optional[str] = ..., alg: Optional[str] = ..., ttl: Optional[int] = ...) -> dict[str, str]: ...
    @overload
    def token(self, audience: Union[str, Sequence[str]], *, agentId: Optional[str] = ..., alg: Optional[str] = ..., ttl: Optional[int] = ...) -> dict[str, str]: ...
    @overload
    def enrol_key(self, agent_id: str, key: Signer, *, label: Optional[str] = ..., expires_at: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    def enrol_key(self, agentId: str, key: Signer, *, label: Optional[str] = ..., expiresAt: Optional[str] = ...) -> dict[str, Any]: ...
    def attest_all(self, attestations: Iterable[Attestation]) -> list[AttestationRecord]: ...
    def send_batch(self, items: list[str], *, patient: bool = ...) -> list[AttestationRecord]: ...
    @overload
    def ask(self, agent_id: str, tool: str, arguments: dict[str, Any], *, action_type: Optional[str] = ..., call_id: Optional[str] = ..., expires_in: Optional[int] = ..., reason: Optional[str] = ..., timeout: Optional[float] = ...) -> Approval: ...
    @overload
    def ask(self, agentId: str, tool: str, arguments: dict[str, Any], *, actionType: Optional[str] = ..., callId: Optional[str] = ..., expiresIn: Optional[int] = ..., reason: Optional[str] = ..., timeout: Optional[float] = ...) -> Approval: ...
    @overload
    def await_approval(self, approval_id: str, *, timeout: Optional[float] = ...) -> Approval: ...
    @overload
    def await_approval(self, approvalId: str, *, timeout: Optional[float] = ...) -> Approval: ...
    def records(self, from_: int = ..., limit: Optional[int] = ..., log: Optional[Log] = ...) -> Iterator[AttestationRecord]: ...
    def search(self, limit: Optional[int] = ..., **asked: Any) -> Iterator[AttestationRecord]: ...
    def stream(self, from_: Optional[int] = ...) -> Iterator[StreamMessage]: ...
    def raw(self, operation: str, *order: Any, **given: Any) -> bytes: ...
    def add_checkpoint(self, text: str) -> str: ...
    def attest_batch(self, records: list[AttestItem]) -> dict[str, Any]: ...
    @overload
    def change_person(self, person_id: str, *, disabled: Optional[Union[bool, None]] = ..., email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., name: Optional[Union[str, None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    def change_person(self, personId: str, *, disabled: Optional[Union[bool, None]] = ..., email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., name: Optional[Union[str, None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    def claude_code_hook(self, *, agent: Optional[str] = ..., require: Optional[Literal["passport", "policy", "passport,policy", "policy,passport"]] = ..., redact: Optional[Literal["input", "output", "input,output", "output,input"]] = ..., fail: Optional[Literal["open", "closed"]] = ..., ask_wait: Optional[int] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    def claude_code_hook(self, *, agent: Optional[str] = ..., require: Optional[Literal["passport", "policy", "passport,policy", "policy,passport"]] = ..., redact: Optional[Literal["input", "output", "input,output", "output,input"]] = ..., fail: Optional[Literal["open", "closed"]] = ..., askWait: Optional[int] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    def count_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegated_by: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., buckets: Optional[int] = ..., by: Optional[Literal["agent", "action", "decision"]] = ...) -> Histogram: ...
    @overload
    def count_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegatedBy: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., buckets: Optional[int] = ..., by: Optional[Literal["agent", "action", "decision"]] = ...) -> Histogram: ...
    @overload
    def create_agent_token(self, agent_id: str, audience: Union[str, list[str]], *, alg: Optional[Literal["ES256", "RS256", "EdDSA", None]] = ..., ttl: Optional[Union[int, None]] = ...) -> AgentToken: ...
    @overload
    def create_agent_token(self, agentId: str, audience: Union[str, list[str]], *, alg: Optional[Literal["ES256", "RS256", "EdDSA", None]] = ..., ttl: Optional[Union[int, None]] = ...) -> AgentToken: ...
    @overload
    def create_company(self, company_id: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    def create_company(self, companyId: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    def create_company_svid(self) -> CompanySVID: ...
    @overload
    def create_enrolment(self, agent_id: str, *, expires_in: Optional[Union[int, None]] = ..., label: Optional[Union[str, None]] = ...) -> Enrolment: ...
    @overload
    def create_enrolment(self, agentId: str, *, expiresIn: Optional[Union[int, None]] = ..., label: Optional[Union[str, None]] = ...) -> Enrolment: ...
    @overload
    def create_federation(self, name: str, issuer: str, audience: str, rules: list[FederationRule], *, jwks: Optional[Union[dict[str, Any], None]] = ..., jwks_uri: Optional[Union[str, None]] = ...) -> Federation: ...
    @overload
    def create_federation(self, name: str, issuer: str, audience: str, rules: list[FederationRule], *, jwks: Optional[Union[dict[str, Any], None]] = ..., jwksUri: Optional[Union[str, None]] = ...) -> Federation: ...
    @overload
    def create_key(self, *, expires_at: Optional[NewExpiry] = ..., label: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> KeyCreated: ...
    @overload
    def create_key(self, *, expiresAt: Optional[NewExpiry] = ..., label: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> KeyCreated: ...
    @overload
    def create_oauth_client(self, *, expires_at: Optional[NewExpiry] = ..., jwks: Optional[Union[dict[str, Any], None]] = ..., jwks_uri: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> OAuthClientCreated: ...
    @overload
    def create_oauth_client(self, *, expiresAt: Optional[NewExpiry] = ..., jwks: Optional[Union[dict[str, Any], None]] = ..., jwksUri: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> OAuthClientCreated: ...
    @overload
    def create_person(self, person_id: str, name: str, *, email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    def create_person(self, personId: str, name: str, *, email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    def create_webhook(self, url: str, *, actions: Optional[NewNames] = ..., agents: Optional[NewNames] = ..., description: Optional[Union[str, None]] = ...) -> WebhookWithSecret: ...
    @overload
    def delegate(self, agent_id: str, acting_on: Segment, scope: str, *, authorization_details: Optional[AuthorizationDetailsOrNone] = ...) -> Delegated: ...
    @overload
    def delegate(self, agentId: str, actingOn: Segment, scope: str, *, authorizationDetails: Optional[AuthorizationDetailsOrNone] = ...) -> Delegated: ...
    def delete_federation(self, name: str) -> KeyDeleted: ...
    def delete_key(self, key: str) -> KeyDeleted: ...
    @overload
    def delete_oauth_client(self, client_id: str) -> KeyDeleted: ...
    @overload
    def delete_oauth_client(self, clientId: str) -> KeyDeleted: ...
    @overload
    def delete_person(self, person_id: str) -> KeyDeleted: ...
    @overload
    def delete_person(self, personId: str) -> KeyDeleted: ...
    @overload
    def delete_policy(self, policy_id: str) -> KeyDeleted: ...
    @overload
    def delete_policy(self, policyId: str) -> KeyDeleted: ...
    @overload
    def delete_webhook(self, webhook_id: str) -> KeyDeleted: ...
    @overload
    def delete_webhook(self, webhookId: str) -> KeyDeleted: ...
    @overload
    def disable_agent(self, agent_id: str) -> Disabling: ...
    @overload
    def disable_agent(self, agentId: str) -> Disabling: ...
    @overload
    def disable_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    def disable_webhook(self, webhookId: str) -> Webhook: ...
    @overload
    def enable_agent(self, agent_id: str) -> AgentObject: ...
    @overload
    def enable_agent(self, agentId: str) -> AgentObject: ...
    @overload
    def enable_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    def enable_webhook(self, webhookId: str) -> Webhook: ...
    @overload
    def enrol_agent_key(self, agent_id: str, jwk: dict[str, Any], *, dpop: Optional[str] = ..., endorsement: Optional[Union[str, None]] = ..., expires_at: Optional[Union[str, None]] = ..., label: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ...) -> EnrolledKey: ...
    @overload
    def enrol_agent_key(self, agentId: str, jwk: dict[str, Any], *, DPoP: Optional[str] = ..., endorsement: Optional[Union[str, None]] = ..., expiresAt: Optional[Union[str, None]] = ..., label: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ...) -> EnrolledKey: ...
    def evaluate_access(self, subject: AuthZENEntity, action: AuthZENAction, resource: AuthZENEntity, *, context: Optional[AuthZENContext] = ...) -> AccessDecision: ...
    def evaluate_accesses(self, *, action: Optional[AuthZENAction] = ..., context: Optional[AuthZENContext] = ..., evaluations: Optional[Union[list[dict[str, Any]], None]] = ..., options: Optional[Union[dict[str, Any], None]] = ..., resource: Optional[AuthZENEntity] = ..., subject: Optional[AuthZENEntity] = ...) -> AccessDecisions: ...
    def exchange_token(self, grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"], subject_token: str, subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"], actor_token: str, actor_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"], *, authorization_details: Optional[Union[AuthorizationDetails, str]] = ...) -> Exchanged: ...
    def export_logs(self, *, agent: Optional[str] = ..., all: Optional[Literal["true", "false"]] = ..., content: Optional[Literal["hash", "keep"]] = ..., **members: Any) -> dict[str, Any]: ...
    def export_traces(self, *, agent: Optional[str] = ..., all: Optional[Literal["true", "false"]] = ..., content: Optional[Literal["hash", "keep"]] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    def get_agent(self, agent_id: str) -> AgentObject: ...
    @overload
    def get_agent(self, agentId: str) -> AgentObject: ...
    @overload
    def get_agent_svid(self, agent_id: str, *, audience: Optional[str] = ..., alg: Optional[Literal["ES256", "RS256", "EdDSA"]] = ...) -> AgentSVID: ...
    @overload
    def get_agent_svid(self, agentId: str, *, audience: Optional[str] = ..., alg: Optional[Literal["ES256", "RS256", "EdDSA"]] = ...) -> AgentSVID: ...
    @overload
    def get_approval(self, approval_id: ApprovalID, *, wait: Optional[int] = ...) -> Approval: ...
    @overload
    def get_approval(self, approvalId: ApprovalID, *, wait: Optional[int] = ...) -> Approval: ...
    def get_authority(self, index: int, *, jti: Optional[str] = ...) -> Authority: ...
    def get_authzen_metadata(self) -> AuthZENMetadata: ...
    def get_chain(self, *, from_: Optional[int] = ..., limit: Optional[int] = ..., log: Optional[Literal["actions", "control"]] = ...) -> RecordList: ...
    @overload
    def get_checkpoint(self, log_id: str) -> str: ...
    @overload
    def get_checkpoint(self, logId: str) -> str: ...
    def get_company(self) -> Company: ...
    @overload
    def get_company_authzen_metadata(self, company_id: str) -> AuthZENMetadata: ...
    @overload
    def get_company_authzen_metadata(self, companyId: str) -> AuthZENMetadata: ...
    @overload
    def get_company_resource_metadata(self, company_id: str) -> ResourceMetadata: ...
    @overload
    def get_company_resource_metadata(self, companyId: str) -> ResourceMetadata: ...
    @overload
    def get_company_token(self, company_id: str, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    @overload
    def get_company_token(self, companyId: str, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    def get_consistency(self, from_: int, to: int, *, log: Optional[Literal["actions", "control"]] = ...) -> Consistency: ...
    @overload
    def get_cosigned_checkpoint(self, origin_hash: str) -> str: ...
    @overload
    def get_cosigned_checkpoint(self, originHash: str) -> str: ...
    @overload
    def get_discovery(self, company_id: str) -> Discovery: ...
    @overload
    def get_discovery(self, companyId: str) -> Discovery: ...
    def get_enrolment(self) -> dict[str, Any]: ...
    def get_evidence(self, index: int, *, log: Optional[Literal["actions", "control"]] = ..., jti: Optional[str] = ...) -> Evidence: ...
    def get_federation(self, name: str) -> Federation: ...
    def get_health(self) -> Health: ...
    @overload
    def get_issuer_metadata(self, company_id: str) -> IssuerMetadata: ...
    @overload
    def get_issuer_metadata(self, companyId: str) -> IssuerMetadata: ...
    @overload
    def get_log_consistency(self, log_id: str, from_: int) -> str: ...
    @overload
    def get_log_consistency(self, logId: str, from_: int) -> str: ...
    @overload
    def get_log_proof(self, log_id: str, index: int) -> str: ...
    @overload
    def get_log_proof(self, logId: str, index: int) -> str: ...
    def get_oauth_token(self, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    def get_open_api(self) -> dict[str, Any]: ...
    @overload
    def get_open_idconfiguration(self, company_id: str) -> IssuerMetadata: ...
    @overload
    def get_open_idconfiguration(self, companyId: str) -> IssuerMetadata: ...
    @overload
    def get_open_idmetadata(self, company_id: str) -> IssuerMetadata: ...
    @overload
    def get_open_idmetadata(self, companyId: str) -> IssuerMetadata: ...
    def get_passport_status(self, jti: str) -> PassportStatus: ...
    @overload
    def get_person(self, person_id: str) -> Person: ...
    @overload
    def get_person(self, personId: str) -> Person: ...
    @overload
    def get_policy(self, policy_id: str) -> CedarPolicy: ...
    @overload
    def get_policy(self, policyId: str) -> CedarPolicy: ...
    def get_proof(self, index: int, *, log: Optional[Literal["actions", "control"]] = ...) -> InclusionProof: ...
    @overload
    def get_public_key(self, company_id: str) -> PublicKey: ...
    @overload
    def get_public_key(self, companyId: str) -> PublicKey: ...
    @overload
    def get_public_keys(self, company_id: str) -> PublicKeys: ...
    @overload
    def get_public_keys(self, companyId: str) -> PublicKeys: ...
    def get_readiness(self) -> Ready: ...
    def get_report(self, *, from_: Optional[Timestamp] = ..., to: Optional[Timestamp] = ...) -> Iterator[str]: ...
    def get_resource_metadata(self) -> ResourceMetadata: ...
    @overload
    def get_session(self, agent_id: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ...) -> Iterator[str]: ...
    @overload
    def get_session(self, agentId: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ...) -> Iterator[str]: ...
    @overload
    def get_spiffebundle(self, company_id: str) -> SPIFFEBundle: ...
    @overload
    def get_spiffebundle(self, companyId: str) -> SPIFFEBundle: ...
    @overload
    def get_tile(self, log_id: str, path: str) -> bytes: ...
    @overload
    def get_tile(self, logId: str, path: str) -> bytes: ...
    @overload
    def get_token_keys(self, company_id: str) -> TokenKeySet: ...
    @overload
    def get_token_keys(self, companyId: str) -> TokenKeySet: ...
    @overload
    def get_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    def get_webhook(self, webhookId: str) -> Webhook: ...
    def get_witness(self) -> Witness: ...
    @overload
    def introspect_token(self, company_id: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> Introspection: ...
    @overload
    def introspect_token(self, companyId: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> Introspection: ...
    @overload
    def invite_person(self, person_id: str, *, expires_in: Optional[Union[int, None]] = ...) -> PersonInvitation: ...
    @overload
    def invite_person(self, personId: str, *, expiresIn: Optional[Union[int, None]] = ...) -> PersonInvitation: ...
    @overload
    def issue_passport(self, agent_id: str, *, authorization_details: Optional[AuthorizationDetailsOrNone] = ..., jkt: Optional[Union[str, None]] = ..., scopes: Optional[Union[list[str], None]] = ..., ttl: Optional[Union[int, None]] = ...) -> Passport: ...
    @overload
    def issue_passport(self, agentId: str, *, authorizationDetails: Optional[AuthorizationDetailsOrNone] = ..., jkt: Optional[Union[str, None]] = ..., scopes: Optional[Union[list[str], None]] = ..., ttl: Optional[Union[int, None]] = ...) -> Passport: ...
    @overload
    def list_agent_keys(self, agent_id: str) -> dict[str, Any]: ...
    @overload
    def list_agent_keys(self, agentId: str) -> dict[str, Any]: ...
    def list_agents(self, *, q: Optional[str] = ..., status: Optional[Literal["active", "disabled"]] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> AgentPage: ...
    def list_approvals(self, *, state: Optional[ApprovalState] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> ApprovalList: ...
    @overload
    def list_credentials(self, *, made_by: Optional[str] = ...) -> CredentialList: ...
    @overload
    def list_credentials(self, *, madeBy: Optional[str] = ...) -> CredentialList: ...
    def list_federations(self) -> FederationList: ...
    def list_keys(self) -> KeyList: ...
    def list_logs(self) -> LogList: ...
    def list_oauth_clients(self) -> OAuthClientList: ...
    def list_passports(self, *, agent: Optional[str] = ..., status: Optional[Literal["valid", "revoked", "expired"]] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> PassportPage: ...
    def list_people(self) -> PersonList: ...
    def list_policies(self) -> CedarPolicyList: ...
    def list_revoked_passports(self) -> RevocationList: ...
    @overload
    def list_session_records(self, agent_id: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[int] = ..., limit: Optional[int] = ...) -> dict[str, Any]: ...
    @overload
    def list_session_records(self, agentId: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[int] = ..., limit: Optional[int] = ...) -> dict[str, Any]: ...
    @overload
    def list_sessions(self, *, agent_id: Optional[str] = ..., sid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[str] = ..., to: Optional[str] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    def list_sessions(self, *, agentId: Optional[str] = ..., sid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[str] = ..., to: Optional[str] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> dict[str, Any]: ...
    def list_webhooks(self) -> WebhookList: ...
    @overload
    def put_policy(self, policy_id: str, cedar: str, *, force: Optional[Literal["true", "false"]] = ..., description: Optional[Union[str, None]] = ...) -> CedarPolicy: ...
    @overload
    def put_policy(self, policyId: str, cedar: str, *, force: Optional[Literal["true", "false"]] = ..., description: Optional[Union[str, None]] = ...) -> CedarPolicy: ...
    @overload
    def recover_key(self, company_id: Segment) -> APIKey: ...
    @overload
    def recover_key(self, companyId: Segment) -> APIKey: ...
    @overload
    def register_agent(self, agent_id: Segment, *, if_none_match: Optional[Literal["*"]] = ..., metadata: Optional[Union[dict[str, Any], None]] = ...) -> AgentRegistered: ...
    @overload
    def register_agent(self, agentId: Segment, *, If_None_Match: Optional[Literal["*"]] = ..., metadata: Optional[Union[dict[str, Any], None]] = ...) -> AgentRegistered: ...
    @overload
    def request_approval(self, agent_id: str, tool: str, arguments: dict[str, Any], *, action_type: Optional[Union[str, None]] = ..., call_id: Optional[Union[str, None]] = ..., expires_in: Optional[Union[int, None]] = ..., reason: Optional[Union[str, None]] = ...) -> Approval: ...
    @overload
    def request_approval(self, agentId: str, tool: str, arguments: dict[str, Any], *, actionType: Optional[Union[str, None]] = ..., callId: Optional[Union[str, None]] = ..., expiresIn: Optional[Union[int, None]] = ..., reason: Optional[Union[str, None]] = ...) -> Approval: ...
    @overload
    def revoke_agent_key(self, agent_id: str, thumbprint: str, *, reason: Optional[Union[str, None]] = ..., since: Optional[Union[Timestamp, None]] = ...) -> AgentKeyObject: ...
    @overload
    def revoke_agent_key(self, agentId: str, thumbprint: str, *, reason: Optional[Union[str, None]] = ..., since: Optional[Union[Timestamp, None]] = ...) -> AgentKeyObject: ...
    @overload
    def revoke_passkey(self, person_id: str, credential_id: str) -> Passkey: ...
    @overload
    def revoke_passkey(self, personId: str, credentialId: str) -> Passkey: ...
    def revoke_passport(self, jti: str, *, reason: Optional[Union[str, None]] = ...) -> Revocation: ...
    @overload
    def revoke_token(self, company_id: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    def revoke_token(self, companyId: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> dict[str, Any]: ...
    def rotate_keys(self, *, compromised: Optional[Union[bool, None]] = ...) -> KeysRotated: ...
    @overload
    def rotate_passport(self, agent_id: str, *, service_passport: Optional[JWT] = ..., attestd_passport: Optional[JWT] = ...) -> RotatedPassport: ...
    @overload
    def rotate_passport(self, agentId: str, *, Service_Passport: Optional[JWT] = ..., Attestd_Passport: Optional[JWT] = ...) -> RotatedPassport: ...
    @overload
    def rotate_webhook_secret(self, webhook_id: str) -> WebhookWithSecret: ...
    @overload
    def rotate_webhook_secret(self, webhookId: str) -> WebhookWithSecret: ...
    @overload
    def search_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegated_by: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., q: Optional[str] = ..., payload: Optional[str] = ..., hash: Optional[str] = ..., order: Optional[Literal["newest", "oldest"]] = ..., cursor: Optional[str] = ..., limit: Optional[int] = ...) -> RecordPage: ...
    @overload
    def search_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegatedBy: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., q: Optional[str] = ..., payload: Optional[str] = ..., hash: Optional[str] = ..., order: Optional[Literal["newest", "oldest"]] = ..., cursor: Optional[str] = ..., limit: Optional[int] = ...) -> RecordPage: ...
    @overload
    def set_agent_policy(self, agent_id: str, *, attest: Optional[Literal["any", "key", None]] = ..., dry_run: Optional[Union[bool, None]] = ..., groups: Optional[Union[list[str], None]] = ...) -> Policy: ...
    @overload
    def set_agent_policy(self, agentId: str, *, attest: Optional[Literal["any", "key", None]] = ..., dryRun: Optional[Union[bool, None]] = ..., groups: Optional[Union[list[str], None]] = ...) -> Policy: ...
    @overload
    def set_company_policy(self, *, attest: Optional[Literal["any", "key", None]] = ..., changes: Optional[Literal["any", "people", None]] = ..., decisions: Optional[Literal["denied", "all", None]] = ..., dry_run: Optional[Union[bool, None]] = ..., exchange_audiences: Optional[ExchangeAudiences] = ...) -> CompanyPolicy: ...
    @overload
    def set_company_policy(self, *, attest: Optional[Literal["any", "key", None]] = ..., changes: Optional[Literal["any", "people", None]] = ..., decisions: Optional[Literal["denied", "all", None]] = ..., dryRun: Optional[Union[bool, None]] = ..., exchangeAudiences: Optional[ExchangeAudiences] = ...) -> CompanyPolicy: ...
    @overload
    def setup(self, company_id: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    def setup(self, companyId: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    def test_policies(self, *, agent_id: Optional[Union[str, None]] = ..., draft: Optional[Union[TriedPolicy, None]] = ..., from_: Optional[Union[int, None]] = ..., limit: Optional[Union[int, None]] = ..., policies: Optional[Union[list[TriedPolicy], None]] = ..., remove: Optional[Union[list[str], None]] = ..., to: Optional[Union[int, None]] = ...) -> PolicyTried: ...
    @overload
    def test_policies(self, *, agentId: Optional[Union[str, None]] = ..., draft: Optional[Union[TriedPolicy, None]] = ..., from_: Optional[Union[int, None]] = ..., limit: Optional[Union[int, None]] = ..., policies: Optional[Union[list[TriedPolicy], None]] = ..., remove: Optional[Union[list[str], None]] = ..., to: Optional[Union[int, None]] = ...) -> PolicyTried: ...
    @overload
    def test_webhook(self, webhook_id: str) -> WebhookTested: ...
    @overload
    def test_webhook(self, webhookId: str) -> WebhookTested: ...
    def verify_chain(self, *, log: Optional[Literal["actions", "control"]] = ...) -> Verdict: ...
    def verify_passport(self, passport: str, *, arguments: Optional[Any] = ..., htm: Optional[Union[str, None]] = ..., htu: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ..., tool: Optional[str] = ...) -> Union[PassportAccepted, PassportDenied]: ...
    @overload
    def withdraw_approval(self, approval_id: ApprovalID) -> KeyDeleted: ...
    @overload
    def withdraw_approval(self, approvalId: ApprovalID) -> KeyDeleted: ...

class AsyncClient:
    client: Client
    def __init__(self, url: str, credential: Union[str, OAuth, Agent, None] = ..., *, timeout: float = ..., retry: Retry = ..., context: Optional[ssl.SSLContext] = ...) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType], /) -> None: ...
    async def close(self) -> None: ...
    @overload
    async def attest(self, agent_id: str, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotency_key: Optional[str] = ...) -> AttestationRecord: ...
    @overload
    async def attest(self, agentId: str, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., passport: Optional[str] = ..., idempotencyKey: Optional[str] = ...) -> AttestationRecord: ...
    async def attest_all(self, attestations: Iterable[Attestation]) -> list[AttestationRecord]: ...
    async def session(self, id: Optional[str] = ..., *, continues: Optional[Continuation] = ...) -> Session: ...
    @overload
    async def token(self, audience: Union[str, Sequence[str]], *, agent_id: Optional[str] = ..., alg: Optional[str] = ..., ttl: Optional[int] = ...) -> dict[str, str]: ...
    @overload
    async def token(self, audience: Union[str, Sequence[str]], *, agentId: Optional[str] = ..., alg: Optional[str] = ..., ttl: Optional[int] = ...) -> dict[str, str]: ...
    @overload
    async def enrol_key(self, agent_id: str, key: Signer, *, label: Optional[str] = ..., expires_at: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    async def enrol_key(self, agentId: str, key: Signer, *, label: Optional[str] = ..., expiresAt: Optional[str] = ...) -> dict[str, Any]: ...
    async def send_batch(self, items: list[str], *, patient: bool = ...) -> list[AttestationRecord]: ...
    @overload
    async def ask(self, agent_id: str, tool: str, arguments: dict[str, Any], *, action_type: Optional[str] = ..., call_id: Optional[str] = ..., expires_in: Optional[int] = ..., reason: Optional[str] = ..., timeout: Optional[float] = ...) -> Approval: ...
    @overload
    async def ask(self, agentId: str, tool: str, arguments: dict[str, Any], *, actionType: Optional[str] = ..., callId: Optional[str] = ..., expiresIn: Optional[int] = ..., reason: Optional[str] = ..., timeout: Optional[float] = ...) -> Approval: ...
    @overload
    async def await_approval(self, approval_id: str, *, timeout: Optional[float] = ...) -> Approval: ...
    @overload
    async def await_approval(self, approvalId: str, *, timeout: Optional[float] = ...) -> Approval: ...
    def records(self, from_: int = ..., limit: Optional[int] = ..., log: Optional[Log] = ...) -> AsyncIterator[AttestationRecord]: ...
    def search(self, limit: Optional[int] = ..., **asked: Any) -> AsyncIterator[AttestationRecord]: ...
    def stream(self, from_: Optional[int] = ...) -> AsyncIterator[StreamMessage]: ...
    async def raw(self, operation: str, *order: Any, **given: Any) -> bytes: ...
    async def add_checkpoint(self, text: str) -> str: ...
    async def attest_batch(self, records: list[AttestItem]) -> dict[str, Any]: ...
    @overload
    async def change_person(self, person_id: str, *, disabled: Optional[Union[bool, None]] = ..., email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., name: Optional[Union[str, None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    async def change_person(self, personId: str, *, disabled: Optional[Union[bool, None]] = ..., email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., name: Optional[Union[str, None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    async def claude_code_hook(self, *, agent: Optional[str] = ..., require: Optional[Literal["passport", "policy", "passport,policy", "policy,passport"]] = ..., redact: Optional[Literal["input", "output", "input,output", "output,input"]] = ..., fail: Optional[Literal["open", "closed"]] = ..., ask_wait: Optional[int] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    async def claude_code_hook(self, *, agent: Optional[str] = ..., require: Optional[Literal["passport", "policy", "passport,policy", "policy,passport"]] = ..., redact: Optional[Literal["input", "output", "input,output", "output,input"]] = ..., fail: Optional[Literal["open", "closed"]] = ..., askWait: Optional[int] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    async def count_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegated_by: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., buckets: Optional[int] = ..., by: Optional[Literal["agent", "action", "decision"]] = ...) -> Histogram: ...
    @overload
    async def count_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegatedBy: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., buckets: Optional[int] = ..., by: Optional[Literal["agent", "action", "decision"]] = ...) -> Histogram: ...
    @overload
    async def create_agent_token(self, agent_id: str, audience: Union[str, list[str]], *, alg: Optional[Literal["ES256", "RS256", "EdDSA", None]] = ..., ttl: Optional[Union[int, None]] = ...) -> AgentToken: ...
    @overload
    async def create_agent_token(self, agentId: str, audience: Union[str, list[str]], *, alg: Optional[Literal["ES256", "RS256", "EdDSA", None]] = ..., ttl: Optional[Union[int, None]] = ...) -> AgentToken: ...
    @overload
    async def create_company(self, company_id: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    async def create_company(self, companyId: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    async def create_company_svid(self) -> CompanySVID: ...
    @overload
    async def create_enrolment(self, agent_id: str, *, expires_in: Optional[Union[int, None]] = ..., label: Optional[Union[str, None]] = ...) -> Enrolment: ...
    @overload
    async def create_enrolment(self, agentId: str, *, expiresIn: Optional[Union[int, None]] = ..., label: Optional[Union[str, None]] = ...) -> Enrolment: ...
    @overload
    async def create_federation(self, name: str, issuer: str, audience: str, rules: list[FederationRule], *, jwks: Optional[Union[dict[str, Any], None]] = ..., jwks_uri: Optional[Union[str, None]] = ...) -> Federation: ...
    @overload
    async def create_federation(self, name: str, issuer: str, audience: str, rules: list[FederationRule], *, jwks: Optional[Union[dict[str, Any], None]] = ..., jwksUri: Optional[Union[str, None]] = ...) -> Federation: ...
    @overload
    async def create_key(self, *, expires_at: Optional[NewExpiry] = ..., label: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> KeyCreated: ...
    @overload
    async def create_key(self, *, expiresAt: Optional[NewExpiry] = ..., label: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> KeyCreated: ...
    @overload
    async def create_oauth_client(self, *, expires_at: Optional[NewExpiry] = ..., jwks: Optional[Union[dict[str, Any], None]] = ..., jwks_uri: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> OAuthClientCreated: ...
    @overload
    async def create_oauth_client(self, *, expiresAt: Optional[NewExpiry] = ..., jwks: Optional[Union[dict[str, Any], None]] = ..., jwksUri: Optional[Union[str, None]] = ..., role: Optional[NewRole] = ...) -> OAuthClientCreated: ...
    @overload
    async def create_person(self, person_id: str, name: str, *, email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    @overload
    async def create_person(self, personId: str, name: str, *, email: Optional[Union[str, None]] = ..., groups: Optional[Union[list[str], None]] = ..., roles: Optional[Union[list[Literal["admin", "approver", "reader"]], None]] = ..., subjects: Optional[Union[list[PersonSubject], None]] = ...) -> Person: ...
    async def create_webhook(self, url: str, *, actions: Optional[NewNames] = ..., agents: Optional[NewNames] = ..., description: Optional[Union[str, None]] = ...) -> WebhookWithSecret: ...
    @overload
    async def delegate(self, agent_id: str, acting_on: Segment, scope: str, *, authorization_details: Optional[AuthorizationDetailsOrNone] = ...) -> Delegated: ...
    @overload
    async def delegate(self, agentId: str, actingOn: Segment, scope: str, *, authorizationDetails: Optional[AuthorizationDetailsOrNone] = ...) -> Delegated: ...
    async def delete_federation(self, name: str) -> KeyDeleted: ...
    async def delete_key(self, key: str) -> KeyDeleted: ...
    @overload
    async def delete_oauth_client(self, client_id: str) -> KeyDeleted: ...
    @overload
    async def delete_oauth_client(self, clientId: str) -> KeyDeleted: ...
    @overload
    async def delete_person(self, person_id: str) -> KeyDeleted: ...
    @overload
    async def delete_person(self, personId: str) -> KeyDeleted: ...
    @overload
    async def delete_policy(self, policy_id: str) -> KeyDeleted: ...
    @overload
    async def delete_policy(self, policyId: str) -> KeyDeleted: ...
    @overload
    async def delete_webhook(self, webhook_id: str) -> KeyDeleted: ...
    @overload
    async def delete_webhook(self, webhookId: str) -> KeyDeleted: ...
    @overload
    async def disable_agent(self, agent_id: str) -> Disabling: ...
    @overload
    async def disable_agent(self, agentId: str) -> Disabling: ...
    @overload
    async def disable_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    async def disable_webhook(self, webhookId: str) -> Webhook: ...
    @overload
    async def enable_agent(self, agent_id: str) -> AgentObject: ...
    @overload
    async def enable_agent(self, agentId: str) -> AgentObject: ...
    @overload
    async def enable_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    async def enable_webhook(self, webhookId: str) -> Webhook: ...
    @overload
    async def enrol_agent_key(self, agent_id: str, jwk: dict[str, Any], *, dpop: Optional[str] = ..., endorsement: Optional[Union[str, None]] = ..., expires_at: Optional[Union[str, None]] = ..., label: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ...) -> EnrolledKey: ...
    @overload
    async def enrol_agent_key(self, agentId: str, jwk: dict[str, Any], *, DPoP: Optional[str] = ..., endorsement: Optional[Union[str, None]] = ..., expiresAt: Optional[Union[str, None]] = ..., label: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ...) -> EnrolledKey: ...
    async def evaluate_access(self, subject: AuthZENEntity, action: AuthZENAction, resource: AuthZENEntity, *, context: Optional[AuthZENContext] = ...) -> AccessDecision: ...
    async def evaluate_accesses(self, *, action: Optional[AuthZENAction] = ..., context: Optional[AuthZENContext] = ..., evaluations: Optional[Union[list[dict[str, Any]], None]] = ..., options: Optional[Union[dict[str, Any], None]] = ..., resource: Optional[AuthZENEntity] = ..., subject: Optional[AuthZENEntity] = ...) -> AccessDecisions: ...
    async def exchange_token(self, grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"], subject_token: str, subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"], actor_token: str, actor_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"], *, authorization_details: Optional[Union[AuthorizationDetails, str]] = ...) -> Exchanged: ...
    async def export_logs(self, *, agent: Optional[str] = ..., all: Optional[Literal["true", "false"]] = ..., content: Optional[Literal["hash", "keep"]] = ..., **members: Any) -> dict[str, Any]: ...
    async def export_traces(self, *, agent: Optional[str] = ..., all: Optional[Literal["true", "false"]] = ..., content: Optional[Literal["hash", "keep"]] = ..., **members: Any) -> dict[str, Any]: ...
    @overload
    async def get_agent(self, agent_id: str) -> AgentObject: ...
    @overload
    async def get_agent(self, agentId: str) -> AgentObject: ...
    @overload
    async def get_agent_svid(self, agent_id: str, *, audience: Optional[str] = ..., alg: Optional[Literal["ES256", "RS256", "EdDSA"]] = ...) -> AgentSVID: ...
    @overload
    async def get_agent_svid(self, agentId: str, *, audience: Optional[str] = ..., alg: Optional[Literal["ES256", "RS256", "EdDSA"]] = ...) -> AgentSVID: ...
    @overload
    async def get_approval(self, approval_id: ApprovalID, *, wait: Optional[int] = ...) -> Approval: ...
    @overload
    async def get_approval(self, approvalId: ApprovalID, *, wait: Optional[int] = ...) -> Approval: ...
    async def get_authority(self, index: int, *, jti: Optional[str] = ...) -> Authority: ...
    async def get_authzen_metadata(self) -> AuthZENMetadata: ...
    async def get_chain(self, *, from_: Optional[int] = ..., limit: Optional[int] = ..., log: Optional[Literal["actions", "control"]] = ...) -> RecordList: ...
    @overload
    async def get_checkpoint(self, log_id: str) -> str: ...
    @overload
    async def get_checkpoint(self, logId: str) -> str: ...
    async def get_company(self) -> Company: ...
    @overload
    async def get_company_authzen_metadata(self, company_id: str) -> AuthZENMetadata: ...
    @overload
    async def get_company_authzen_metadata(self, companyId: str) -> AuthZENMetadata: ...
    @overload
    async def get_company_resource_metadata(self, company_id: str) -> ResourceMetadata: ...
    @overload
    async def get_company_resource_metadata(self, companyId: str) -> ResourceMetadata: ...
    @overload
    async def get_company_token(self, company_id: str, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    @overload
    async def get_company_token(self, companyId: str, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    async def get_consistency(self, from_: int, to: int, *, log: Optional[Literal["actions", "control"]] = ...) -> Consistency: ...
    @overload
    async def get_cosigned_checkpoint(self, origin_hash: str) -> str: ...
    @overload
    async def get_cosigned_checkpoint(self, originHash: str) -> str: ...
    @overload
    async def get_discovery(self, company_id: str) -> Discovery: ...
    @overload
    async def get_discovery(self, companyId: str) -> Discovery: ...
    async def get_enrolment(self) -> dict[str, Any]: ...
    async def get_evidence(self, index: int, *, log: Optional[Literal["actions", "control"]] = ..., jti: Optional[str] = ...) -> Evidence: ...
    async def get_federation(self, name: str) -> Federation: ...
    async def get_health(self) -> Health: ...
    @overload
    async def get_issuer_metadata(self, company_id: str) -> IssuerMetadata: ...
    @overload
    async def get_issuer_metadata(self, companyId: str) -> IssuerMetadata: ...
    @overload
    async def get_log_consistency(self, log_id: str, from_: int) -> str: ...
    @overload
    async def get_log_consistency(self, logId: str, from_: int) -> str: ...
    @overload
    async def get_log_proof(self, log_id: str, index: int) -> str: ...
    @overload
    async def get_log_proof(self, logId: str, index: int) -> str: ...
    async def get_oauth_token(self, grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"], *, actor_token: Optional[str] = ..., actor_token_type: Optional[str] = ..., assertion: Optional[str] = ..., audience: Optional[Union[str, list[str]]] = ..., authorization_details: Optional[Union[AuthorizationDetails, str]] = ..., client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., may_act: Optional[str] = ..., requested_token_type: Optional[str] = ..., resource: Optional[Union[str, list[str]]] = ..., scope: Optional[str] = ..., subject_token: Optional[str] = ..., subject_token_type: Optional[str] = ...) -> TokenResponse: ...
    async def get_open_api(self) -> dict[str, Any]: ...
    @overload
    async def get_open_idconfiguration(self, company_id: str) -> IssuerMetadata: ...
    @overload
    async def get_open_idconfiguration(self, companyId: str) -> IssuerMetadata: ...
    @overload
    async def get_open_idmetadata(self, company_id: str) -> IssuerMetadata: ...
    @overload
    async def get_open_idmetadata(self, companyId: str) -> IssuerMetadata: ...
    async def get_passport_status(self, jti: str) -> PassportStatus: ...
    @overload
    async def get_person(self, person_id: str) -> Person: ...
    @overload
    async def get_person(self, personId: str) -> Person: ...
    @overload
    async def get_policy(self, policy_id: str) -> CedarPolicy: ...
    @overload
    async def get_policy(self, policyId: str) -> CedarPolicy: ...
    async def get_proof(self, index: int, *, log: Optional[Literal["actions", "control"]] = ...) -> InclusionProof: ...
    @overload
    async def get_public_key(self, company_id: str) -> PublicKey: ...
    @overload
    async def get_public_key(self, companyId: str) -> PublicKey: ...
    @overload
    async def get_public_keys(self, company_id: str) -> PublicKeys: ...
    @overload
    async def get_public_keys(self, companyId: str) -> PublicKeys: ...
    async def get_readiness(self) -> Ready: ...
    def get_report(self, *, from_: Optional[Timestamp] = ..., to: Optional[Timestamp] = ...) -> AsyncIterator[str]: ...
    async def get_resource_metadata(self) -> ResourceMetadata: ...
    @overload
    def get_session(self, agent_id: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ...) -> AsyncIterator[str]: ...
    @overload
    def get_session(self, agentId: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ...) -> AsyncIterator[str]: ...
    @overload
    async def get_spiffebundle(self, company_id: str) -> SPIFFEBundle: ...
    @overload
    async def get_spiffebundle(self, companyId: str) -> SPIFFEBundle: ...
    @overload
    async def get_tile(self, log_id: str, path: str) -> bytes: ...
    @overload
    async def get_tile(self, logId: str, path: str) -> bytes: ...
    @overload
    async def get_token_keys(self, company_id: str) -> TokenKeySet: ...
    @overload
    async def get_token_keys(self, companyId: str) -> TokenKeySet: ...
    @overload
    async def get_webhook(self, webhook_id: str) -> Webhook: ...
    @overload
    async def get_webhook(self, webhookId: str) -> Webhook: ...
    async def get_witness(self) -> Witness: ...
    @overload
    async def introspect_token(self, company_id: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> Introspection: ...
    @overload
    async def introspect_token(self, companyId: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> Introspection: ...
    @overload
    async def invite_person(self, person_id: str, *, expires_in: Optional[Union[int, None]] = ...) -> PersonInvitation: ...
    @overload
    async def invite_person(self, personId: str, *, expiresIn: Optional[Union[int, None]] = ...) -> PersonInvitation: ...
    @overload
    async def issue_passport(self, agent_id: str, *, authorization_details: Optional[AuthorizationDetailsOrNone] = ..., jkt: Optional[Union[str, None]] = ..., scopes: Optional[Union[list[str], None]] = ..., ttl: Optional[Union[int, None]] = ...) -> Passport: ...
    @overload
    async def issue_passport(self, agentId: str, *, authorizationDetails: Optional[AuthorizationDetailsOrNone] = ..., jkt: Optional[Union[str, None]] = ..., scopes: Optional[Union[list[str], None]] = ..., ttl: Optional[Union[int, None]] = ...) -> Passport: ...
    @overload
    async def list_agent_keys(self, agent_id: str) -> dict[str, Any]: ...
    @overload
    async def list_agent_keys(self, agentId: str) -> dict[str, Any]: ...
    async def list_agents(self, *, q: Optional[str] = ..., status: Optional[Literal["active", "disabled"]] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> AgentPage: ...
    async def list_approvals(self, *, state: Optional[ApprovalState] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> ApprovalList: ...
    @overload
    async def list_credentials(self, *, made_by: Optional[str] = ...) -> CredentialList: ...
    @overload
    async def list_credentials(self, *, madeBy: Optional[str] = ...) -> CredentialList: ...
    async def list_federations(self) -> FederationList: ...
    async def list_keys(self) -> KeyList: ...
    async def list_logs(self) -> LogList: ...
    async def list_oauth_clients(self) -> OAuthClientList: ...
    async def list_passports(self, *, agent: Optional[str] = ..., status: Optional[Literal["valid", "revoked", "expired"]] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> PassportPage: ...
    async def list_people(self) -> PersonList: ...
    async def list_policies(self) -> CedarPolicyList: ...
    async def list_revoked_passports(self) -> RevocationList: ...
    @overload
    async def list_session_records(self, agent_id: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[int] = ..., limit: Optional[int] = ...) -> dict[str, Any]: ...
    @overload
    async def list_session_records(self, agentId: str, sid: str, *, kid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[int] = ..., limit: Optional[int] = ...) -> dict[str, Any]: ...
    @overload
    async def list_sessions(self, *, agent_id: Optional[str] = ..., sid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[str] = ..., to: Optional[str] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    async def list_sessions(self, *, agentId: Optional[str] = ..., sid: Optional[str] = ..., kind: Optional[SessionKind] = ..., from_: Optional[str] = ..., to: Optional[str] = ..., limit: Optional[int] = ..., cursor: Optional[str] = ...) -> dict[str, Any]: ...
    async def list_webhooks(self) -> WebhookList: ...
    @overload
    async def put_policy(self, policy_id: str, cedar: str, *, force: Optional[Literal["true", "false"]] = ..., description: Optional[Union[str, None]] = ...) -> CedarPolicy: ...
    @overload
    async def put_policy(self, policyId: str, cedar: str, *, force: Optional[Literal["true", "false"]] = ..., description: Optional[Union[str, None]] = ...) -> CedarPolicy: ...
    @overload
    async def recover_key(self, company_id: Segment) -> APIKey: ...
    @overload
    async def recover_key(self, companyId: Segment) -> APIKey: ...
    @overload
    async def register_agent(self, agent_id: Segment, *, if_none_match: Optional[Literal["*"]] = ..., metadata: Optional[Union[dict[str, Any], None]] = ...) -> AgentRegistered: ...
    @overload
    async def register_agent(self, agentId: Segment, *, If_None_Match: Optional[Literal["*"]] = ..., metadata: Optional[Union[dict[str, Any], None]] = ...) -> AgentRegistered: ...
    @overload
    async def request_approval(self, agent_id: str, tool: str, arguments: dict[str, Any], *, action_type: Optional[Union[str, None]] = ..., call_id: Optional[Union[str, None]] = ..., expires_in: Optional[Union[int, None]] = ..., reason: Optional[Union[str, None]] = ...) -> Approval: ...
    @overload
    async def request_approval(self, agentId: str, tool: str, arguments: dict[str, Any], *, actionType: Optional[Union[str, None]] = ..., callId: Optional[Union[str, None]] = ..., expiresIn: Optional[Union[int, None]] = ..., reason: Optional[Union[str, None]] = ...) -> Approval: ...
    @overload
    async def revoke_agent_key(self, agent_id: str, thumbprint: str, *, reason: Optional[Union[str, None]] = ..., since: Optional[Union[Timestamp, None]] = ...) -> AgentKeyObject: ...
    @overload
    async def revoke_agent_key(self, agentId: str, thumbprint: str, *, reason: Optional[Union[str, None]] = ..., since: Optional[Union[Timestamp, None]] = ...) -> AgentKeyObject: ...
    @overload
    async def revoke_passkey(self, person_id: str, credential_id: str) -> Passkey: ...
    @overload
    async def revoke_passkey(self, personId: str, credentialId: str) -> Passkey: ...
    async def revoke_passport(self, jti: str, *, reason: Optional[Union[str, None]] = ...) -> Revocation: ...
    @overload
    async def revoke_token(self, company_id: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> dict[str, Any]: ...
    @overload
    async def revoke_token(self, companyId: str, token: str, *, client_assertion: Optional[str] = ..., client_assertion_type: Optional[str] = ..., client_id: Optional[str] = ..., client_secret: Optional[str] = ..., token_type_hint: Optional[str] = ...) -> dict[str, Any]: ...
    async def rotate_keys(self, *, compromised: Optional[Union[bool, None]] = ...) -> KeysRotated: ...
    @overload
    async def rotate_passport(self, agent_id: str, *, service_passport: Optional[JWT] = ..., attestd_passport: Optional[JWT] = ...) -> RotatedPassport: ...
    @overload
    async def rotate_passport(self, agentId: str, *, Service_Passport: Optional[JWT] = ..., Attestd_Passport: Optional[JWT] = ...) -> RotatedPassport: ...
    @overload
    async def rotate_webhook_secret(self, webhook_id: str) -> WebhookWithSecret: ...
    @overload
    async def rotate_webhook_secret(self, webhookId: str) -> WebhookWithSecret: ...
    @overload
    async def search_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegated_by: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., q: Optional[str] = ..., payload: Optional[str] = ..., hash: Optional[str] = ..., order: Optional[Literal["newest", "oldest"]] = ..., cursor: Optional[str] = ..., limit: Optional[int] = ...) -> RecordPage: ...
    @overload
    async def search_records(self, *, log: Optional[Literal["actions", "control"]] = ..., agent: Optional[str] = ..., action: Optional[str] = ..., delegatedBy: Optional[str] = ..., decision: Optional[Literal["allow", "deny", "ask"]] = ..., policy: Optional[str] = ..., since: Optional[str] = ..., until: Optional[str] = ..., q: Optional[str] = ..., payload: Optional[str] = ..., hash: Optional[str] = ..., order: Optional[Literal["newest", "oldest"]] = ..., cursor: Optional[str] = ..., limit: Optional[int] = ...) -> RecordPage: ...
    @overload
    async def set_agent_policy(self, agent_id: str, *, attest: Optional[Literal["any", "key", None]] = ..., dry_run: Optional[Union[bool, None]] = ..., groups: Optional[Union[list[str], None]] = ...) -> Policy: ...
    @overload
    async def set_agent_policy(self, agentId: str, *, attest: Optional[Literal["any", "key", None]] = ..., dryRun: Optional[Union[bool, None]] = ..., groups: Optional[Union[list[str], None]] = ...) -> Policy: ...
    @overload
    async def set_company_policy(self, *, attest: Optional[Literal["any", "key", None]] = ..., changes: Optional[Literal["any", "people", None]] = ..., decisions: Optional[Literal["denied", "all", None]] = ..., dry_run: Optional[Union[bool, None]] = ..., exchange_audiences: Optional[ExchangeAudiences] = ...) -> CompanyPolicy: ...
    @overload
    async def set_company_policy(self, *, attest: Optional[Literal["any", "key", None]] = ..., changes: Optional[Literal["any", "people", None]] = ..., decisions: Optional[Literal["denied", "all", None]] = ..., dryRun: Optional[Union[bool, None]] = ..., exchangeAudiences: Optional[ExchangeAudiences] = ...) -> CompanyPolicy: ...
    @overload
    async def setup(self, company_id: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    async def setup(self, companyId: Segment, *, metadata: Optional[Union[dict[str, Any], None]] = ...) -> CompanyCreated: ...
    @overload
    async def test_policies(self, *, agent_id: Optional[Union[str, None]] = ..., draft: Optional[Union[TriedPolicy, None]] = ..., from_: Optional[Union[int, None]] = ..., limit: Optional[Union[int, None]] = ..., policies: Optional[Union[list[TriedPolicy], None]] = ..., remove: Optional[Union[list[str], None]] = ..., to: Optional[Union[int, None]] = ...) -> PolicyTried: ...
    @overload
    async def test_policies(self, *, agentId: Optional[Union[str, None]] = ..., draft: Optional[Union[TriedPolicy, None]] = ..., from_: Optional[Union[int, None]] = ..., limit: Optional[Union[int, None]] = ..., policies: Optional[Union[list[TriedPolicy], None]] = ..., remove: Optional[Union[list[str], None]] = ..., to: Optional[Union[int, None]] = ...) -> PolicyTried: ...
    @overload
    async def test_webhook(self, webhook_id: str) -> WebhookTested: ...
    @overload
    async def test_webhook(self, webhookId: str) -> WebhookTested: ...
    async def verify_chain(self, *, log: Optional[Literal["actions", "control"]] = ...) -> Verdict: ...
    async def verify_passport(self, passport: str, *, arguments: Optional[Any] = ..., htm: Optional[Union[str, None]] = ..., htu: Optional[Union[str, None]] = ..., proof: Optional[Union[str, None]] = ..., tool: Optional[str] = ...) -> Union[PassportAccepted, PassportDenied]: ...
    @overload
    async def withdraw_approval(self, approval_id: ApprovalID) -> KeyDeleted: ...
    @overload
    async def withdraw_approval(self, approvalId: ApprovalID) -> KeyDeleted: ...

class Spool:
    folder: Path
    client: Client
    limit: int
    def __init__(self, folder: Union[str, PathLike[str]], client: Client, *, limit: int = ...) -> None: ...
    @overload
    def add(self, agent_id: str, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotency_key: Optional[str] = ...) -> str: ...
    @overload
    def add(self, agentId: str, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotencyKey: Optional[str] = ...) -> str: ...
    @overload
    def attest(self, agent_id: str, action_type: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotency_key: Optional[str] = ...) -> Attested: ...
    @overload
    def attest(self, agentId: str, actionType: str, payload: Any, *, delegation: Optional[str] = ..., decide: bool = ..., folder: Optional[str] = ..., idempotencyKey: Optional[str] = ...) -> Attested: ...
    def session(self, id: str, *, continues: Optional[Continuation] = ...) -> SpoolSession: ...
    def pending(self) -> int: ...
    def flush(self) -> None: ...
    def run(self, every: float, stop: threading.Event, failed: Callable[[AttestdError], object] = ...) -> None: ...

class Keys:
    actions: dict[str, Any]
    control: dict[str, Any]
    def __init__(self, keys: Given, fingerprint: str) -> None: ...
    @classmethod
    def of_key(cls, key: str, company_id: str, trust_domain: str = ...) -> Self: ...
    def of(self, log: Log) -> dict[str, Any]: ...

def verify_record(record: Given, keys: Keys, *, log: Log = ...) -> None: ...
def verify_proof(proof: Given, keys: Keys, *, log: Log = ..., root: Optional[str] = ...) -> str: ...
def verify_inclusion(proof: Given, keys: Keys, *, log: Log = ..., root: Optional[str] = ...) -> str: ...
def verify_token(token: str, keys: Keys, *, service: str = ...) -> dict[str, Any]: ...
def verify_passport(passport: str, keys: Keys, *, tool: Optional[str] = ..., arguments: Any = ..., service: str = ...) -> tuple[dict[str, Any], str]: ...
def verify_status(status: Given, keys: Keys, jti: str, *, max_age: float = ...) -> Literal["valid", "revoked", "unknown"]: ...
def verify_evidence(evidence: Given, *, fingerprint: Optional[str] = ..., policy: Optional[str] = ..., agent_key: Optional[str] = ...) -> tuple[list[str], list[str]]: ...
