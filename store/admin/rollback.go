package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// Rollback describes what a restore undoes, with a line for each loss, undone deletion and
// differing history. It has at most maxRollback lines; More is the number of omitted ones.
type Rollback struct {
	Lines []string
	More  int

	// lengths of the logs to be replaced, by company
	replaced map[string]map[store.LogName]int64
}

const (
	maxRollback      = 100
	maxRollbackNames = 5 // per line
)

func (r *Rollback) add(format string, args ...any) {
	if len(r.Lines) == maxRollback {
		r.More++
		return
	}
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

func (r *Rollback) note(company string, name store.LogName, length int64) {
	if r.replaced == nil {
		r.replaced = map[string]map[store.LogName]int64{}
	}
	if r.replaced[company] == nil {
		r.replaced[company] = map[store.LogName]int64{}
	}
	r.replaced[company][name] = length
}

// findRollback compares the database at path with the backup that will replace it. Anything
// unreadable counts as a rollback, because it may contain anything.
func findRollback(ctx context.Context, path, backup string) (r Rollback, err error) {
	target, err := db.Identify(ctx, path)
	if err == nil {
		err = sqlite.ReadError(ctx, path, r.compare(ctx, path, backup, target))
	}
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNewer):
		r.add("what it holds cannot be compared: %v", err)
		return r, nil
	case errors.Is(err, store.ErrNotFound):
		for _, left := range sqlite.Leftovers(path) {
			r.add("what it holds cannot be compared: %s belongs to a database that is gone", left)
		}
		return r, nil
	}
	return r, err
}

// compare fills r. The connection has the backup as its main database, and the one at path attached
// as "target".
func (r *Rollback) compare(ctx context.Context, path, backup string, target db.Settings) error {
	replacement, err := db.Identify(ctx, backup)
	if err != nil {
		return err
	}
	if replacement.Domain != target.Domain {
		r.add("another service: %q in trust domain %q, the backup is of %q in %q",
			target.Service, target.TrustDomain, replacement.Service, replacement.TrustDomain)
	}
	switch now, then := target.Sealing.KeyID, replacement.Sealing.KeyID; {
	case now == then:
	case then == "":
		r.add("keys sealed since, in plaintext again")
	default:
		r.add("keys sealed with another master key: %s", then)
	}
	mode, err := sqlite.InspectMode(path)
	if err != nil {
		return err
	}
	return db.OnFile(ctx, backup, sqlite.ModeRest, func(c *db.Conn) error {
		return r.compareTables(ctx, c, sqlite.Address(path, mode))
	})
}

// compareTables compares the contents of the two databases on a connection to the backup.
func (r *Rollback) compareTables(ctx context.Context, c *db.Conn, target string) error {
	if _, err := c.Exec("ATTACH ? AS target", target); err != nil {
		return err
	}
	var versions schemas
	if err := errors.Join(c.One([]any{&versions.target}, "PRAGMA target.user_version"),
		c.One([]any{&versions.backup}, "PRAGMA main.user_version")); err != nil {
		return err
	}
	lists := rollbackLists(versions)
	companies, err := comparedCompanies(c, versions)
	if err != nil {
		return err
	}
	for _, p := range companies {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.number == db.Installation { // it has only this log
			if err := r.compareLog(c, p, store.Control, versions); err != nil {
				return err
			}
			continue
		}
		if err := r.compareLog(c, p, store.Actions, versions); err != nil {
			return err
		}
		if !p.sameKey { // nothing else is comparable
			continue
		}
		if err := r.compareLog(c, p, store.Control, versions); err != nil {
			return err
		}
		for _, l := range lists {
			if err := r.compareList(c, p, l); err != nil {
				return err
			}
		}
	}
	return r.compareWitness(c, versions)
}

// compared is a company of the database to be replaced, with the company of the same companyId in
// the backup, if any.
type compared struct {
	id      string
	number  int64
	backup  sql.NullInt64
	sameKey bool
}

// schemas has the schema versions of the two databases.
type schemas struct{ target, backup int64 }

// firstKey returns the SQL for the first public key of a company.
func firstKey(database, alias string, schema int64) string {
	if schema < db.KeysSchema {
		// NULL if the company does not exist
		return "CASE WHEN " + alias + ".seed IS NOT NULL THEN ed25519_public(" + alias + ".seed) END"
	}
	return "(SELECT public_key FROM " + database + ".company_key WHERE company = " + alias + ".id AND generation = 0)"
}

// keyFingerprint returns the SQL for the fingerprint of an API key.
func keyFingerprint(schema int64) string {
	if schema < db.FingerprintSchema {
		return "lower(hex(substr(hash, 1, 8)))"
	}
	return "fingerprint"
}

func comparedCompanies(c *db.Conn, of schemas) (all []compared, err error) {
	err = c.Each(func(rows *sql.Rows) error {
		var p compared
		err := rows.Scan(&p.id, &p.number, &p.backup, &p.sameKey)
		all = append(all, p)
		return err
	}, `SELECT t.company_id, t.id, b.id, `+firstKey("target", "t", of.target)+` IS `+firstKey("main", "b", of.backup)+`
		FROM target.company t LEFT JOIN main.company b ON b.company_id = t.company_id ORDER BY t.company_id`)
	return all, err
}

// headChain returns the column of table head with the chain ID.
func headChain(schema int64) string {
	if schema < db.TwoLogs {
		return "company"
	}
	return "chain"
}

// compareLog compares the hashes of a log in both databases up to the first difference. A log that
// a schema does not have is empty there.
func (r *Rollback) compareLog(c *db.Conn, p compared, name store.LogName, of schemas) error {
	number, backup, title := name.ChainID(p.number), name.ChainID(p.backup.Int64), name.Titled(p.id)
	var length, oldLength, at int64
	var sameRoot bool
	inBoth := name == store.Actions || min(of.target, of.backup) >= db.TwoLogs
	err := c.One([]any{&length, &oldLength, &sameRoot}, `SELECT coalesce(t.length, 0), coalesce(b.length, 0), t.root IS b.root FROM (SELECT 1)
		LEFT JOIN target.head t ON t.`+headChain(of.target)+` = ? LEFT JOIN main.head b ON b.`+headChain(of.backup)+` = ?`, number, backup)
	r.note(p.id, name, length)
	switch {
	case err != nil:
		return err
	case !p.backup.Valid:
		r.add("%s: %d records, and the backup has no such company", title, length)
		return nil
	case !p.sameKey:
		r.add("%s: another history: %d records, the backup has %d, signed with another key", title, length, oldLength)
		return nil
	}
	first, last := db.RecordIDs(backup)
	inTarget, _ := db.RecordIDs(number)
	err = c.One([]any{&at}, `SELECT b.id FROM main.record b JOIN target.record t ON t.id = b.id + ?
		WHERE b.id BETWEEN ? AND ? AND b.hash <> t.hash ORDER BY b.id LIMIT 1`,
		inTarget-first, first, last)
	switch {
	case err == nil:
		r.add("%s: another history: %d records, the backup has %d, and they differ from record %d on", title, length,
			oldLength, at-first)
	case !errors.Is(err, store.ErrNotFound):
		return err
	case length > oldLength:
		r.add("%s: %d records, the backup has %d", title, length, oldLength)
	case length == oldLength && !sameRoot && inBoth:
		r.add("%s: another history: %d records in both, and another chain root", title, length)
	}
	return nil
}

// rollbackList is a query for losses of a company. ?1 is its number in the target, ?2 in the
// backup. Keys are identified by their fingerprints.
type rollbackList struct{ what, query string }

// rollbackLists omits what an older schema does not have.
func rollbackLists(of schemas) []rollbackList {
	inTarget, inBackup := keyFingerprint(of.target), keyFingerprint(of.backup)
	lists := []rollbackList{
		{"passports revoked since, valid again", `SELECT t.jti FROM target.passport t JOIN main.passport b ON b.jti = t.jti AND b.company = ?2
			WHERE t.company = ?1 AND t.revoked_at IS NOT NULL AND b.revoked_at IS NULL`},
		{"API keys deleted since, accepted again", `SELECT ` + inBackup + ` FROM main.api_key
			WHERE company = ?2 AND ` + inBackup + ` NOT IN (SELECT ` + inTarget + ` FROM target.api_key WHERE company = ?1)`},
		{"OAuth clients deleted since, accepted again", `SELECT client_id FROM main.oauth_client
			WHERE company = ?2 AND client_id NOT IN (SELECT client_id FROM target.oauth_client WHERE company = ?1)`},
		{"API keys made since, gone", `SELECT ` + inTarget + ` FROM target.api_key
			WHERE company = ?1 AND ` + inTarget + ` NOT IN (SELECT ` + inBackup + ` FROM main.api_key WHERE company = ?2)`},
		{"OAuth clients made since, gone", `SELECT client_id FROM target.oauth_client
			WHERE company = ?1 AND client_id NOT IN (SELECT client_id FROM main.oauth_client WHERE company = ?2)`},
		{"agents registered since, gone", `SELECT agent_id FROM target.agent t
			WHERE company = ?1 AND NOT EXISTS (SELECT 1 FROM main.agent b WHERE b.company = ?2 AND b.agent_id = t.agent_id)`},
		{"passports issued since, gone", `SELECT jti FROM target.passport t
			WHERE company = ?1 AND NOT EXISTS (SELECT 1 FROM main.passport b WHERE b.jti = t.jti AND b.company = ?2)`},
	}
	enabled := "b.disabled_at IS NULL"
	if of.backup < 2 {
		enabled = "true" // agents could not be disabled
	}
	if of.target >= 2 {
		lists = append(lists, rollbackList{"agents disabled since, enabled again", `SELECT t.agent_id FROM target.agent t
			JOIN main.agent b ON b.company = ?2 AND b.agent_id = t.agent_id
			WHERE t.company = ?1 AND t.disabled_at IS NOT NULL AND ` + enabled})
	}
	if of.target >= db.KeysSchema {
		has, compromised := "SELECT public_key FROM main.company_key WHERE company = ?2", " AND compromised_at IS NOT NULL"
		if of.backup < db.KeysSchema {
			// keys could not be declared compromised
			has, compromised = "SELECT ed25519_public(seed) FROM main.company WHERE id = ?2", " AND false"
		}
		const number = `SELECT 'key ' || generation FROM target.company_key WHERE company = ?1 AND `
		lists = append(lists,
			rollbackList{"signing keys made since, gone", number + `generation > 0 AND public_key NOT IN (` + has + `)`},
			rollbackList{"signing keys declared compromised since, trusted again", number + `compromised_at IS NOT NULL
				AND public_key NOT IN (` + has + compromised + `) AND public_key IN (` + has + `)`})
	}
	return lists
}

func (r *Rollback) compareList(c *db.Conn, p compared, l rollbackList) error {
	n := 0
	var names []string
	err := c.Each(func(rows *sql.Rows) error {
		var name string
		if n++; n > maxRollbackNames {
			return nil
		}
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, l.query, p.number, p.backup.Int64)
	if err != nil {
		return err
	}
	if n > maxRollbackNames {
		names = append(names, fmt.Sprintf("and %d more", n-maxRollbackNames))
	}
	if n > 0 {
		r.add("%s: %s (%d): %s", p.id, l.what, n, strings.Join(names, ", "))
	}
	return nil
}
