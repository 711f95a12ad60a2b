package store

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
	schemaVersion = 18
)

// migrations[v] brings a file of schema v to v+1. A step is never changed once it is released: a
// new schema is a new step, and schema.sql changed to match. Columns come last in their tables in
// both, so that both ways end at the same text.
var migrations = [schemaVersion]migration{
	1: {sql: `
ALTER TABLE api_key ADD COLUMN made_by TEXT;
ALTER TABLE api_key ADD COLUMN last_used_at TEXT;
ALTER TABLE oauth_client ADD COLUMN made_by TEXT;
ALTER TABLE oauth_client ADD COLUMN last_used_at TEXT;
ALTER TABLE oauth_token ADD COLUMN client INTEGER REFERENCES oauth_client (id) ON DELETE CASCADE;
CREATE INDEX oauth_token_client ON oauth_token (client);
ALTER TABLE agent ADD COLUMN disabled_at TEXT;
CREATE TABLE company_usage (
  company INTEGER PRIMARY KEY REFERENCES company (id),
  agents  INTEGER NOT NULL
) STRICT;
INSERT INTO company_usage (company, agents) SELECT company, count(*) FROM agent GROUP BY company;
CREATE TRIGGER company_usage_agent_added AFTER INSERT ON agent BEGIN
  INSERT INTO company_usage (company, agents) VALUES (NEW.company, 1) ON CONFLICT (company) DO UPDATE SET agents = agents + 1;
END;
CREATE TRIGGER company_usage_agent_removed AFTER DELETE ON agent BEGIN
  UPDATE company_usage SET agents = agents - 1 WHERE company = OLD.company;
END;
CREATE INDEX passport_unrevoked ON passport (company, agent_id) WHERE revoked_at IS NULL;
PRAGMA user_version = 2;`},

	2: {sql: `
ALTER TABLE api_key ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE api_key ADD COLUMN expires_at INTEGER;
ALTER TABLE oauth_client ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE oauth_client ADD COLUMN expires_at INTEGER;
DROP TRIGGER node_no_update;
DROP TRIGGER head_only_grows;
ALTER TABLE node ADD COLUMN log_hash BLOB CHECK (length(log_hash) = 32);
ALTER TABLE head ADD COLUMN log_root BLOB CHECK (length(log_root) = 32);
ALTER TABLE head ADD COLUMN log_frontier BLOB CHECK (length(log_frontier) % 32 = 0);
CREATE TABLE log (
  company INTEGER NOT NULL REFERENCES company (id),
  name    TEXT NOT NULL CHECK (name = 'actions'),
  log_id  TEXT NOT NULL UNIQUE,
  origin  TEXT NOT NULL UNIQUE,
  PRIMARY KEY (company, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (
  log_id TEXT PRIMARY KEY REFERENCES log (log_id),
  size   INTEGER NOT NULL,
  note   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 3;`, fill: fillLogs, guard: `
CREATE TRIGGER node_no_update BEFORE UPDATE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.length <= OLD.length OR NEW.company <> OLD.company
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size <= OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;`},

	3: {sql: `
CREATE TABLE company_key (
  company        INTEGER NOT NULL REFERENCES company (id),
  generation     INTEGER NOT NULL,
  public_key     BLOB NOT NULL CHECK (length(public_key) = 32),
  seed           BLOB,
  first_record   INTEGER NOT NULL,
  created_at     TEXT NOT NULL,
  ended_at       TEXT,
  compromised_at TEXT,
  statement      TEXT,
  old_signature  BLOB,
  new_signature  BLOB,
  PRIMARY KEY (company, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX company_key_current ON company_key (company) WHERE ended_at IS NULL;
INSERT INTO company_key (company, generation, public_key, seed, first_record, created_at)
  SELECT id, 0, ed25519_public(seed), seed, 0, registered_at FROM company;
ALTER TABLE company DROP COLUMN seed;
CREATE TRIGGER company_key_only_ends BEFORE UPDATE ON company_key WHEN
    (NEW.company, NEW.generation, NEW.public_key, NEW.first_record, NEW.created_at, NEW.statement, NEW.old_signature, NEW.new_signature)
    IS NOT (OLD.company, OLD.generation, OLD.public_key, OLD.first_record, OLD.created_at, OLD.statement, OLD.old_signature, OLD.new_signature)
    OR OLD.ended_at IS NOT NULL AND NEW.ended_at IS NOT OLD.ended_at OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
  BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER company_key_no_delete BEFORE DELETE ON company_key BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
DROP TRIGGER checkpoint_only_grows;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size < OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
PRAGMA user_version = 4;`},

	4: {sql: `
ALTER TABLE api_key ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_client ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
UPDATE api_key SET fingerprint = lower(hex(substr(hash, 1, 8)));
UPDATE oauth_client SET fingerprint = lower(hex(substr(secret_hash, 1, 8)));
PRAGMA user_version = 5;`},

	// By way of temporary tables: ALTER TABLE would change, or trip over, what an operator has laid
	// beside ours.
	5: {sql: `
CREATE TEMP TABLE old_checkpoint AS SELECT * FROM checkpoint;
CREATE TEMP TABLE old_log AS SELECT * FROM log;
CREATE TEMP TABLE old_node AS SELECT * FROM node;
CREATE TEMP TABLE old_head AS SELECT * FROM head;
CREATE TEMP TABLE old_company_key AS SELECT * FROM company_key;
DROP TABLE checkpoint;
DROP TABLE log;
DROP TABLE node;
DROP TABLE head;
DROP TABLE company_key;
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
CREATE TABLE log (
  chain   INTEGER PRIMARY KEY CHECK (chain = CASE name WHEN 'actions' THEN company ELSE -company END),
  company INTEGER NOT NULL REFERENCES company (id),
  name    TEXT NOT NULL CHECK (name IN ('actions', 'control')),
  log_id  TEXT NOT NULL UNIQUE,
  origin  TEXT NOT NULL UNIQUE,
  UNIQUE (company, name)
) STRICT;
CREATE TABLE log_key (
  chain         INTEGER NOT NULL REFERENCES log (chain),
  generation    INTEGER NOT NULL,
  first_record  INTEGER NOT NULL,
  statement     TEXT,
  old_signature BLOB,
  new_signature BLOB,
  PRIMARY KEY (chain, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE node (
  chain    INTEGER NOT NULL REFERENCES log (chain),
  level    INTEGER NOT NULL CHECK (level IN (8, 16, 24, 32)),
  idx      INTEGER NOT NULL,
  hash     BLOB NOT NULL CHECK (length(hash) = 32),
  log_hash BLOB CHECK (length(log_hash) = 32),
  PRIMARY KEY (chain, level, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE head (
  chain        INTEGER PRIMARY KEY REFERENCES log (chain),
  length       INTEGER NOT NULL,
  root         BLOB NOT NULL CHECK (length(root) = 32),
  frontier     BLOB NOT NULL CHECK (length(frontier) % 32 = 0),
  timestamp    TEXT NOT NULL,
  log_root     BLOB CHECK (length(log_root) = 32),
  log_frontier BLOB CHECK (length(log_frontier) % 32 = 0)
) STRICT;
CREATE TABLE checkpoint (
  log_id TEXT PRIMARY KEY REFERENCES log (log_id),
  size   INTEGER NOT NULL,
  note   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO log (chain, company, name, log_id, origin) SELECT company, company, name, log_id, origin FROM old_log;
INSERT INTO log_key (chain, generation, first_record, statement, old_signature, new_signature)
  SELECT company, generation, first_record, statement, old_signature, new_signature FROM old_company_key;
INSERT INTO company_key (company, generation, public_key, seed, created_at, ended_at, compromised_at)
  SELECT company, generation, public_key, seed, created_at, ended_at, compromised_at FROM old_company_key;
INSERT INTO node SELECT * FROM old_node;
INSERT INTO head SELECT * FROM old_head;
INSERT INTO checkpoint SELECT * FROM old_checkpoint;
DROP TABLE old_checkpoint;
DROP TABLE old_log;
DROP TABLE old_node;
DROP TABLE old_head;
DROP TABLE old_company_key;
CREATE INDEX control_subject ON record (CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END, id) WHERE id < 0;
PRAGMA user_version = 6;`, fill: fillControl, guard: `
CREATE TRIGGER node_no_update BEFORE UPDATE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER node_no_delete BEFORE DELETE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.length <= OLD.length OR NEW.chain <> OLD.chain
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
CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key BEGIN SELECT RAISE(ABORT, 'the ranges of keys are append-only'); END;`},

	6: {sql: `
CREATE TABLE witness_key (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  name       TEXT NOT NULL,
  public_key BLOB NOT NULL CHECK (length(public_key) = 32),
  seed       BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE TABLE witness_log (
  origin      TEXT PRIMARY KEY,
  origin_hash BLOB NOT NULL UNIQUE CHECK (length(origin_hash) = 32),
  size        INTEGER NOT NULL,
  root        BLOB NOT NULL CHECK (length(root) = 32),
  note        TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE cosignature (
  log_id  TEXT NOT NULL REFERENCES log (log_id),
  witness TEXT NOT NULL,
  size    INTEGER NOT NULL,
  note    TEXT NOT NULL,
  line    TEXT NOT NULL,
  PRIMARY KEY (log_id, witness)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER witness_log_only_grows BEFORE UPDATE ON witness_log
  WHEN NEW.origin <> OLD.origin OR NEW.origin_hash <> OLD.origin_hash OR NEW.size < OLD.size OR NEW.size = OLD.size AND NEW.root <> OLD.root
  BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_log_no_delete BEFORE DELETE ON witness_log BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_key_is_fixed BEFORE UPDATE ON witness_key WHEN NEW.id <> OLD.id OR NEW.name <> OLD.name OR NEW.public_key <> OLD.public_key
  BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
CREATE TRIGGER witness_key_no_delete BEFORE DELETE ON witness_key BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
PRAGMA user_version = 7;`},

	// A file that was copied before this step has the same identity after it.
	7: {sql: `
INSERT INTO setting (name, value) SELECT 'database_id', coalesce((SELECT log_id FROM log WHERE chain > 0 ORDER BY chain LIMIT 1), lower(hex(randomblob(16))));
ALTER TABLE company_usage ADD COLUMN revocations INTEGER NOT NULL DEFAULT 0;
INSERT INTO company_usage (company, agents, revocations) SELECT company, 0, count(*) FROM passport WHERE revoked_at IS NOT NULL GROUP BY company
  ON CONFLICT (company) DO UPDATE SET revocations = excluded.revocations;
CREATE TRIGGER company_usage_passport_revoked AFTER UPDATE OF revoked_at ON passport WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL BEGIN
  INSERT INTO company_usage (company, agents, revocations) VALUES (NEW.company, 0, 1) ON CONFLICT (company) DO UPDATE SET revocations = revocations + 1;
END;
PRAGMA user_version = 8;`},

	8: {sql: `
CREATE TABLE idempotency_key (
  chain      INTEGER NOT NULL,
  name       BLOB NOT NULL CHECK (length(name) = 32),
  request    BLOB NOT NULL CHECK (length(request) = 32),
  idx        INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (chain, name)
) STRICT, WITHOUT ROWID;
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
  retry_at        INTEGER
) STRICT;
CREATE INDEX webhook_company ON webhook (company);
PRAGMA user_version = 9;`},

	// The summaries of what is there already are made by the server, beside its work.
	9: {sql: `
CREATE TABLE summary (
  id    INTEGER PRIMARY KEY,
  terms BLOB NOT NULL
) STRICT;
PRAGMA user_version = 10;`},

	// Access tokens of before have no HMAC, and are of nobody: their clients ask for new ones.
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
}

// fingerprintSchema is the first that keeps the fingerprints of credentials beside their hashes,
// which may be HMACs since.
const fingerprintSchema = 5

// migration is one step.
type migration struct {
	sql string
	// puts in what no statement computes; nil for nothing
	fill func(ctx context.Context, c *conn, o Options) error
	// statements after that: guards that would have refused it
	guard string
}

// migrate brings the file behind c to the schema of this program, in one transaction: after a crash
// it is of the old schema or of the new one, whole. It returns the schema that the file had. No
// other server writes meanwhile: the caller holds the lock.
func migrate(ctx context.Context, c *conn, o Options) (from int64, err error) {
	if err := c.one([]any{&from}, "PRAGMA user_version"); err != nil || from == schemaVersion {
		return from, err
	}
	tx, err := c.sql.BeginTx(ctx, nil)
	if err != nil {
		return from, sentinel(err)
	}
	defer tx.Rollback() // nothing to do after the commit
	for v := from; v < schemaVersion; v++ {
		m := migrations[v]
		_, err := tx.ExecContext(ctx, m.sql)
		if err == nil && m.fill != nil {
			err = m.fill(ctx, c, o)
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
