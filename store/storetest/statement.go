package storetest

import "regexp"

// own is what the statements of tests have of SQLite's own, and what stands for it on PostgreSQL.
var own = []struct {
	form *regexp.Regexp
	on   string
}{
	// A trigger's name is not enough: its table must be named too.
	{regexp.MustCompile(`^DROP TRIGGER (\w+)$`), `DO $$$$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE tgname = '$1'); END $$$$`},
	{regexp.MustCompile(`^PRAGMA foreign_keys = 0$`), `SET session_replication_role = replica`}, // which no foreign key sees
	{regexp.MustCompile(`^PRAGMA wal_checkpoint\(TRUNCATE\)$`), `SELECT`},
	{regexp.MustCompile(`\bx'([0-9a-f]*)'`), `'\x$1'::bytea`},
	{regexp.MustCompile(`\bzeroblob\((\d+)\)`), `decode(repeat('00', $1), 'hex')`},
	{regexp.MustCompile(`\brandomblob\(32\)`), `sha256(random()::text::bytea)`},
}

// Statement is a statement of a test for the engine that the tests run on. Only what tests say that is SQLite's own is replaced.
func Statement(s string) string {
	if !OnPostgres() {
		return s
	}
	for _, o := range own {
		s = o.form.ReplaceAllString(s, o.on)
	}
	return s
}
