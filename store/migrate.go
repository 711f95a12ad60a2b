package store

import (
	"context"
	"errors"
	"fmt"
)

// The schemas that this program can bring up to date, and the one that it serves, which is what schema.sql makes.
const (
	oldestSchema  = 1
	schemaVersion = 5
)

// migrations[v] brings a file of schema v to v+1. A step is never changed once it is released: a new schema is a new step, and
// schema.sql changed to match. Columns come last in their tables in both, so that both ways end at the same text.
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
}

// fingerprintSchema is the first that keeps the fingerprints of credentials beside their hashes, which may be HMACs since.
const fingerprintSchema = 5

// migration is one step.
type migration struct {
	sql   string
	fill  func(ctx context.Context, c *conn, o Options) error // puts in what no statement computes; nil for nothing
	guard string                                              // statements after that: guards that would have refused it
}

// migrate brings the file behind c to the schema of this program, in one transaction: after a crash it is of the old schema or of the
// new one, whole. It returns the schema that the file had. No other server writes meanwhile: the caller holds the lock.
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

// misshapen makes a sentinel of an error of a step. What SQLite has against a step itself says that the file is not what its version says.
func misshapen(err error) error {
	if err = sentinel(err); resultCode(err) != 0 && !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
