package db

import (
	"context"
	"errors"
	"fmt"

	"attestd/store/sqlite"
)

// The schemas that this program can bring up to date, and the one that it serves, which is what
// schema.sql makes.
const (
	oldestSchema  = 1
	SchemaVersion = 24
)

// migrations[v] brings a file of schema v to v+1. A step is never changed once it is released: a
// new schema is a new step, and schema.sql changed to match. Columns come last in their tables in
// both, so that both ways end at the same text.
var migrations = [SchemaVersion]migration{
	1: formerSteps[1], 2: formerSteps[2], 3: formerSteps[3], 4: formerSteps[4], 5: formerSteps[5],
	6: formerSteps[6], 7: formerSteps[7], 8: formerSteps[8], 9: formerSteps[9],

	// Existing access tokens have no HMAC and are invalidated: their clients ask for new ones.
	10: {sql: `
CREATE TRIGGER passport_only_revoked BEFORE UPDATE ON passport WHEN
    (NEW.id, NEW.company, NEW.jti, NEW.agent_id, NEW.scopes, NEW.issued_at, NEW.expires_at)
    IS NOT (OLD.id, OLD.company, OLD.jti, OLD.agent_id, OLD.scopes, OLD.issued_at, OLD.expires_at)
    OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
CREATE TRIGGER passport_no_delete BEFORE DELETE ON passport BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
CREATE TRIGGER passport_no_replace BEFORE INSERT ON passport WHEN EXISTS (SELECT 1 FROM passport WHERE id = NEW.id OR jti = NEW.jti)
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
DROP INDEX passport_unrevoked;
CREATE INDEX passport_live ON passport (company, agent_id, expires_at) WHERE revoked_at IS NULL;
DELETE FROM oauth_token;
ALTER TABLE oauth_token ADD COLUMN mac BLOB CHECK (length(mac) = 32);
PRAGMA user_version = 11;`},

	// The next start, which has the keys, makes the log of the companies.
	11: {sql: `
INSERT INTO setting (name, value) SELECT 'unlisted_companies', 'true' WHERE EXISTS (SELECT 1 FROM company);
PRAGMA user_version = 12;`},

	12: {sql: `
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
  UNIQUE (company, thumbprint)
) STRICT;
CREATE INDEX agent_key_agent ON agent_key (company, agent_id);
CREATE TABLE enrolment (
  id          INTEGER PRIMARY KEY,
  company     INTEGER NOT NULL REFERENCES company (id),
  hash        BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  fingerprint TEXT NOT NULL,
  agent_id    TEXT NOT NULL,
  label       TEXT,
  created_at  TEXT NOT NULL,
  expires_at  INTEGER NOT NULL,
  key         TEXT
) STRICT;
CREATE INDEX enrolment_company ON enrolment (company);
CREATE TABLE attest_policy (
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  attest   TEXT NOT NULL CHECK (attest IN ('any', 'key')),
  PRIMARY KEY (company, agent_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE agent_session (
  id       INTEGER PRIMARY KEY,
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  kid      TEXT NOT NULL,
  sid      TEXT NOT NULL,
  UNIQUE (company, agent_id, sid, kid)
) STRICT;
CREATE TABLE used_proof (
  name       BLOB PRIMARY KEY CHECK (length(name) = 32),
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX used_proof_expiry ON used_proof (expires_at);
ALTER TABLE passport ADD COLUMN jkt TEXT;
DROP TRIGGER passport_only_revoked;
CREATE TRIGGER passport_only_revoked BEFORE UPDATE ON passport WHEN
    (NEW.id, NEW.company, NEW.jti, NEW.agent_id, NEW.scopes, NEW.issued_at, NEW.expires_at, NEW.jkt)
    IS NOT (OLD.id, OLD.company, OLD.jti, OLD.agent_id, OLD.scopes, OLD.issued_at, OLD.expires_at, OLD.jkt)
    OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
ALTER TABLE oauth_token ADD COLUMN agent_key INTEGER REFERENCES agent_key (id);
ALTER TABLE oauth_token ADD COLUMN bound INTEGER NOT NULL DEFAULT 0 CHECK (bound IN (0, 1));
ALTER TABLE webhook ADD COLUMN next_control INTEGER NOT NULL DEFAULT 0;
UPDATE webhook SET next_control = (SELECT length FROM head WHERE chain = -webhook.company);
CREATE TRIGGER agent_key_only_revoked BEFORE UPDATE ON agent_key WHEN
    (NEW.id, NEW.company, NEW.thumbprint, NEW.agent_id, NEW.jwk, NEW.label, NEW.created_at, NEW.expires_at)
    IS NOT (OLD.id, OLD.company, OLD.thumbprint, OLD.agent_id, OLD.jwk, OLD.label, OLD.created_at, OLD.expires_at)
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
PRAGMA user_version = 13;`},

	13: {sql: `
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
CREATE TRIGGER token_key_only_ends BEFORE UPDATE ON token_key WHEN
    (NEW.company, NEW.kid, NEW.alg, NEW.jwk, NEW.created_at, NEW.signs_from) IS NOT (OLD.company, OLD.kid, OLD.alg, OLD.jwk, OLD.created_at, OLD.signs_from)
    OR OLD.ended_at IS NOT NULL AND (NEW.ended_at IS NULL OR NEW.ended_at > OLD.ended_at)
    OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
    OR OLD.private IS NULL AND NEW.private IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
CREATE TRIGGER token_key_no_delete BEFORE DELETE ON token_key BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
CREATE TRIGGER token_key_no_replace BEFORE INSERT ON token_key WHEN EXISTS (SELECT 1 FROM token_key WHERE company = NEW.company AND kid = NEW.kid)
  BEGIN SELECT RAISE(ABORT, 'a token key only ends'); END;
PRAGMA user_version = 14;`},

	14: {sql: `
ALTER TABLE oauth_client ADD COLUMN jwks TEXT;
ALTER TABLE oauth_client ADD COLUMN jwks_uri TEXT;
ALTER TABLE oauth_token ADD COLUMN scope TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_token ADD COLUMN jkt TEXT;
CREATE TABLE revoked_token (
  name       BLOB PRIMARY KEY CHECK (length(name) = 32),
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX revoked_token_expiry ON revoked_token (expires_at);
PRAGMA user_version = 15;`},

	15: {sql: `
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
CREATE TABLE federated_token (
  hash       BLOB PRIMARY KEY,
  company    INTEGER NOT NULL REFERENCES company (id),
  federation INTEGER NOT NULL REFERENCES federation (id) ON DELETE CASCADE,
  agent_id   TEXT NOT NULL,
  jkt        TEXT,
  expires_at INTEGER NOT NULL,
  mac        BLOB NOT NULL CHECK (length(mac) = 32)
) STRICT, WITHOUT ROWID;
CREATE INDEX federated_token_expiry ON federated_token (expires_at);
CREATE INDEX federated_token_federation ON federated_token (federation);
CREATE TRIGGER federation_no_update BEFORE UPDATE ON federation BEGIN SELECT RAISE(ABORT, 'a federation is only deleted'); END;
CREATE TRIGGER federated_token_no_update BEFORE UPDATE ON federated_token BEGIN SELECT RAISE(ABORT, 'a token is only deleted'); END;
PRAGMA user_version = 16;`},

	16: {sql: `
ALTER TABLE federated_token ADD COLUMN client INTEGER REFERENCES oauth_client (id) ON DELETE CASCADE;
ALTER TABLE federated_token ADD COLUMN delegation TEXT;
CREATE INDEX federated_token_client ON federated_token (client) WHERE client IS NOT NULL;
CREATE TABLE federation_use (
  federation INTEGER NOT NULL REFERENCES federation (id) ON DELETE CASCADE,
  rule       INTEGER NOT NULL,
  day        INTEGER NOT NULL,
  subjects   INTEGER NOT NULL,
  PRIMARY KEY (federation, rule)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 17;`},

	17: {sql: `
DROP TRIGGER IF EXISTS head_only_grows;
ALTER TABLE head ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE head SET bytes = (SELECT coalesce(sum(octet_length(payload) + coalesce(octet_length(delegation), 0)), 0) FROM record
  WHERE id BETWEEN head.chain * 1099511627776 AND head.chain * 1099511627776 + 1099511627775);
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.length <= OLD.length OR NEW.chain <> OLD.chain
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TABLE company_suspension (
  company      INTEGER PRIMARY KEY REFERENCES company (id),
  suspended_at TEXT,
  reason       TEXT
) STRICT;
CREATE TABLE company_quota (
  company     INTEGER PRIMARY KEY REFERENCES company (id),
  max_records INTEGER CHECK (max_records >= 0),
  max_bytes   INTEGER CHECK (max_bytes >= 0)
) STRICT;
PRAGMA user_version = 18;`},

	18: {sql: `
ALTER TABLE company_usage ADD COLUMN deleted_revocations INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER company_usage_passport_deleted AFTER DELETE ON passport WHEN OLD.revoked_at IS NOT NULL BEGIN
  UPDATE company_usage SET deleted_revocations = deleted_revocations + 1 WHERE company = OLD.company;
END;
DROP TRIGGER passport_no_delete;
CREATE TRIGGER passport_no_delete BEFORE DELETE ON passport WHEN OLD.expires_at > unixepoch() - 86400
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
PRAGMA user_version = 19;`},

	19: {sql: `
DROP TRIGGER IF EXISTS record_no_update;
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
PRAGMA user_version = 20;`},

	20: {sql: `
ALTER TABLE agent_key ADD COLUMN statement_version INTEGER NOT NULL DEFAULT 1 CHECK (statement_version IN (1, 2));
DROP TRIGGER agent_key_only_revoked;
CREATE TRIGGER agent_key_only_revoked BEFORE UPDATE ON agent_key WHEN
    (NEW.id, NEW.company, NEW.thumbprint, NEW.agent_id, NEW.jwk, NEW.label, NEW.created_at, NEW.expires_at, NEW.statement_version)
    IS NOT (OLD.id, OLD.company, OLD.thumbprint, OLD.agent_id, OLD.jwk, OLD.label, OLD.created_at, OLD.expires_at, OLD.statement_version)
    OR OLD.revoked_at IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a key of an agent is only revoked, for good'); END;
CREATE TABLE company_policy (
  company            INTEGER PRIMARY KEY REFERENCES company (id),
  exchange_audiences TEXT NOT NULL
) STRICT;
CREATE TABLE call_watch (
  company     INTEGER PRIMARY KEY REFERENCES company (id),
  next_record INTEGER NOT NULL
) STRICT;
CREATE TABLE refused_call (
  call       BLOB PRIMARY KEY CHECK (length(call) = 32),
  company    INTEGER NOT NULL REFERENCES company (id),
  counted    INTEGER NOT NULL,
  requests   INTEGER NOT NULL,
  refusals   INTEGER NOT NULL,
  refused    INTEGER NOT NULL,
  done       INTEGER,
  tool       TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  found_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX refused_call_company ON refused_call (company);
CREATE INDEX refused_call_expiry ON refused_call (expires_at);
CREATE INDEX refused_call_found ON refused_call (found_at) WHERE found_at IS NOT NULL;
ALTER TABLE webhook ADD COLUMN mac BLOB CHECK (length(mac) = 32);
DROP TRIGGER IF EXISTS head_only_grows;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.chain <> OLD.chain OR NEW.length < OLD.length
    OR NEW.length = OLD.length AND (NEW.bytes = OLD.bytes
      OR (NEW.root, NEW.frontier, NEW.timestamp, NEW.log_root, NEW.log_frontier)
        IS NOT (OLD.root, OLD.frontier, OLD.timestamp, OLD.log_root, OLD.log_frontier))
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
PRAGMA user_version = 21;`},

	21: {sql: `
CREATE TABLE cedar_policy (
  company     INTEGER NOT NULL REFERENCES company (id),
  policy_id   TEXT NOT NULL,
  cedar       TEXT NOT NULL,
  description TEXT,
  put_at      TEXT NOT NULL,
  made_by     TEXT,
  PRIMARY KEY (company, policy_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE cedar_set (
  company  INTEGER PRIMARY KEY REFERENCES company (id),
  revision INTEGER NOT NULL,
  sha256   TEXT NOT NULL
) STRICT;
CREATE TABLE agent_groups (
  company  INTEGER NOT NULL REFERENCES company (id),
  agent_id TEXT NOT NULL,
  names    TEXT NOT NULL,
  PRIMARY KEY (company, agent_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE decision_policy (
  company   INTEGER PRIMARY KEY REFERENCES company (id),
  decisions TEXT NOT NULL CHECK (decisions IN ('denied', 'all'))
) STRICT;
ALTER TABLE passport ADD COLUMN details TEXT;
ALTER TABLE oauth_token ADD COLUMN details TEXT;
ALTER TABLE federated_token ADD COLUMN details TEXT;
DROP TRIGGER passport_only_revoked;
CREATE TRIGGER passport_only_revoked BEFORE UPDATE ON passport WHEN
    (NEW.id, NEW.company, NEW.jti, NEW.agent_id, NEW.scopes, NEW.issued_at, NEW.expires_at, NEW.jkt, NEW.details)
    IS NOT (OLD.id, OLD.company, OLD.jti, OLD.agent_id, OLD.scopes, OLD.issued_at, OLD.expires_at, OLD.jkt, OLD.details)
    OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a passport is only revoked, for good'); END;
PRAGMA user_version = 22;`},

	22: {sql: `
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
CREATE TABLE change_policy (
  company INTEGER PRIMARY KEY REFERENCES company (id),
  changes TEXT NOT NULL CHECK (changes IN ('any', 'people'))
) STRICT;
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
PRAGMA user_version = 23;`},

	23: {sql: `
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
PRAGMA user_version = 24;`},
}

// Upgrading hears of an upgrade, in records; it may be nil.
type Upgrading func(stage string, done, total int64)

// migration is one step.
type migration struct {
	sql string
	// puts in what no statement computes; nil for nothing
	fill func(ctx context.Context, c *Conn, logHost string, progress Upgrading) error
	// statements after that: guards that would have refused it
	guard string
}

// Upgrade brings the file behind c to the schema of this program, in one transaction: after a crash
// it is of the old schema or of the new one, whole. It returns the schema that the file had. No
// other server writes meanwhile: the caller holds the lock.
func Upgrade(ctx context.Context, c *Conn, logHost string, progress Upgrading) (from int64, err error) {
	if err := c.One([]any{&from}, "PRAGMA user_version"); err != nil || from == SchemaVersion {
		return from, err
	}
	tx, err := c.SQL.BeginTx(ctx, nil)
	if err != nil {
		return from, sentinel(err)
	}
	defer tx.Rollback() // nothing to do after the commit
	for v := from; v < SchemaVersion; v++ {
		m := migrations[v]
		_, err := tx.ExecContext(ctx, m.sql)
		if err == nil && m.fill != nil {
			err = m.fill(ctx, c, logHost, progress)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, m.guard)
		}
		if err != nil {
			return from, fmt.Errorf("upgrade from schema %d to %d: %w", v, v+1, misshapen(err))
		}
	}
	return from, sentinel(tx.Commit())
}

// misshapen makes a sentinel of an error of a step. What SQLite has against a step itself says that
// the file is not what its version says.
func misshapen(err error) error {
	if err = sentinel(err); sqlite.ClassOf(err) != sqlite.None && !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
