// Package evidence creates and checks evidence files. A file has one record of a log and the proofs
// of its origin and its place in the log. Anyone who has the file can check it years later without
// a server. The package is pure: bytes in, verdict out. [SessionFormat] and [ReportFormat] describe
// files of more than one record.
//
// # Format
//
// An evidence file is one JSON object (RFC 8259) of at most 64 MiB that nests at most 160 deep. It
// has no duplicate members, no lone surrogates and no numbers that an IEEE 754 double cannot
// represent.
//
// A file weighs at most 9,000,000, which bounds the memory of its reader. Outside strings each {
// and each [ weighs 2, each comma and each colon 4. Each string weighs 2, and each backslash that
// begins an escape 4. No byte weighs more than 2 on average, so every payload of 4 MiB is within
// the bound.
//
// A file has exactly these members; ? marks optional ones:
//
//	format      "attestd-evidence/v1"
//	companyId   [A-Za-z0-9._-]{1,128}, not "." or ".."
//	log         "actions" or "control": the log of the record
//	record      the record, as GET /v1/chain has it
//	hexProof    {"proof":[{"sibling","position"}…],"root","size"}: that of GET /v1/proof/{index}, in the tree of the
//	            checkpoint's size
//	tlogProof   C2SP tlog-proof of the record, as text, without extra
//	logs        [LOG…]: actions, control, or both in this order
//	keys        [{"kid","fingerprint","jwk"}…]: all keys of the company, from the first to the one that has
//	            signed the checkpoints and the status of this file
//	witnesses   ["<vkey>"…]: the witnesses with cosignatures below the checkpoints of this file, those of the
//	            record first, or []
//	delegation? the delegation of the record, repeated; present exactly if the record has one
//	agentKey?   {"records":[ENTRY…]}: control records of the agent's key that signed the statement of the record,
//	            and of the keys from which it follows; present exactly if the record has a statement
//	passport?   {"jti","records":[ENTRY…]}: the requested passport, with its control records
//	status?     the response of GET /v1/ocsp/{jti} for that passport; present exactly if passport is
//	authority?  {"records":[ENTRY…]}: control records about the authority of the record's agent
//	policies?   {"records":[ENTRY…]}: control records of the policies by which the record was decided, and of the
//	            next change of them; only if the record has a decision
//	passports?  {"records":[ENTRY…]}: control records of the passport by which the record was decided; only if its
//	            decision names one
//	approvals?  {"requests":[ENTRY…],"records":[ENTRY…]}: the records of actions that asked for the approval of the
//	            record, and control records of who gave it; only if the record was allowed with one
//	notProven   ["…"…]: what a file of this form does not prove; sentences fixed by this package
//
//	LOG         {"log","logId","origin","keys":[{"kid","fromIndex","rotation"?}…]}
//	rotation    {"statement","oldSignature","newSignature"}, as in GET /v1/ca/public-keys
//	ENTRY       {"record","tlogProof"}, of the control log, with the record as GET /v1/chain?log=control has it;
//	            in requests, of actions
//
// Everything in a file is authenticated. So it has no times of keys, no metadata of agents and no
// state that follows from the absence of a record: the checker derives state from the records.
//
// Formats: whole numbers (index, size, fromIndex) are from 0 to 2⁵³-1, in digits alone; hashes,
// siblings, roots, kids and logIds are lower-case hex of 64, 64, 64, 16 and 32 digits; signatures
// and x are base64url of 64 and 32 bytes, without padding and without stray bits; timestamps are
// 2006-01-02T15:04:05.000Z, and possible; position is left or right; the jti of passport is a UUID
// in lower case.
//
// # Checks
//
// They are made in this order. The first failed check gives the code of the verdict.
//
//  1. MALFORMED. The file is of the form above: members, their types, their spelling, also inside
//     jwk, records, logs, entries and status. There are 1 to 10,000 keys, and at most 60 steps, 2
//     logs, 16 witnesses and 10,000 entries in a list. Here payload and delegation of a record may
//     be any JSON, and texts (tlogProof, statement, vkey, PEM, fingerprint, origin, members of jwk
//     except x) any strings. A status has jti, companyId, status, checkedAt, caPublicKey, signature
//     and optionally revokedAt and reason. All are strings; checkedAt and revokedAt are timestamps.
//     agentKey is only there if payload is an object with the member statement. A record may have
//     "pruned":true, if its payload is null: see check 3.
//
//  2. KEYS. Of each key, kid is the first 16 hex digits and fingerprint is "SHA256:" and the
//     base64url of the SHA-256 of the key's SPKI DER; jwk is
//     {"kty":"OKP","crv":"Ed25519","x","kid","alg":"EdDSA","use":"sig"} with this kid. There are no
//     duplicate keys. logs has the record's log, also control if there is any ENTRY, also actions
//     if the keys of control do not begin with the first of keys, and no other log. An origin ends
//     in "/v1/log/" and the logId. The kids of a log's keys are those of consecutive keys up to the
//     last; in actions, of all keys. The first has fromIndex 0 and no rotation. Each further one
//     has a fromIndex not below its predecessor's. Its rotation has one of package keyring's two
//     statements for this origin, fromIndex and both keys, signed by its predecessor and by itself.
//
//  3. RECORD. payload is {"agentId","companyId","actionType","payload"}: three strings and any
//     value; of the control log it also has "log":"control", and of actions it may have a string
//     statement. companyId is the file's. delegation,
//     if any, is {"act","delegationChain","subject","tokenId"}: null or an object, an array of
//     strings, a string, a string. hash is the SHA-256 of index|timestamp|canonical payload and,
//     with a delegation, |canonical delegation (RFC 8785). The 32 bytes of the hash are signed by
//     the log's key for the index: the last whose fromIndex is not above it. An action that has
//     pruned is what is left of one whose payload was pruned. Its hash cannot be recomputed: the
//     code is PRUNED where all else of this check passes, and RECORD where not, as for a control
//     record.
//
//  4. HEX_PROOF. index < size. The steps match index and size: with n = size-1, while n > 0, there
//     is a sibling on the left when index is odd, else one on the right when index < n, else none;
//     then both are halved, rounding down. From the record's hash they lead to root, with the node
//     hash of package chain.
//
//  5. WITNESSES. Each of witnesses is the vkey of a cosigner (type 0x04). There are no duplicate
//     public keys.
//
//  6. LOG_PROOF. tlogProof is a tlog-proof (package tlog) without extra and of the record's index.
//     Its checkpoint has the log's origin and the size of hexProof. The first signature line is by
//     the last key, in the name of the origin, and verifies. Each further line is the cosignature
//     of one of witnesses, by name and key ID, and verifies; no witness has two. The proof leads
//     from the record's leaf, which names the key of check 3, to the root of the checkpoint.
//
//  7. DELEGATION. delegation is present exactly if record.delegation is, and has the same canonical
//     form.
//
//  8. STATEMENT. See below. A record without a statement passes where no key is pinned.
//
//  9. AUTHORITY. Each ENTRY, in order, passes check 3 with its record and check 6 with its proof,
//     for the control log and without the comparison with hexProof. All entries of a file have the
//     same checkpoint, byte for byte, and that of tlogProof when log is "control". payload.payload
//     is an object in which subject is a string and by a string or null. The index is above that of
//     the preceding entry. The subject is "agent:<id>" of one of the record's agents; or
//     "passport:<jti>", and payload.payload.agentId is one of them; or "signing-key:<kid>" of the
//     key of check 3. The record's agents are its payload.agentId, and <id> of each element of its
//     delegationChain that is spiffe://<anything but a slash>/company/<companyId>/agent/<id>.
//
//  10. PASSPORT. Its entries are as in 9, but each subject is "passport:<jti>" of the file's
//     passport; or, with the actionType agent.disabled, "agent:<id>", where the last preceding
//     entry with the actionType passport.issued has that id as payload.payload.agentId. An agentId
//     that is not a string, or empty, does not count.
//
//  11. STATUS. passport and status are both present or both absent. jti and companyId are the
//     file's. status is valid, revoked or unknown. revokedAt is present exactly if it is revoked;
//     reason is optional then, and absent otherwise. caPublicKey is the PEM of the last key, which
//     has signed the SHA-256 of the canonical form of the rest. If passport has an entry with the
//     actionType passport.issued, the status is not unknown; with agent.disabled, it is revoked;
//     with passport.revoked, it is revoked, with revokedAt and reason of that payload (a null or
//     absent reason there is absent here).
//
//  12. DECISION. See below. A record without a decision passes where policies is absent.
//
//  13. APPROVAL. See below. A record that was not allowed with an approval passes where approvals
//     is absent and no key of an approver is pinned.
//
//  14. WITNESSES. witnesses lists exactly the cosigners of the checkpoints, in the order of the
//     checks above.
//
//  15. NOT_PROVEN. notProven is exactly the list for the members that are present (file.go).
//
//  16. KEY or POLICY. The file is acceptable to the trusted fingerprint or policy, as below.
//
//  17. NEWER, only with a newer checkpoint ([Trust]). It is one of logs, signed by the last key,
//     and meets the policy, if there is one. The consistency proof leads to it from the file's
//     checkpoint of that log.
//
// A file that passes the checks before 16 is self-consistent. Anyone can make such a file.
//
// # Statement
//
// The statement of a record is what its agent has signed of it (package statement). Everything that
// is wrong with it, or with agentKey, is STATEMENT:
//
// It is of the form of a statement. agentKey is present. Its entries are as in check 9, but each
// has the subject "agent-key:<thumbprint>" and the actionType agent-key.enrolled or
// agent-key.revoked, and payload.payload has agentId, the record's, and thumbprint, that of the
// subject. Of agent-key.enrolled it also has jwk; expiresAt, a timestamp or null; enrolment, a
// string or null; and endorsement, an endorsement (package statement) or null. No string of these
// is empty. It may have statementVersion, 1 or 2, which is 1 where it is absent. jwk is a key of
// package jose with the members of its thumbprint alone, and that is its thumbprint. No key is
// enrolled twice. Of agent-key.revoked it may also have reason, a string or null, and since, a
// timestamp or null.
//
// The entries have the agent-key.enrolled of kid. Where an enrolled key has an endorsement, that is
// signed by a key that an entry of a lower index enrolled, and that no entry between revoked; its
// jkt is the enrolled key. The key that signs it expired at most 5 minutes before the time of the
// enrolled key's entry. iat of the endorsement is at most 60 s before the time of the entry of the
// key that signs it, and before its expiresAt; it is at most 60 s after the time of the enrolled
// key's entry, and at most 5 minutes before. Every entry is of kid, or of a key from which kid
// follows so.
//
// The version of the statement is not below statementVersion of the key of kid. The signature
// verifies with that key. aud is spiffe://<no slash>/company/<companyId>, iss is aud, then /agent/
// and the record's agentId; endorsements have the same iss and aud. action_hash is that of the
// record. In version 2, log is the origin of actions in logs, and delegation is the SHA-256 of the
// canonical form of the record's delegation. In version 1, delegation is the tokenId of the
// record's delegation. In either, it is absent without one. iat is at most 60 s after the time of
// the record, and at most 30 days and 5 minutes before. The key was enrolled at or before the time
// of the record, expired at most 5 minutes before it, and no entry revoked it more than 5 s before
// it.
//
// With a pinned key: that is kid, or one of the keys from which kid follows.
//
// What follows is no failure, and the verdict says it. A statement of version 1 leaves open for
// which service it was made and the content of the delegation. Where entries of agent-key.revoked
// of kid have since, the earliest is when the key came into other hands; the verdict says so of a
// record of that time or later. Where act of a record of actions is not null and the last element
// of its delegationChain is not spiffe://<no slash>/company/<companyId>/agent/<the record's
// agentId>, the verdict names that element: the delegation was given to another one.
//
// # Decision
//
// The decision of a record names the policies that made it by the hash of the set and its revision
// (package decision). Everything that is wrong with these, or with policies, is DECISION:
//
// The entries of policies are as in check 9, but each has the subject "policies" and the actionType
// policy.put or policy.deleted, and payload.payload has policyId, [A-Za-z0-9._-]{1,64}; revision, a
// number above that of the entry before; and set, 64 hex digits. Of policy.put it also has cedar, a
// string, and sha256, that of its UTF-8 form. The entries with a revision up to that of the
// decision, in their order, put and delete policies. What they leave is the set: its hash is that
// of the decision, and that of set in the last of these entries, whose revision is the decision's.
// This entry is at most 5 s later than the record. An entry of a higher revision is at most 5 s
// earlier. A set of revision 0 has no policies and needs no entry.
//
// Without policies, a decision of revision 1 or more passes: the verdict says that it was not made
// again. So does a decision with another code than POLICY_DENIED, DECISION_ERROR and
// DETAILS_DENIED, which is of a passport and does not follow from policies.
//
// A checker that can evaluate policies makes every other decision again, and finds the same
// verdict, by, errors and code. A decision to allow by an approval may be made again as ask. The
// other checkers say that they did not evaluate the policies.
//
// The entries of passports are as in check 9, but each is passport.issued or passport.revoked with
// the subject "passport:<jti>", or agent.disabled with "agent:<id>". No passport is issued twice.
// Of passport.issued, payload.payload has agentId, not empty; scopes, a list of strings; expiresAt,
// Unix seconds up to the year 9999; and it may have authorizationDetails (package details). Where
// the entries have the passport that a decision names, its agentId is the record's, and it was
// issued at most 5 s after the record. Unless the verdict is deny, no passport.revoked and no
// agent.disabled of the agent behind it is more than 5 s before the record, nor is expiresAt; and
// where the record calls a tool, a scope (tool:NAME, tool:* or *) and the details cover the call,
// under one of the names that the tool has with its MCP server and without. Where the verdict is
// deny with SCOPE_DENIED, no scope covers it. A decision without its passport here passes.
//
// The tool of a record is that of its payload, with the arguments input or else arguments; of
// authorization.denied and authorization.allowed with the action call, the ID of its resource of
// the type tool, with arguments. Of mcp__SERVER__NAME without a server, SERVER is that.
//
// # Approval
//
// A record was allowed with an approval where its decision is allow and names one. What an approval
// is, package approval says. Everything that is wrong with it, or with approvals, is APPROVAL:
//
// Each of requests passes check 3 and check 6 as a record of actions, with the checkpoint of
// actions in the file. It is above the one before, and its decision is ask and names the approval;
// or it is an approval.requested whose payload has approvalId and expiresAt, a timestamp.
//
// Each of records is as in check 9, but its subject and actionType are "approval:<id>" with
// approval.granted, approval.denied, approval.used or approval.withdrawn; "passkey:<credential ID>"
// with passkey.enrolled or passkey.revoked; or "person:<id>" with person.created, person.changed or
// person.deleted. They are read in their order, and "before" is by their indexes:
//
//   - passkey.enrolled has personId, credentialId, that of the subject, publicKey, a key of
//     package passkey in base64url, and algorithm, that of the key. No passkey is enrolled twice.
//   - person.created and person.changed have roles, strings; the person is disabled unless
//     disabledAt is null or absent.
//   - approval.granted and approval.denied have object, credentialId, authenticatorData,
//     clientDataJSON and signature, the latter in base64url. The object is of the subject's
//     approval, with the verdict approve or deny, and names a record of requests that names the
//     approval, its log, hash and agent, and its tool. The passkey was enrolled before for the
//     object's person, who is also by, and not revoked. It has signed the object. What is said of
//     the person before has the role approver, and neither a disabling nor a deletion. All of an
//     approval are about one record, and by different people. None comes after a denial, a
//     withdrawal or expiresAt of the object or the request, nor before the request.
//   - approval.used names the approval, and log, index and hash of the record that used it. The
//     approval was granted before, and had not ended as above; nobody who granted it was disabled
//     or deleted before. remaining is below the fewest uses that a person allowed, and below that
//     of the use before.
//
// The record is named by approval.used. It asks for what the request asked for: the same agent,
// the same tool with its MCP server, the same canonical arguments, and the same sessionId where
// the request has one; of what is no call of a tool, the same actionType and payload. It has a
// higher index than the request. As many people granted the approval before that use as any policy
// in by of its decision demands with @quorum, where policies has their texts. It is not later than
// expiresAt of each of their objects, and not earlier than what they decided. Where keys of
// approvers are pinned, each of them signed with one.
//
// Two times of different records may be apart by 5 s.
//
// Without approvals, a record that was allowed with one passes where no key is pinned, and the
// verdict says so. It names a person only by a pinned key, because an operator can enrol a passkey
// of his own for anybody.
//
// # Trust
//
// A file is never trusted because of its own content. Trust comes from a fingerprint or a policy
// that the checking person has from another source.
//
// The fingerprint must be that of a key in keys, else the code is KEY. From there trust goes
// forward: each key has signed its successor, so the pinned key vouches for the last one.
// Statements alone do not carry trust backward: a former key may have been stolen since, and its
// thief can sign backdated records, checkpoints and even a predecessor. So the last key, which is
// the pinned one or follows from it, must have signed every checkpoint and the status. Signatures
// of former keys count because they are in the tree of such a checkpoint, where each leaf names the
// key that signed it. A key before the pinned one belongs to the company because its successor says
// so in the statement that both have signed, only for records below fromIndex. A file with later
// keys cannot use a checkpoint of a former key. A verifier that pins a stolen key trusts what its
// thief signs, successors included: pin the newest key that you know. A statement of version 1
// names keys by their kids of 64 bits; finding another key for one takes about 2⁶⁴ key pairs.
//
// A policy (c2sp.org/tlog-policy) must have a log line with the last key
// and the origin of one of logs, else the code is POLICY. It does not follow rotations: each needs
// a new line. The policy's quorum must have cosigned each checkpoint of the file, and every
// signature in the name of one of its witnesses must verify. The line counts for both logs of the
// company, because a policy cannot name one key twice.
//
// Neither says who holds an agent's key: the holder of the company's key can enrol one for any
// agent. So a person may pin a key that the agent has shown, by its thumbprint. Then a record
// counts only with a statement by that key, or by one that follows from it. A verdict without a pin
// names the key, when it was enrolled and by what.
//
// # Verdict
//
// The verdict is "holds"; "fails", with a code and a reason; or "self-consistent" without a
// fingerprint or a policy. Every checker returns the same code; reasons are for people and may
// differ.
package evidence
