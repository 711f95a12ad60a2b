package storetest

import "regexp"

// own is what the statements of tests have of SQLite's own, and what stands for it on PostgreSQL.
var own = []struct {
	form *regexp.Regexp
	on   string
}{
	// A trigger's name is not enough: its table must be named too.
	{regexp.MustCompile(`\bDROP TRIGGER (\w+)`), `DO $$$$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE tgname = '$1'); END $$$$`},
	{regexp.MustCompile(`^CREATE TRIGGER (\w+) BEFORE INSERT ON (\w+) WHEN (.*) BEGIN SELECT RAISE\(ABORT, ('\w+')\); END$`),
		`CREATE TRIGGER $1 BEFORE INSERT ON $2 FOR EACH ROW WHEN ($3) EXECUTE FUNCTION refuse_change($4)`},
	{regexp.MustCompile(`^PRAGMA ignore_check_constraints = 1$`), `ALTER TABLE record DROP CONSTRAINT record_hash_check, DROP CONSTRAINT record_signature_check`},
	// which no foreign key sees
	{regexp.MustCompile(`\bPRAGMA foreign_keys = 0\b`), `SET session_replication_role = replica`},
	{regexp.MustCompile(`^PRAGMA wal_checkpoint\(TRUNCATE\)$`), `SELECT`},
	{regexp.MustCompile(`\bx'([0-9a-f]*)'`), `'\x$1'::bytea`},
	{regexp.MustCompile(`(\d+) << 40`), `$1::bigint << 40`}, // 1 is of 32 bits there
	{regexp.MustCompile(`\bzeroblob\((\d+)\)`), `decode(repeat('00', $1), 'hex')`},
	{regexp.MustCompile(`\bAS BLOB\b`), `AS bytea`},
	{regexp.MustCompile(`\brandomblob\(32\)`), `sha256(random()::text::bytea)`},
}

// Statement is a statement of a test for the engine that the tests run on. Only what tests say that
// is SQLite's own is replaced.
func Statement(s string) string {
	if !OnPostgres() {
		return s
	}
	for _, o := range own {
		s = o.form.ReplaceAllString(s, o.on)
	}
	return s
}
