package store

import (
	"context"
	"errors"
	"fmt"
)

// The schemas that this program can bring up to date, and the one that it serves, which is what schema.sql makes.
const (
	oldestSchema  = 1
	schemaVersion = 3
)

// migrations[v] brings a file of schema v to v+1. A step is never changed once it is released: a new schema is a new step, and
// schema.sql changed to match. Columns come last in their tables in both, so that both ways end at the same text.
var migrations = [schemaVersion]string{
	1: `
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
PRAGMA user_version = 2;`,
	2: `
ALTER TABLE api_key ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE api_key ADD COLUMN expires_at INTEGER;
ALTER TABLE oauth_client ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE oauth_client ADD COLUMN expires_at INTEGER;
PRAGMA user_version = 3;`,
}

// migrate brings the file behind c to the schema of this program, in one transaction: after a crash it is of the old schema or of the
// new one, whole. It returns the schema that the file had. No other server writes meanwhile: the caller holds the lock.
func migrate(ctx context.Context, c *conn) (from int64, err error) {
	if err := c.one([]any{&from}, "PRAGMA user_version"); err != nil || from == schemaVersion {
		return from, err
	}
	tx, err := c.sql.BeginTx(ctx, nil)
	if err != nil {
		return from, sentinel(err)
	}
	defer tx.Rollback() // nothing to do after the commit
	for v := from; v < schemaVersion; v++ {
		if _, err := tx.ExecContext(ctx, migrations[v]); err != nil {
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
