-- The database of attestd, schema 23; store/postgres/schema.sql is the same for PostgreSQL. A file
-- of an earlier schema is brought here by store/migrate.go; both ways end at the same text,
-- comments and spaces aside.
--
-- One SQLite file holds everything. To look at it: sqlite3 -readonly attestd.db
-- It holds private keys and API keys, in clear unless they are sealed with a master key: protect
-- the file as you would protect them.
--
-- Times are text, ISO 8601 in UTC with milliseconds, or Unix seconds where a token carries them so.
-- Hashes are the 32 raw bytes of SHA-256; use hex() to read them.

-- What was fixed when the file was made: service_name and trust_domain, which are part of what was
-- signed, and database_id, 32 random hex digits that the copies of a database share and by which
-- its head file knows it; the control logs name all three. token_key is the key of the HMACs over
-- rows, in hex, in clear or sealed. Where secrets are sealed, also master_key_id (which master key
-- it takes), seal_salt, and lookup_key, the sealed key of the HMAC by which credentials are found;
-- it stays, in clear, when sealing is turned off. scrub is there while `attestd rekey` has not come
-- to its end. All in hex, as crypto/seal says.
CREATE TABLE setting (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The tenants. id numbers the company's chain. A company never changes and never goes. The one with
-- the greatest id, @installation, is no tenant:
-- its control log is the log of the companies, in which each of them has a record. It comes with
-- the first company.
CREATE TABLE company (
  id            INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 8388607),
  company_id    TEXT NOT NULL UNIQUE,
  registered_at TEXT NOT NULL,
  metadata      TEXT
) STRICT;

-- The Ed25519 keys that sign a company's records and tokens, one after the other; log_key says
-- which records. seed is a key's private part (RFC 8032 §5.1.5), or that sealed, NULL once it has
-- ended, for then it signs nothing more. Tokens of a key that has ended verify until they expire,
-- and not at all when it was declared compromised.
CREATE TABLE company_key (
  company        INTEGER NOT NULL REFERENCES company (id),
  generation     INTEGER NOT NULL,
  public_key     BLOB NOT NULL CHECK (length(public_key) = 32),
  seed           BLOB,
  created_at     TEXT NOT NULL,
  ended_at       TEXT,
  compromised_at TEXT,
  PRIMARY KEY (company, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX company_key_current ON company_key (company) WHERE ended_at IS NULL;

-- The two logs of a company: what was done in its name (actions), and what was changed in the
-- service itself (control). A log's records make a chain, whose number says both: that of the
-- actions is the company's, that of control its negative. The names under which standard tools know
-- a log are fixed when it is made, and tell nothing of the company.
CREATE TABLE log (
  chain   INTEGER PRIMARY KEY CHECK (chain = CASE name WHEN 'actions' THEN company ELSE -company END),
  company INTEGER NOT NULL REFERENCES company (id),
  name    TEXT NOT NULL CHECK (name IN ('actions', 'control')),
  log_id  TEXT NOT NULL UNIQUE, -- 32 random hex digits
  -- the first line of each checkpoint, and the name of the key that signs it
  origin  TEXT NOT NULL UNIQUE,
  UNIQUE (company, name)
) STRICT;

-- Which records of a log a key of its company signs: those from first_record on, up to that of the
-- next key. statement says that this key follows the one before it there, which has signed that
-- (old_signature) as this one has (new_signature); all three are NULL for the key that was the
-- company's when the log was made.
CREATE TABLE log_key (
  chain         INTEGER NOT NULL REFERENCES log (chain),
  generation    INTEGER NOT NULL,
  first_record  INTEGER NOT NULL,
  statement     TEXT,
  old_signature BLOB,
  new_signature BLOB,
  PRIMARY KEY (chain, generation)
) STRICT, WITHOUT ROWID;

-- The chains. Record number i of chain c is the row with id = (c << 40) + i:
--   SELECT id & 1099511627775 AS i, * FROM record
--   WHERE id >> 40 = (SELECT chain FROM log JOIN company ON company.id = log.company
--     WHERE company_id = 'acme' AND name = 'actions');
-- payload and delegation are the very bytes that the API returns. hash covers their canonical forms
-- (RFC 8785):
--   hash = SHA-256(i | "|" | timestamp | "|" | payload [ | "|" | delegation ])
-- signature is Ed25519 over the 32 bytes of hash. The small columns stand first, so that reading
-- hashes never walks a long payload. A payload of actions that was pruned is '': the control record
-- payloads.pruned says below which i payloads may be missing, and has the hash of what is left.
CREATE TABLE record (
  id         INTEGER PRIMARY KEY,
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  signature  BLOB NOT NULL CHECK (length(signature) = 64),
  timestamp  TEXT NOT NULL,
  payload    TEXT NOT NULL,
  delegation TEXT
) STRICT;
-- What a control record is about, in the words of store/control.go; those of actions, whose ids are
-- positive, cost nothing here.
CREATE INDEX control_subject ON record (CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END, id) WHERE id < 0;

-- The keys under which records were appended, so that who asks again is answered with the record
-- that is there, if it is the one that was asked for. name is the first 16 bytes of what the caller
-- calls the append, so that keys which begin with a time stand beside one another, and 16 of its
-- SHA-256; request is the SHA-256 of all that it asked for. A key counts until expires_at (Unix
-- milliseconds), and goes some time after. Names of statements and of records in sessions have no
-- end, and follow from the records: store/names.
CREATE TABLE idempotency_key (
  chain      INTEGER NOT NULL,
  name       BLOB NOT NULL CHECK (length(name) = 32),
  request    BLOB NOT NULL CHECK (length(request) = 32),
  idx        INTEGER NOT NULL, -- of the record
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (chain, name)
) STRICT, WITHOUT ROWID;

-- The endpoints to which the records of a company's actions, and the control records about the keys
-- of its agents, are sent: those of some agents and kinds of action, JSON arrays that are NULL for
-- all. secret is the key of the HMAC and the seed of the Ed25519 key that sign messages, 64 bytes,
-- in clear or sealed; former_secret is the one before a change, which signs too until former_until.
-- fingerprint is of the secret, public_key of the pair, made_by as in api_key. next_record and
-- next_control are the first record of each log that was not sent, as it was about a second ago at
-- most; so many attempts at the next message have failed, and the next one is due at retry_at.
-- disabled_reason is requested, gone or failing. Times that are numbers are Unix milliseconds. mac
-- is an HMAC-SHA256 over the row (store/rowmac.go), under the token_key of setting; it is NULL only
-- before the control log has rowKey.
CREATE TABLE webhook (
  id              INTEGER PRIMARY KEY,
  company         INTEGER NOT NULL REFERENCES company (id),
  webhook_id      TEXT NOT NULL UNIQUE,
  url             TEXT NOT NULL,
  agents          TEXT,
  actions         TEXT,
  description     TEXT,
  created_at      TEXT NOT NULL,
  made_by         TEXT,
  public_key      BLOB NOT NULL CHECK (length(public_key) = 32),
  fingerprint     TEXT NOT NULL,
  secret          BLOB NOT NULL,
  former_secret   BLOB,
  former_until    INTEGER,
  disabled_at     TEXT,
  disabled_reason TEXT,
  next_record     INTEGER NOT NULL,
  attempts        INTEGER NOT NULL DEFAULT 0,
  retry_at        INTEGER,
  next_control    INTEGER NOT NULL DEFAULT 0,
  mac             BLOB CHECK (length(mac) = 32)
) STRICT;
CREATE INDEX webhook_company ON webhook (company);

-- Roots of the perfect subtrees of 2^level records (level 8, 16, 24, 32) whose first record is
-- number idx << level. They follow from record; they are kept so that a proof reads a few hundred
-- hashes, not the whole chain. hash is of the specification's tree, log_hash of the tree of RFC
-- 6962 that standard tools read.
CREATE TABLE node (
  chain    INTEGER NOT NULL REFERENCES log (chain),
  level    INTEGER NOT NULL CHECK (level IN (8, 16, 24, 32)),
  idx      INTEGER NOT NULL,
  hash     BLOB NOT NULL CHECK (length(hash) = 32),
  log_hash BLOB CHECK (length(log_hash) = 32),
  PRIMARY KEY (chain, level, idx)
) STRICT, WITHOUT ROWID;

-- What stands in each 256 records whose first is number idx << 8, in the form that package search
-- describes: id = (chain << 32) + idx. It follows from the records, and says which of them a search
-- need not read. A row may be missing: then they are read, and a server makes it; so one that
-- attestd verify calls wrong may be deleted.
CREATE TABLE summary (
  id    INTEGER PRIMARY KEY,
  terms BLOB NOT NULL
) STRICT;

-- The state of each chain after its last record, written in the transaction that wrote the record.
-- Records cut off the end are found by it. frontier is the roots of the perfect subtrees that make
-- up the tree, the largest first, 32 bytes each; log_root and log_frontier are the same of the log
-- tree. bytes counts those of all payloads and delegations, for quotas; it alone may be set again.
CREATE TABLE head (
  chain        INTEGER PRIMARY KEY REFERENCES log (chain),
  length       INTEGER NOT NULL,
  root         BLOB NOT NULL CHECK (length(root) = 32),
  frontier     BLOB NOT NULL CHECK (length(frontier) % 32 = 0),
  timestamp    TEXT NOT NULL,
  log_root     BLOB CHECK (length(log_root) = 32),
  log_frontier BLOB CHECK (length(log_frontier) % 32 = 0),
  bytes        INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The last checkpoint that was signed and published of each log, as it was.
CREATE TABLE checkpoint (
  log_id TEXT PRIMARY KEY REFERENCES log (log_id),
  size   INTEGER NOT NULL,
  note   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What witnesses have signed of our checkpoints: of each log and witness, which its vkey names, the
-- last. note is the checkpoint as the log had signed it, line the signature line of the witness,
-- which belongs below that. Where line is empty, note is what the witness has shown (its vkey
-- stands after "shown by ") and the log is not: it halts the company until somebody accepts that.
CREATE TABLE cosignature (
  log_id  TEXT NOT NULL REFERENCES log (log_id),
  witness TEXT NOT NULL,
  size    INTEGER NOT NULL,
  note    TEXT NOT NULL,
  line    TEXT NOT NULL,
  PRIMARY KEY (log_id, witness)
) STRICT, WITHOUT ROWID;

-- The name and the key with which we cosign the logs of others: one row at most, made at the first
-- use. seed is the private key, in clear or sealed like those of companies.
CREATE TABLE witness_key (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  name       TEXT NOT NULL,
  public_key BLOB NOT NULL CHECK (length(public_key) = 32),
  seed       BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

-- What we have cosigned: of each log the last checkpoint, with the log's signatures that verified
-- and our own. No smaller tree is signed after it, and no other of its size. origin_hash is the
-- SHA-256 of origin, by which it is asked for.
CREATE TABLE witness_log (
  origin      TEXT PRIMARY KEY,
  origin_hash BLOB NOT NULL UNIQUE CHECK (length(origin_hash) = 32),
  size        INTEGER NOT NULL,
  root        BLOB NOT NULL CHECK (length(root) = 32),
  note        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- API keys. The API lists full keys, so they are kept, in clear or sealed (in base64). hash, by
-- which they are found, is their SHA-256, or the HMAC-SHA256 of that under the lookup_key of
-- setting where there is one. made_by is the fingerprint of the credential that made this one: the
-- first 16 hex digits of the SHA-256 of its text. It is NULL for a bootstrap key and for what was
-- made under schema 1. last_used_at is to the hour, written some time after the use; NULL when
-- never used. role is what the key may do; what is older than schema 3 may do everything.
-- expires_at is NULL for never. Of the keys of a company, one that is of the role admin and does
-- not expire always stays.
CREATE TABLE api_key (
  id           INTEGER PRIMARY KEY,
  company      INTEGER NOT NULL REFERENCES company (id),
  hash         BLOB NOT NULL UNIQUE,
  key          TEXT NOT NULL,
  label        TEXT,
  created_at   TEXT NOT NULL,
  made_by      TEXT,
  last_used_at TEXT,
  role         TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader')),
  expires_at   INTEGER, -- Unix milliseconds
  fingerprint  TEXT NOT NULL DEFAULT '' -- of this key, as made_by
) STRICT;
CREATE INDEX api_key_company ON api_key (company);

-- OAuth clients, and the access tokens issued to them. Secrets and tokens are shown once; here is
-- only their hash, as that of an API key. The columns from made_by to fingerprint are as in
-- api_key. A client with jwks has keys of its own, public ones, with which it signs assertions: a
-- JWK set in the form of RFC 8785. Nobody knows its secret. One with jwks_uri has them at that URL.
CREATE TABLE oauth_client (
  id           INTEGER PRIMARY KEY,
  company      INTEGER NOT NULL REFERENCES company (id),
  client_id    TEXT NOT NULL UNIQUE,
  secret_hash  BLOB NOT NULL CHECK (length(secret_hash) = 32),
  created_at   TEXT NOT NULL,
  made_by      TEXT,
  last_used_at TEXT,
  role         TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader')),
  expires_at   INTEGER, -- Unix milliseconds
  fingerprint  TEXT NOT NULL DEFAULT '',
  jwks         TEXT,
  jwks_uri     TEXT
) STRICT;
CREATE INDEX oauth_client_company ON oauth_client (company);

-- A token goes with the client that it was issued to; it has the client's role and expires no
-- later. One with agent_key is an agent's that has signed in with this key; where bound is 1, it
-- counts only with proofs of that key. A client's counts only with proofs of the key with the
-- thumbprint jkt, where it has one. scope is what was asked for and granted, '' for all that its
-- holder may do, and details are its authorization details (RFC 9396) in canonical form, where it
-- has any. mac is an HMAC-SHA256 over the row (store/tokenkey.go), under the token_key of setting;
-- without one that fits a token is nobody's.
CREATE TABLE oauth_token (
  hash       BLOB PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  expires_at INTEGER NOT NULL, -- Unix milliseconds
  client     INTEGER REFERENCES oauth_client (id) ON DELETE CASCADE,
  mac        BLOB CHECK (length(mac) = 32),
  agent_key  INTEGER REFERENCES agent_key (id),
  bound      INTEGER NOT NULL DEFAULT 0 CHECK (bound IN (0, 1)),
  scope      TEXT NOT NULL DEFAULT '',
  jkt        TEXT,
  details    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_token_expiry ON oauth_token (expires_at);
CREATE INDEX oauth_token_client ON oauth_token (client);

-- Registered agents. disabled_at is NULL while the agent is enabled.
CREATE TABLE agent (
  company       INTEGER NOT NULL REFERENCES company (id),
  agent_id      TEXT NOT NULL,
  registered_at TEXT NOT NULL,
  metadata      TEXT,
  disabled_at   TEXT,
  PRIMARY KEY (company, agent_id)
) STRICT, WITHOUT ROWID;

-- The companies that an operator has ever suspended; suspended_at is NULL again in one that was
-- resumed. A suspended company writes nothing and is issued nothing.
CREATE TABLE company_suspension (
  company      INTEGER PRIMARY KEY REFERENCES company (id),
  suspended_at TEXT,
  reason       TEXT
) STRICT;

-- The quotas that an operator has set for a company: how many records, and bytes of payloads and
-- delegations, each of its two logs may have. NULL is the quota of the server, 0 none.
CREATE TABLE company_quota (
  company     INTEGER PRIMARY KEY REFERENCES company (id),
  max_records INTEGER CHECK (max_records >= 0),
  max_bytes   INTEGER CHECK (max_bytes >= 0)
) STRICT;

-- How much of what is bounded a company has, so that a bound of a million is kept without counting
-- a million rows, and how many of its passports have been revoked, ever: where fewer are, a
-- revocation was undone. deleted_revocations of those have expired and are gone. A company without
-- a row has none. Only the triggers write here, so that no writer of agents or passports can forget
-- to count, and `attestd accept-rollback`.
CREATE TABLE company_usage (
  company             INTEGER PRIMARY KEY REFERENCES company (id),
  agents              INTEGER NOT NULL,
  revocations         INTEGER NOT NULL DEFAULT 0,
  deleted_revocations INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER company_usage_agent_added AFTER INSERT ON agent BEGIN
  INSERT INTO company_usage (company, agents) VALUES (NEW.company, 1) ON CONFLICT (company) DO UPDATE SET agents = agents + 1;
END;
CREATE TRIGGER company_usage_agent_removed AFTER DELETE ON agent BEGIN
  UPDATE company_usage SET agents = agents - 1 WHERE company = OLD.company;
END;

-- Every passport issued, and its revocation, until some time after its end: `attestd serve
-- --keep-passports`. scopes is a JSON array, and so are details, its authorization details, where
-- it has any; issued_at and expires_at are Unix seconds.
CREATE TABLE passport (
  id         INTEGER PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  jti        TEXT NOT NULL UNIQUE,
  agent_id   TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  issued_at  INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at TEXT,
  reason     TEXT,
  jkt        TEXT,
  details    TEXT
) STRICT;
CREATE TRIGGER company_usage_passport_revoked AFTER UPDATE OF revoked_at ON passport WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL BEGIN
  INSERT INTO company_usage (company, agents, revocations) VALUES (NEW.company, 0, 1) ON CONFLICT (company) DO UPDATE SET revocations = revocations + 1;
END;
CREATE TRIGGER company_usage_passport_deleted AFTER DELETE ON passport WHEN OLD.revoked_at IS NOT NULL BEGIN
  UPDATE company_usage SET deleted_revocations = deleted_revocations + 1 WHERE company = OLD.company;
END;
CREATE INDEX passport_issued ON passport (company, issued_at);
CREATE INDEX passport_revoked ON passport (company, revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX passport_live ON passport (company, agent_id, expires_at) WHERE revoked_at IS NULL;

-- The public keys of agents, each a pair that was made where its agent runs. jwk is the public part
-- in the form of RFC 7638, and thumbprint names it: one that a company has ever had is never
-- another key's. A key counts until expires_at (Unix milliseconds, NULL for never) or revoked_at.
-- One of statement_version 1 may make statements of the first form, which name no log.
CREATE TABLE agent_key (
  id         INTEGER PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  thumbprint TEXT NOT NULL,
  agent_id   TEXT NOT NULL,
  jwk        TEXT NOT NULL,
  label      TEXT,
  created_at TEXT NOT NULL,
  expires_at INTEGER,
  revoked_at TEXT,
  statement_version INTEGER NOT NULL DEFAULT 1 CHECK (statement_version IN (1, 2)),
  UNIQUE (company, thumbprint)
) STRICT;
CREATE INDEX agent_key_agent ON agent_key (company, agent_id);

-- Tokens with which an agent enrols a key, one for each. hash is the SHA-256 of the token, which is
-- shown once, fingerprint the first 16 hex digits of that. key is the thumbprint of the key that
-- was enrolled with it, NULL before.
CREATE TABLE enrolment (
  id          INTEGER PRIMARY KEY,
  company     INTEGER NOT NULL REFERENCES company (id),
  hash        BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  fingerprint TEXT NOT NULL,
  agent_id    TEXT NOT NULL,
  label       TEXT,
  created_at  TEXT NOT NULL,
  expires_at  INTEGER NOT NULL, -- Unix milliseconds
  key         TEXT
) STRICT;
CREATE INDEX enrolment_company ON enrolment (company);

-- What is recorded in an agent's name: anything ('any'), or what one of its keys has signed
-- ('key'). agent_id is '' for all agents of the company. Without a row it is anything; the stricter
-- holds.
CREATE TABLE attest_policy (
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  attest   TEXT NOT NULL CHECK (attest IN ('any', 'key')),
  PRIMARY KEY (company, agent_id)
) STRICT, WITHOUT ROWID;

-- What a company's admins have decided for the whole company, beside attest_policy.
-- exchange_audiences are those for which a token may be exchanged, a JSON array in the form of RFC
-- 8785. Without a row it is empty.
CREATE TABLE company_policy (
  company            INTEGER PRIMARY KEY REFERENCES company (id),
  exchange_audiences TEXT NOT NULL
) STRICT;

-- The Cedar policies by which the calls of a company's agents are decided, byte for byte as they
-- were put.
CREATE TABLE cedar_policy (
  company     INTEGER NOT NULL REFERENCES company (id),
  policy_id   TEXT NOT NULL,
  cedar       TEXT NOT NULL,
  description TEXT,
  put_at      TEXT NOT NULL,
  made_by     TEXT,
  PRIMARY KEY (company, policy_id)
) STRICT, WITHOUT ROWID;

-- The set that the policies of a company make: how often it has changed, and the SHA-256 of the RFC
-- 8785 form of {policyId: SHA-256 of the text}, both in hex. A record with a decision names both.
CREATE TABLE cedar_set (
  company  INTEGER PRIMARY KEY REFERENCES company (id),
  revision INTEGER NOT NULL,
  sha256   TEXT NOT NULL
) STRICT;

-- The groups of an agent, a JSON array in the form of RFC 8785. Without a row there are none.
CREATE TABLE agent_groups (
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  names    TEXT NOT NULL,
  PRIMARY KEY (company, agent_id)
) STRICT, WITHOUT ROWID;

-- Which decisions become records where no record of the agent's holds them: those that deny, or
-- all. Without a row those that deny.
CREATE TABLE decision_policy (
  company   INTEGER PRIMARY KEY REFERENCES company (id),
  decisions TEXT NOT NULL CHECK (decisions IN ('denied', 'all'))
) STRICT;

-- People of a company, who sign in with passkeys. roles, groups and subjects are JSON arrays in the
-- form of RFC 8785.
CREATE TABLE person (
  company     INTEGER NOT NULL REFERENCES company (id),
  person_id   TEXT NOT NULL,
  name        TEXT NOT NULL,
  email       TEXT,
  roles       TEXT NOT NULL,
  groups      TEXT NOT NULL,
  subjects    TEXT NOT NULL,
  created_at  TEXT NOT NULL,
  made_by     TEXT,
  disabled_at TEXT,
  PRIMARY KEY (company, person_id)
) STRICT, WITHOUT ROWID;

-- Passkeys of people (WebAuthn). credential_id and public_key, the canonical form of the COSE key,
-- are in base64url; flags are those of authenticatorData at the enrolment, BE (8) and BS (16).
CREATE TABLE passkey (
  id            INTEGER PRIMARY KEY,
  company       INTEGER NOT NULL REFERENCES company (id),
  credential_id TEXT NOT NULL UNIQUE,
  person_id     TEXT NOT NULL,
  public_key    TEXT NOT NULL,
  algorithm     INTEGER NOT NULL,
  transports    TEXT NOT NULL,
  flags         INTEGER NOT NULL,
  aaguid        TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  revoked_at    TEXT
) STRICT;
CREATE INDEX passkey_person ON passkey (company, person_id);

-- Links with which a person enrols one passkey: the SHA-256 of the secret in it, and the passkey
-- with which it was spent.
CREATE TABLE invitation (
  id          INTEGER PRIMARY KEY,
  company     INTEGER NOT NULL REFERENCES company (id),
  hash        BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  fingerprint TEXT NOT NULL,
  person_id   TEXT NOT NULL,
  created_at  TEXT NOT NULL,
  expires_at  INTEGER NOT NULL,
  passkey     TEXT
) STRICT;
CREATE INDEX invitation_company ON invitation (company);

-- Where people are signed in. hash is that of the cookie; mac is over the other columns and it,
-- with the key of access tokens. Times are in Unix milliseconds.
CREATE TABLE person_session (
  hash               BLOB PRIMARY KEY CHECK (length(hash) = 32),
  company            INTEGER NOT NULL REFERENCES company (id),
  session_id         TEXT NOT NULL,
  person_id          TEXT NOT NULL,
  signed_in          TEXT NOT NULL,
  passkey            TEXT NOT NULL,
  created_at         INTEGER NOT NULL,
  last_used_at       INTEGER NOT NULL,
  reauthenticated_at INTEGER NOT NULL,
  expires_at         INTEGER NOT NULL,
  mac                BLOB NOT NULL CHECK (length(mac) = 32)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_session_person ON person_session (company, person_id);
CREATE INDEX person_session_expires ON person_session (expires_at);

-- What people are asked to approve: one record of the actions each, which idx and hash name once it
-- is durable. call is a SHA-256 of the agent, the action type, the tool and the arguments, session
-- '' where any session may use the approval. asked_by is the fingerprint of the credential that
-- asked, person with whom the delegation of the agent began. granted is a JSON array of [person,
-- index of the control record]. Times are in Unix milliseconds: until is when an approval that is
-- approved ends. mac is over the other columns.
CREATE TABLE approval (
  id          INTEGER PRIMARY KEY,
  company     INTEGER NOT NULL REFERENCES company (id),
  approval_id TEXT NOT NULL UNIQUE,
  call        BLOB NOT NULL CHECK (length(call) = 32),
  session     TEXT NOT NULL,
  agent_id    TEXT NOT NULL,
  action_type TEXT NOT NULL,
  tool        TEXT NOT NULL,
  idx         INTEGER NOT NULL,
  hash        TEXT NOT NULL,
  asked_by    TEXT,
  person      TEXT,
  reason      TEXT,
  quorum      INTEGER NOT NULL,
  approvers   TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used', 'withdrawn')),
  granted     TEXT NOT NULL,
  decided     TEXT,
  uses        INTEGER,
  remaining   INTEGER,
  until       INTEGER,
  gone_at     INTEGER NOT NULL,
  mac         BLOB CHECK (length(mac) = 32)
) STRICT;
CREATE INDEX approval_call ON approval (company, call);
CREATE INDEX approval_live ON approval (company, agent_id) WHERE state IN ('pending', 'approved');
CREATE INDEX approval_state ON approval (company, state, id);
CREATE INDEX approval_gone ON approval (gone_at);

-- Who may change what a control record tells of: any credential that may, or people alone. Without
-- a row any.
CREATE TABLE change_policy (
  company INTEGER PRIMARY KEY REFERENCES company (id),
  changes TEXT NOT NULL CHECK (changes IN ('any', 'people'))
) STRICT;

-- How far the actions of each company were searched for calls of tools that were refused and ran
-- all the same: next_record is the first one that was not looked at, as it was about a second ago
-- at most.
CREATE TABLE call_watch (
  company     INTEGER PRIMARY KEY REFERENCES company (id),
  next_record INTEGER NOT NULL
) STRICT;

-- The calls of tools that were refused in the last days, and what their records have said so far
-- (chain/action). call is a SHA-256 of the company and the key of the call. counted is the first
-- record that is not in the counts, refused the last refusal, done the first outcome. A call that
-- ran all the same has found_at (Unix milliseconds), and a control record call.disobeyed.
CREATE TABLE refused_call (
  call       BLOB PRIMARY KEY CHECK (length(call) = 32),
  company    INTEGER NOT NULL REFERENCES company (id),
  counted    INTEGER NOT NULL,
  requests   INTEGER NOT NULL,
  refusals   INTEGER NOT NULL,
  refused    INTEGER NOT NULL,
  done       INTEGER,
  tool       TEXT NOT NULL,
  expires_at INTEGER NOT NULL, -- Unix milliseconds; nobody waits for the outcome any more
  found_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX refused_call_company ON refused_call (company);
CREATE INDEX refused_call_expiry ON refused_call (expires_at);
CREATE INDEX refused_call_found ON refused_call (found_at) WHERE found_at IS NOT NULL;

-- Sessions of agents. Those in which they have made statements are each noted before their first
-- record; kid is the thumbprint of the key. The others are noted after it; kid is their kind: hook,
-- mcp, run or telemetry. What stands in a session is found by idempotency_key, which has a name for
-- each of its records.
CREATE TABLE agent_session (
  id       INTEGER PRIMARY KEY,
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  kid      TEXT NOT NULL,
  sid      TEXT NOT NULL,
  UNIQUE (company, agent_id, sid, kid)
) STRICT;

-- Proofs and assertions that were accepted once, until their time has passed. name is a SHA-256 of
-- the kind, the key and the jti.
CREATE TABLE used_proof (
  name       BLOB PRIMARY KEY CHECK (length(name) = 32),
  expires_at INTEGER NOT NULL -- Unix milliseconds
) STRICT, WITHOUT ROWID;
CREATE INDEX used_proof_expiry ON used_proof (expires_at);

-- The keys with which a company signs tokens for others, each made when a token of its algorithm is
-- first asked for. kid is the thumbprint of jwk (RFC 7638), private the PKCS #8, in clear or
-- sealed, and NULL once the key can sign nothing more. A key signs from signs_from until ended_at,
-- which the one after it brings; of each algorithm one has no ended_at. Until an hour after that it
-- verifies, unless it is compromised.
CREATE TABLE token_key (
  company        INTEGER NOT NULL REFERENCES company (id),
  kid            TEXT NOT NULL,
  alg            TEXT NOT NULL CHECK (alg IN ('ES256', 'RS256', 'EdDSA')),
  jwk            TEXT NOT NULL,
  private        BLOB,
  created_at     TEXT NOT NULL,
  signs_from     TEXT NOT NULL,
  ended_at       TEXT,
  compromised_at TEXT,
  PRIMARY KEY (company, kid)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX token_key_newest ON token_key (company, alg) WHERE ended_at IS NULL;
CREATE INDEX token_key_ended ON token_key (company, ended_at);
CREATE INDEX token_key_private ON token_key (ended_at) WHERE private IS NOT NULL;

-- Access tokens in the form of JWTs that were revoked, until they would have ended. name is a
-- SHA-256 of the company and the jti.
CREATE TABLE revoked_token (
  name       BLOB PRIMARY KEY CHECK (length(name) = 32),
  expires_at INTEGER NOT NULL -- Unix milliseconds
) STRICT, WITHOUT ROWID;
CREATE INDEX revoked_token_expiry ON revoked_token (expires_at);
-- Other issuers whose tokens a company trusts, each for one audience. jwks is the key set of the
-- issuer as canonical JSON (RFC 8785); without it the set is fetched from jwks_uri, or from where
-- the issuer's metadata say. rules say which agent a workload is (service/federation), as canonical
-- JSON. A federation never changes: it is made and deleted.
CREATE TABLE federation (
  id         INTEGER PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  name       TEXT NOT NULL,
  issuer     TEXT NOT NULL,
  audience   TEXT NOT NULL,
  jwks       TEXT,
  jwks_uri   TEXT,
  rules      TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (company, name),
  UNIQUE (company, issuer, audience)
) STRICT;

-- Access tokens of agents that have signed in with a token of another issuer. They go with the
-- federation. jkt is the thumbprint of the key without whose proofs the token counts for nothing,
-- NULL for none. hash and mac are as in oauth_token. Where a person's assertion was presented,
-- client is who has presented it, with which the token goes too, and delegation the canonical
-- DelegationInfo of the person.
CREATE TABLE federated_token (
  hash       BLOB PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  federation INTEGER NOT NULL REFERENCES federation (id) ON DELETE CASCADE,
  agent_id   TEXT NOT NULL,
  jkt        TEXT,
  expires_at INTEGER NOT NULL, -- Unix milliseconds
  mac        BLOB NOT NULL CHECK (length(mac) = 32),
  client     INTEGER REFERENCES oauth_client (id) ON DELETE CASCADE,
  delegation TEXT,
  details    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX federated_token_expiry ON federated_token (expires_at);
CREATE INDEX federated_token_federation ON federated_token (federation);
CREATE INDEX federated_token_client ON federated_token (client) WHERE client IS NOT NULL;

-- How many subjects a rule of a federation has let in on its newest day, each of which has a
-- control record of that day.
CREATE TABLE federation_use (
  federation INTEGER NOT NULL REFERENCES federation (id) ON DELETE CASCADE,
  rule       INTEGER NOT NULL, -- from 0
  day        INTEGER NOT NULL, -- since 1970, in UTC
  subjects   INTEGER NOT NULL,
  PRIMARY KEY (federation, rule)
) STRICT, WITHOUT ROWID;

-- What must never change is guarded here against honest mistakes at a prompt. Whoever wants to
-- cheat can drop a trigger; against them stand the hashes, the signatures and `attestd verify`.
-- A record's payload may go, and nothing else, where a control record of its company says so.
CREATE TRIGGER record_no_update BEFORE UPDATE ON record WHEN NOT (NEW.payload = '' AND OLD.id > 0
    AND (NEW.id, NEW.hash, NEW.signature, NEW.timestamp, NEW.delegation)
    IS (OLD.id, OLD.hash, OLD.signature, OLD.timestamp, OLD.delegation)
    AND EXISTS (SELECT 1 FROM record AS c
      WHERE c.id < 0 AND CASE WHEN json_valid(c.payload) THEN json_extract(c.payload, '$.payload.subject') END = 'payloads'
        AND c.id >= -(OLD.id >> 40) * 1099511627776 AND c.id <= -(OLD.id >> 40) * 1099511627776 + 1099511627775
        AND CASE WHEN json_valid(c.payload) THEN json_extract(c.payload, '$.actionType') = 'payloads.pruned'
          AND json_type(c.payload, '$.payload.records') = 'integer'
          AND json_extract(c.payload, '$.payload.records') > (OLD.id & 1099511627775) END))
  BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_no_delete BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_no_replace BEFORE INSERT ON record WHEN EXISTS (SELECT 1 FROM record WHERE id = NEW.id)
  BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER node_no_update BEFORE UPDATE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER node_no_delete BEFORE DELETE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.chain <> OLD.chain OR NEW.length < OLD.length
    OR NEW.length = OLD.length AND (NEW.bytes = OLD.bytes
      OR (NEW.root, NEW.frontier, NEW.timestamp, NEW.log_root, NEW.log_frontier)
        IS NOT (OLD.root, OLD.frontier, OLD.timestamp, OLD.log_root, OLD.log_frontier))
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size < OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER company_key_only_ends BEFORE UPDATE ON company_key WHEN
    (NEW.company, NEW.generation, NEW.public_key, NEW.created_at) IS NOT (OLD.company, OLD.generation, OLD.public_key, OLD.created_at)
    OR OLD.ended_at IS NOT NULL AND NEW.ended_at IS NOT OLD.ended_at OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
  BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER company_key_no_delete BEFORE DELETE ON company_key BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER log_key_no_update BEFORE UPDATE ON log_key BEGIN SELECT RAISE(ABORT, 'the ranges of keys are append-only'); END;
CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key BEGIN SELECT RAISE(ABORT, 'the ranges of keys are append-only'); END;
CREATE TRIGGER witness_log_only_grows BEFORE UPDATE ON witness_log
  WHEN NEW.origin <> OLD.origin OR NEW.origin_hash <> OLD.origin_hash OR NEW.size < OLD.size OR NEW.size = OLD.size AND NEW.root <> OLD.root
  BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_log_no_delete BEFORE DELETE ON witness_log BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_key_is_fixed BEFORE UPDATE ON witness_key WHEN NEW.id <> OLD.id OR NEW.name <> OLD.name OR NEW.public_key <> OLD.public_key
  BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
CREATE TRIGGER witness_key_no_delete BEFORE DELETE ON witness_key BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
CREATE TRIGGER company_no_update BEFORE UPDATE ON company BEGIN SELECT RAISE(ABORT, 'companies never change'); END;
CREATE TRIGGER company_no_delete BEFORE DELETE ON company BEGIN SELECT RAISE(ABORT, 'companies never change'); END;
CREATE TRIGGER passport_only_revoked BEFORE UPDATE ON passport WHEN
    (NEW.id, NEW.company, NEW.jti, NEW.agent_id, NEW.scopes, NEW.issued_at, NEW.expires_at, NEW.jkt, NEW.details)
    IS NOT (OLD.id, OLD.company, OLD.jti, OLD.agent_id, OLD.scopes, OLD.issued_at, OLD.expires_at, OLD.jkt, OLD.details)
    OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
CREATE TRIGGER passport_no_delete BEFORE DELETE ON passport WHEN OLD.expires_at > unixepoch() - 86400
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
CREATE TRIGGER passport_no_replace BEFORE INSERT ON passport WHEN EXISTS (SELECT 1 FROM passport WHERE id = NEW.id OR jti = NEW.jti)
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
CREATE TRIGGER agent_key_only_revoked BEFORE UPDATE ON agent_key WHEN
    (NEW.id, NEW.company, NEW.thumbprint, NEW.agent_id, NEW.jwk, NEW.label, NEW.created_at, NEW.expires_at, NEW.statement_version)
    IS NOT (OLD.id, OLD.company, OLD.thumbprint, OLD.agent_id, OLD.jwk, OLD.label, OLD.created_at, OLD.expires_at, OLD.statement_version)
    OR OLD.revoked_at IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a key of an agent is only revoked, for good'); END;
CREATE TRIGGER agent_key_no_delete BEFORE DELETE ON agent_key BEGIN SELECT RAISE(ABORT, 'a key of an agent is only revoked, for good'); END;
CREATE TRIGGER agent_key_no_replace BEFORE INSERT ON agent_key WHEN EXISTS
    (SELECT 1 FROM agent_key WHERE id = NEW.id OR company = NEW.company AND thumbprint = NEW.thumbprint)
  BEGIN SELECT RAISE(ABORT, 'a key of an agent is only revoked, for good'); END;
CREATE TRIGGER enrolment_only_spent BEFORE UPDATE ON enrolment WHEN
    (NEW.id, NEW.company, NEW.hash, NEW.fingerprint, NEW.agent_id, NEW.label, NEW.created_at, NEW.expires_at)
    IS NOT (OLD.id, OLD.company, OLD.hash, OLD.fingerprint, OLD.agent_id, OLD.label, OLD.created_at, OLD.expires_at)
    OR OLD.key IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'an enrolment is only spent, once'); END;
CREATE TRIGGER enrolment_no_delete BEFORE DELETE ON enrolment BEGIN SELECT RAISE(ABORT, 'an enrolment is only spent, once'); END;
CREATE TRIGGER token_key_only_ends BEFORE UPDATE ON token_key WHEN
    (NEW.company, NEW.kid, NEW.alg, NEW.jwk, NEW.created_at, NEW.signs_from) IS NOT (OLD.company, OLD.kid, OLD.alg, OLD.jwk, OLD.created_at, OLD.signs_from)
    OR OLD.ended_at IS NOT NULL AND (NEW.ended_at IS NULL OR NEW.ended_at > OLD.ended_at)
    OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
    OR OLD.private IS NULL AND NEW.private IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
CREATE TRIGGER token_key_no_delete BEFORE DELETE ON token_key BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
CREATE TRIGGER token_key_no_replace BEFORE INSERT ON token_key WHEN EXISTS (SELECT 1 FROM token_key WHERE company = NEW.company AND kid = NEW.kid)
  BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
CREATE TRIGGER federation_no_update BEFORE UPDATE ON federation BEGIN SELECT RAISE(ABORT, 'a federation is only deleted'); END;
CREATE TRIGGER federated_token_no_update BEFORE UPDATE ON federated_token BEGIN SELECT RAISE(ABORT, 'a token is only deleted'); END;
CREATE TRIGGER passkey_only_revoked BEFORE UPDATE ON passkey WHEN
    (NEW.id, NEW.company, NEW.credential_id, NEW.person_id, NEW.public_key, NEW.algorithm, NEW.transports, NEW.flags, NEW.aaguid, NEW.created_at)
    IS NOT (OLD.id, OLD.company, OLD.credential_id, OLD.person_id, OLD.public_key, OLD.algorithm, OLD.transports, OLD.flags, OLD.aaguid, OLD.created_at)
    OR OLD.revoked_at IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a passkey is only revoked, for good'); END;
CREATE TRIGGER passkey_no_delete BEFORE DELETE ON passkey BEGIN SELECT RAISE(ABORT, 'a passkey is only revoked, for good'); END;
CREATE TRIGGER passkey_no_replace BEFORE INSERT ON passkey WHEN EXISTS
    (SELECT 1 FROM passkey WHERE id = NEW.id OR credential_id = NEW.credential_id)
  BEGIN SELECT RAISE(ABORT, 'a passkey is only revoked, for good'); END;
CREATE TRIGGER invitation_only_spent BEFORE UPDATE ON invitation WHEN
    (NEW.id, NEW.company, NEW.hash, NEW.fingerprint, NEW.person_id, NEW.created_at, NEW.expires_at)
    IS NOT (OLD.id, OLD.company, OLD.hash, OLD.fingerprint, OLD.person_id, OLD.created_at, OLD.expires_at)
    OR OLD.passkey IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'an invitation is only spent, once'); END;
CREATE TRIGGER invitation_no_delete BEFORE DELETE ON invitation BEGIN SELECT RAISE(ABORT, 'an invitation is only spent, once'); END;

PRAGMA application_id = 1635021684; -- "atst"
PRAGMA user_version = 24;
