package storetest

import "regexp"

// own maps SQL that only SQLite understands to its equivalent on PostgreSQL.
var own = []struct {
	form *regexp.Regexp
	on   string
}{
	// PostgreSQL requires the table of a trigger too.
	{regexp.MustCompile(`\bDROP TRIGGER (\w+)`), `DO $$$$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE tgname = '$1'); END $$$$`},
	{regexp.MustCompile(`^CREATE TRIGGER (\w+) BEFORE INSERT ON (\w+) WHEN (.*) BEGIN SELECT RAISE\(ABORT, ('\w+')\); END$`),
		`CREATE TRIGGER $1 BEFORE INSERT ON $2 FOR EACH ROW WHEN ($3) EXECUTE FUNCTION refuse_change($4)`},
	{regexp.MustCompile(`^PRAGMA ignore_check_constraints = 1$`), `ALTER TABLE record DROP CONSTRAINT record_hash_check, DROP CONSTRAINT record_signature_check`},
	// foreign keys do not see it
	{regexp.MustCompile(`\bPRAGMA foreign_keys = 0\b`), `SET session_replication_role = replica`},
	{regexp.MustCompile(`^PRAGMA wal_checkpoint\(TRUNCATE\)$`), `SELECT`},
	{regexp.MustCompile(`\bx'([0-9a-f]*)'`), `'\x$1'::bytea`},
	{regexp.MustCompile(`(\d+) << 40`), `$1::bigint << 40`}, // 1 has 32 bits there
	{regexp.MustCompile(`\bzeroblob\((\d+)\)`), `decode(repeat('00', $1), 'hex')`},
	{regexp.MustCompile(`\bAS BLOB\b`), `AS bytea`},
	{regexp.MustCompile(`\brandomblob\(32\)`), `sha256(random()::text::bytea)`},
}

// Statement returns a test's statement for the engine of the tests. It replaces only what tests use
// of SQLite's own SQL.
func Statement(s string) string {
	if !OnPostgres() {
		return s
	}
	for _, o := range own {
		s = o.form.ReplaceAllString(s, o.on)
	}
	return s
}
