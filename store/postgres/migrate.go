package postgres

import (
	"context"
	"database/sql"
	"fmt"
)

// step upgrades a schema to the next version.
type step struct {
	sql string

	// compatible is the oldest version whose programs may use the result. A step that only adds
	// objects does not raise it, so that servers of the previous version continue while they are
	// replaced one by one. A later version removes objects.
	compatible int
}

// steps returns the steps from schema 9, the first one, to Version.
func steps() []step {
	return []step{
		// Servers of schema 9 write no summaries; those of schema 10 add missing ones. The roles of
		// servers need no new grants.
		{`CREATE TABLE summary (id bigint PRIMARY KEY, terms bytea NOT NULL);
DO $$
DECLARE server text;
BEGIN
  FOR server IN SELECT DISTINCT grantee::regrole FROM pg_class, aclexplode(relacl)
    WHERE oid = 'node'::regclass AND privilege_type = 'INSERT' AND grantee <> relowner AND grantee <> 0 LOOP
    EXECUTE format('GRANT SELECT, INSERT ON summary TO %s', server);
  END LOOP;
END $$`, 9},
		// Servers of schemas 9 and 10 change passports only by revoking them. The new index also
		// serves their queries of the old one. Their access tokens have no HMAC, so servers of
		// schema 11 reject them, and clients request new ones.
		{`CREATE TRIGGER passport_only_revoked BEFORE UPDATE ON passport FOR EACH ROW WHEN (
    (NEW.id, NEW.company, NEW.jti, NEW.agent_id, NEW.scopes, NEW.issued_at, NEW.expires_at)
      IS DISTINCT FROM (OLD.id, OLD.company, OLD.jti, OLD.agent_id, OLD.scopes, OLD.issued_at, OLD.expires_at)
    OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL)
  EXECUTE FUNCTION refuse_change('a passport is only revoked, for good');
CREATE TRIGGER passport_no_delete BEFORE DELETE ON passport EXECUTE FUNCTION refuse_change('a passport is only revoked, for good');
CREATE TRIGGER passport_no_truncate BEFORE TRUNCATE ON passport EXECUTE FUNCTION refuse_change('a passport is only revoked, for good');
DROP INDEX passport_unrevoked;
CREATE INDEX passport_live ON passport (company, agent_id, expires_at) WHERE revoked_at IS NULL;
DROP TRIGGER company_usage_passport_revoked ON passport;
CREATE OR REPLACE FUNCTION company_usage_passport_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO company_usage AS u (company, agents, revocations)
    SELECT company, 0, count(*) FROM passports_after a JOIN passports_before b USING (id, company)
    WHERE b.revoked_at IS NULL AND a.revoked_at IS NOT NULL GROUP BY company
    ON CONFLICT (company) DO UPDATE SET revocations = u.revocations + excluded.revocations;
  RETURN NULL;
END $$;
CREATE TRIGGER company_usage_passport_revoked AFTER UPDATE ON passport REFERENCING OLD TABLE AS passports_before NEW TABLE AS passports_after
  FOR EACH STATEMENT EXECUTE FUNCTION company_usage_passport_revoked();
DELETE FROM oauth_token;
ALTER TABLE oauth_token ADD COLUMN mac bytea CHECK (length(mac) = 32)`, 9},
		// Servers of schema 11 do not know the log of the companies. Running ones continue, but
		// cannot register companies once the log exists.
		{`INSERT INTO setting (name, value) SELECT 'unlisted_companies', 'true' WHERE EXISTS (SELECT 1 FROM company);
CREATE OR REPLACE FUNCTION next_company() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT coalesce(max(id), 0) + 1 FROM company WHERE id < 8388607);
END $$`, 12},
	}
}

// firstVersion is the schema version before the first step.
const firstVersion = 9

// Migrate upgrades the schema of a database to Version, each step in a separate transaction, and
// calls progress with the new version after each. Concurrent calls perform each step once.
// ErrNotFound, ErrForeign, ErrRefused and ErrUnavailable are as in Identify. ErrNewer means a
// schema newer than Version, which is left unchanged.
func Migrate(ctx context.Context, db *sql.DB, progress func(version int)) error {
	return migrate(ctx, db, steps(), progress)
}

func migrate(ctx context.Context, db *sql.DB, steps []step, progress func(version int)) error {
	for {
		came, err := migrateOnce(ctx, db, steps)
		if err != nil {
			return fmt.Errorf("migrate: %w", refusal(err))
		}
		if came == 0 {
			return nil
		}
		progress(came)
	}
}

// migrateOnce performs the next step and returns its version, or 0 if there is none.
func migrateOnce(ctx context.Context, db *sql.DB, steps []step) (came int, err error) {
	err = underLock(ctx, db, func(tx *sql.Tx) error {
		d, err := identify(ctx, tx)
		if err != nil {
			return err
		}
		last := firstVersion + len(steps)
		switch {
		case d.Version == last:
			return nil
		case d.Version > last:
			return fmt.Errorf("%w: schema %d, this one knows %d", ErrNewer, d.Version, last)
		case d.Version < firstVersion:
			return fmt.Errorf("%w: schema %d", ErrCorrupt, d.Version)
		}
		next := steps[d.Version-firstVersion]
		if _, err := tx.ExecContext(ctx, next.sql); err != nil {
			return fmt.Errorf("to schema %d: %w", d.Version+1, err)
		}
		came = d.Version + 1
		for name, value := range map[string]int{versionSetting: came, compatibleSetting: next.compatible} {
			if _, err := tx.ExecContext(ctx, "UPDATE setting SET value = $2 WHERE name = $1", name, fmt.Sprint(value)); err != nil {
				return err
			}
		}
		return nil
	})
	return came, err
}
