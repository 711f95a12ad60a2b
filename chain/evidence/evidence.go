// Package evidence makes and checks evidence files: one record of a log with all that shows whose
// it is and where it stands, to be checked by whoever holds the file, years later and without a
// server. It is pure: bytes in, verdict out.
//
// # Format
//
// An evidence file is one JSON object (RFC 8259) of at most 64 MiB that nests at most 160 deep, has
// no member twice in an object, no lone surrogate and no number that an IEEE 754 double does not
// keep.
//
// A file weighs at most 9,000,000, so that what its reader must hold is bounded: outside strings
// each { and each [ weighs 2, each comma and each colon 4; each string weighs 2, and each backslash
// with which an escape in it begins 4. No byte weighs more than 2 on average, so every payload of 4
// MiB is light enough.
//
// The members of a file are exactly these; ? marks what may be absent:
//
//	format      "attestd-evidence/v1"
//	companyId   [A-Za-z0-9._-]{1,128}, not "." or ".."
//	log         "actions" or "control": the log of the record
//	record      the record, as GET /v1/chain has it
//	hexProof    {"proof":[{"sibling","position"}…],"root","size"}: that of GET /v1/proof/{index}, in the tree of the
//	            checkpoint's size
//	tlogProof   C2SP tlog-proof of the record, as text, without extra
//	logs        [LOG…]: actions, control, or both in this order
//	keys        [{"kid","fingerprint","jwk"}…]: all keys that the company had, from the first to the one that has
//	            signed the checkpoints and the status of this file
//	witnesses   ["<vkey>"…]: the witnesses whose cosignatures stand below the checkpoints of this file, those of the
//	            record's first, or []
//	delegation? the record's, once more, so that nobody has to look for it; there exactly when the record has one
//	passport?   {"jti","records":[ENTRY…]}: a passport that was asked about, with its control records
//	status?     the answer of GET /v1/ocsp/{jti} about that passport; there exactly when passport is
//	authority?  {"records":[ENTRY…]}: control records that bear on whether the record's agent might act
//	notProven   ["…"…]: what no file of this form shows; sentences that this package fixes
//
//	LOG         {"log","logId","origin","keys":[{"kid","fromIndex","rotation"?}…]}
//	rotation    {"statement","oldSignature","newSignature"}, as in GET /v1/ca/public-keys
//	ENTRY       {"record","tlogProof"}, of the control log, with the record as GET /v1/chain?log=control has it
//
// What stands in a file is authenticated, or is left out. So times of keys, agents' metadata and
// states that only the absence of a record would show are not in it: what was so is derived from
// the records by whoever checks.
//
// Spelling: whole numbers (index, size, fromIndex) are from 0 to 2⁵³-1, in digits alone; hashes,
// siblings, roots, kids and logIds are lower-case hex of 64, 64, 64, 16 and 32 digits; signatures
// and x are base64url of 64 and 32 bytes, without padding and without stray bits; timestamps are
// 2006-01-02T15:04:05.000Z, and possible; position is left or right; the jti of passport is a UUID
// in lower case.
//
// # Checks
//
// They are made in this order. The first that fails gives the code of the verdict.
//
//  1. MALFORMED. The file is of the form above: members, their types, their spelling, also inside
//     jwk, records, logs, entries and status. There are 1 to 10,000 keys, and at most 60 steps, 2
//     logs, 16 witnesses and 10,000 entries in a list. Of a record, payload and delegation are any
//     JSON here; of texts (tlogProof, statement, vkey, PEM, fingerprint, origin, members of jwk but
//     x) it is only asked that they are strings. A status has jti, companyId, status, checkedAt,
//     caPublicKey, signature and perhaps revokedAt and reason, all strings, checkedAt and revokedAt
//     timestamps.
//
//  2. KEYS. Of each key, kid is the first 16 hex digits and fingerprint is "SHA256:" and the
//     base64url of the SHA-256 of the key's SPKI DER; jwk is
//     {"kty":"OKP","crv":"Ed25519","x","kid","alg":"EdDSA","use":"sig"} with this kid. No key
//     stands twice. logs has the record's log; control also where any ENTRY is; actions also where
//     the keys of control do not begin with the first of keys; and no other log. An origin ends in
//     "/v1/log/" and the logId. The keys of a log have the kids of a run of keys, up to the last;
//     in actions, of all of them. The first has fromIndex 0 and no rotation. Each further one has a
//     fromIndex that is not below the one before, and a rotation whose statement is one of package
//     keyring's two for this origin, fromIndex and both keys, signed by the key before it and by
//     itself.
//
//  3. RECORD. payload is {"agentId","companyId","actionType","payload"}: three strings and any
//     value; of the control log it also has "log":"control". companyId is the file's. delegation,
//     if any, is {"act","delegationChain","subject","tokenId"}: null or an object, an array of
//     strings, a string, a string. hash is the SHA-256 of index|timestamp|canonical payload and,
//     with a delegation, |canonical delegation (RFC 8785). The key that the log has for the index,
//     the last whose fromIndex is not above it, has signed the 32 bytes of the hash.
//
//  4. HEX_PROOF. index < size. The steps are those that index and size demand: with n = size-1,
//     while n > 0, a sibling on the left when index is odd, else one on the right when index < n,
//     else none; then both are halved, rounding down. From the record's hash they lead to root,
//     with the node hash of package chain.
//
//  5. WITNESSES. Each of witnesses is the vkey of a cosigner (type 0x04), and no public key stands
//     twice.
//
//  6. LOG_PROOF. tlogProof is a tlog-proof (package tlog) without extra and of the record's index.
//     Its checkpoint has the log's origin and the size of hexProof. Of the signature lines the
//     first is the last key's, in the name of the origin, and verifies. Each further one is the
//     cosignature of one of witnesses, by name and key ID, and verifies; nobody has two. The proof
//     leads from the record's leaf, in which the key of check 3 stands, to the root of the
//     checkpoint.
//
//  7. DELEGATION. delegation is there exactly when record.delegation is, and has the same
//     canonical form.
//
//  8. AUTHORITY. Of each ENTRY, in order: its record is as in 3 and its proof as in 6, of the
//     control log, the size of hexProof aside. All entries of a file have the same checkpoint, byte
//     for byte, and that of tlogProof when log is "control". payload.payload is an object in which
//     subject is a string and by a string or null. The index is above that of the entry before. The
//     subject is "agent:<id>" of one of the record's agents; or "passport:<jti>", and
//     payload.payload.agentId is one of them; or "signing-key:<kid>" of the key of check 3. The
//     record's agents are its payload.agentId, and <id> of each element of its delegationChain that
//     is spiffe://<anything but a slash>/company/<companyId>/agent/<id>.
//
//  9. PASSPORT. Its entries are as in 8, but each subject is "passport:<jti>" of the file's
//     passport; or, with the actionType agent.disabled, "agent:<id>", and a payload.payload.agentId
//     of an entry before it with the actionType passport.issued is that id, the last such one. An
//     agentId that is no string, or empty, is none.
//
//  10. STATUS. passport and status are there together. jti and companyId are the file's. status is
//     valid, revoked or unknown; revokedAt is there exactly when it is revoked, reason only then.
//     caPublicKey is the PEM of the last key, which has signed the SHA-256 of the canonical form of
//     the rest. Beside an entry of passport with the actionType passport.issued the status is not
//     unknown; beside one with agent.disabled it is revoked; beside one with passport.revoked too,
//     with revokedAt of that payload and with its reason (null or no reason there is no reason
//     here).
//
//  11. WITNESSES. Those who have cosigned a checkpoint, in the order in which the checks above
//     meet them, are exactly witnesses.
//
//  12. NOT_PROVEN. notProven is exactly the list that belongs to the members that are there
//     (file.go).
//
//  13. KEY or POLICY. What was given from outside takes the file, as below.
//
//  14. NEWER, of [CheckNewer] alone. A newer checkpoint of one of logs is signed by the last key
//     and meets the policy, if there is one, and the proof of consistency leads to it from the
//     file's checkpoint of that log.
//
// A file that comes to 13 is self-consistent, and anyone can make such a file.
//
// # Trust
//
// What is inside a file is never trusted as its own policy: trust comes from a fingerprint or a
// policy that whoever checks has from elsewhere.
//
// A fingerprint may be that of any key in keys; another one is KEY. From there trust goes forward:
// each key has signed which one follows it, so the pinned one vouches for the last. It goes no way
// back by statements alone: a key that has ended may have been stolen since, and its thief can sign
// records, checkpoints and even a key before it, all dated back. So every checkpoint and the status
// must be of the last key, which is the pinned one or follows from it, and what former keys have
// signed counts because it stands in the tree of such a checkpoint, where each leaf names the key
// that signed it. That a key before the pinned one was the company's is said by its successor in
// the statement that both have signed, for records below fromIndex alone. A checkpoint of a former
// key, however good then, makes no file of this form with later keys. Who pins a key that was
// stolen trusts what its thief signs, successors too: pin the newest key that you know. A statement
// of version 1 names keys by their kids, of 64 bits; to find another key for one takes some 2⁶⁴ key
// pairs.
//
// A policy (c2sp.org/tlog-policy) must have a log line with the last key and the origin of one of
// logs, else the code is POLICY. It follows no rotation: after one it gets another line. Each
// checkpoint of the file must be cosigned by its quorum, and no signature that claims to be of one
// of its witnesses may fail. The line counts for both logs of the company, for a policy cannot name
// one key twice.
//
// # Verdict
//
// "holds"; "fails", with a code and a reason; or "self-consistent", where nothing was given from
// outside. Only the code is the same in every checker of this form; reasons are for people.
package evidence
