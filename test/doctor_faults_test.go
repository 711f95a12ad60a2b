package test

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Each fault turns the line of its check.
func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	change := func(statements ...string) func(*testing.T, *installation) {
		return func(t *testing.T, i *installation) {
			db := storetest.Stranger(t, i.db, statements...)
			must.OK(t, db.Close())
		}
	}
	write := func(path func(*installation) string, text []byte, mode os.FileMode) func(*testing.T, *installation) {
		return func(t *testing.T, i *installation) {
			must.OK(t, os.WriteFile(path(i), text, mode))
			must.OK(t, os.Chmod(path(i), mode))
		}
	}
	second := func(suffix string) func(*installation) string {
		return func(i *installation) string { return i.db + suffix }
	}
	certificate := func(from, to time.Duration) func(*testing.T, *installation) {
		return func(t *testing.T, i *installation) {
			cert, key := testenv.NewCA(t).Server(t, func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
			})
			must.OK(t, os.WriteFile(i.cert, cert, 0o600))
			must.OK(t, os.WriteFile(i.certKey, key, 0o600))
		}
	}
	const day = 24 * time.Hour
	tls := func(more ...string) func(*installation) []string {
		return func(i *installation) []string {
			return append([]string{"--tls-cert", i.cert, "--tls-key", i.certKey}, more...)
		}
	}
	acme := func(*installation) []string { return []string{"--acme-domain", "attest.example.com"} }
	fromCA := func(mode os.FileMode) func(*testing.T, *installation) {
		return func(t *testing.T, i *installation) {
			cert, err := os.ReadFile(i.cert)
			must.OK(t, err)
			key, err := os.ReadFile(i.certKey)
			must.OK(t, err)
			must.OK(t, os.Mkdir(i.db+".acme", mode))
			must.OK(t, os.Chmod(i.db+".acme", mode))
			must.OK(t, os.WriteFile(filepath.Join(i.db+".acme", "attest.example.com"), append(key, cert...), 0o600))
		}
	}
	flags := func(more ...string) func(*installation) []string { return func(*installation) []string { return more } }
	for _, fault := range []struct {
		name               string
		does               func(*testing.T, *installation) // may be nil
		flags              func(*installation) []string    // more than the installation has
		check, state, text string
	}{
		{"misspelt limits", nil, flags("--rate-limits", "lots"), "settings", "fail", "--rate-limits"},
		{"no database", func(t *testing.T, i *installation) { must.OK(t, os.Remove(i.db)) }, nil, "database", "fail", "not found"},
		{"another program's file", write(second(""), bytes.Repeat([]byte("x"), 4096), 0o600), nil, "database", "fail", "not an attestd database"},
		{"an older schema", func(t *testing.T, i *installation) {
			text, err := os.ReadFile("../store/testdata/schema-14.db")
			must.OK(t, err)
			must.OK(t, os.WriteFile(i.db, text, 0o600))
		}, nil, "database", "warn", "older attestd"},
		{"a hard link", func(t *testing.T, i *installation) { must.OK(t, os.Link(i.db, i.db+".2")) }, nil, "links", "fail", "hard links"},
		{"a log that is a link", func(t *testing.T, i *installation) {
			must.OK(t, os.Remove(i.db+"-wal"))
			must.OK(t, os.Symlink("/dev/null", i.db+"-wal"))
		}, nil, "links", "fail", "not a plain file"},
		{"a pipe", func(t *testing.T, i *installation) {
			must.OK(t, os.Remove(i.db))
			must.OK(t, exec.CommandContext(t.Context(), "mkfifo", i.db).Run())
		}, nil, "links", "fail", "not a plain file"},
		{"a log that nobody writes", func(t *testing.T, i *installation) {
			must.OK(t, os.Remove(i.db+"-wal"))
			must.OK(t, exec.CommandContext(t.Context(), "mkfifo", i.db+"-wal").Run())
		}, nil, "database", "fail", "not opened"},
		{"a database for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.db, 0o606)) }, nil, "permissions", "fail", "others may write"},
		{"a database to read", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.db, 0o604)) }, nil, "permissions", "fail", "every private key"},
		{"a folder for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(filepath.Dir(i.db), 0o707)) }, nil, "permissions", "fail", "others may write the folder"},
		{"a head file for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.db+".heads", 0o606)) }, nil, "permissions", "fail", ".heads"},
		{"a copy that was left", func(t *testing.T, i *installation) {
			text, err := os.ReadFile(i.db)
			must.OK(t, err)
			must.OK(t, os.WriteFile(i.db+".tmp-1", text, 0o600))
		}, nil, "permissions", "warn", "tmp-1"},
		{"little room", nil, flags("--disk-floor", "1000TiB"), "space", "fail", "--disk-floor"},
		{"a long log", func(t *testing.T, i *installation) {
			write(second("-wal"), nil, 0o600)(t, i)
			must.OK(t, os.Truncate(i.db+"-wal", 65<<20))
		}, nil, "log", "warn", "65 MiB"},
		{"a journal", write(second("-journal"), nil, 0o600), nil, "log", "warn", "-journal"},
		{"times to come", change(`DROP TRIGGER head_only_grows`, `UPDATE head SET timestamp = '2286-01-01T00:00:00.000Z' WHERE chain = 1`), nil, "clock", "warn", "in the future"},
		{"times long ago", change(`DROP TRIGGER head_only_grows`, `DROP TRIGGER company_no_update`, `UPDATE head SET timestamp = '2001-01-01T00:00:00.000Z'`,
			`UPDATE company SET registered_at = '2001-01-01T00:00:00.000Z'`), nil, "clock", "fail", "ten years"},
		{"another master key", func(t *testing.T, i *installation) { i.masterKey, _ = newMasterKey(t) }, nil, "sealing", "fail", "master key"},
		{"a master key for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.masterKey, 0o604)) }, nil, "sealing", "fail", "others than the owner"},
		{"the master key beside", func(t *testing.T, i *installation) {
			must.OK(t, os.Rename(i.masterKey, i.db+".key"))
			i.masterKey = i.db + ".key"
		}, nil, "sealing", "warn", "in the folder of the database"},
		{"a guard away", change(`DROP TRIGGER record_no_update`), nil, "guards", "fail", "record_no_update"},
		{"no head file", func(t *testing.T, i *installation) { must.OK(t, os.Remove(i.db+".heads")) }, nil, "heads", "warn", "no head file"},
		{"an older database", func(t *testing.T, i *installation) { must.OK(t, os.Rename(i.older, i.db)) }, nil, "heads", "fail", "was known at size 3"},
		{"a head file without end", func(t *testing.T, i *installation) { must.OK(t, os.Truncate(i.db+".heads", 1<<40)) }, nil, "heads", "fail", "is not read"},
		{"a page overwritten", func(t *testing.T, i *installation) {
			f, err := os.OpenFile(i.db, os.O_WRONLY, 0)
			must.OK(t, err)
			info, err := f.Stat()
			must.OK(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 4096), info.Size()-4096)
			must.OK(t, err)
			must.OK(t, f.Close())
		}, nil, "pages", "fail", ""},
		{"an agent that nobody registered", change(`UPDATE agent SET disabled_at = '2026-01-01T00:00:00.000Z'`), nil, "tables", "fail", "acme (control)"},
		{"a record changed", change(`DROP TRIGGER record_no_update`, `UPDATE record SET payload = replace(payload, '"door":1', '"door":2')`), nil, "chains", "fail", "acme, record 0"},
		{"bytes counted wrongly", change(`UPDATE head SET bytes = bytes + 1 WHERE chain = 1`), nil, "chains", "warn", "quotas are applied wrongly"},
		{"no backups", nil, flags("--backup-to", ""), "backups", "warn", "no backups are known"},
		{"no folder of backups", func(t *testing.T, i *installation) { i.backups += ".away" }, nil, "backups", "fail", "there is no folder"},
		{"a folder of backups for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.backups, 0o707)) }, nil, "backups", "fail", "others may write the folder"},
		{"no backup that is done", removeManifest, nil, "backups", "fail", "no backup of this database"},
		{"old backups", nil, flags("--backup-every", "1ns"), "backups", "warn", "one is due every 1ns"},
		{"a backup cut short", func(t *testing.T, i *installation) { must.OK(t, os.Truncate(theBackup(t, i, ".db"), 4096)) }, nil, "backups", "fail", "its manifest says"},
		{"a manifest of another", func(t *testing.T, i *installation) {
			must.OK(t, os.WriteFile(theBackup(t, i, ".json"), []byte(`{"form":"\u001b[31m"}`), 0o600))
		}, nil, "backups", "fail", "is not the manifest of"},
		{"a manifest without end", func(t *testing.T, i *installation) { must.OK(t, os.Truncate(theBackup(t, i, ".json"), 1<<30)) }, nil, "backups", "fail", "too large"},
		{"a certificate that has ended", certificate(-90*day, -time.Hour), tls(), "tls", "fail", "has ended"},
		{"a certificate that ends", certificate(-89*day, day), tls(), "tls", "warn", "ends at"},
		{"a certificate to come", certificate(day, 90*day), tls(), "tls", "fail", "not valid before"},
		{"a certificate for another", nil, tls("--base-url", "https://other.example.com"), "tls", "fail", "other.example.com"},
		{"a TLS key for all", func(t *testing.T, i *installation) { must.OK(t, os.Chmod(i.certKey, 0o604)) }, tls(), "tls", "fail", "others than the owner"},
		{"no certificate of the CA", func(t *testing.T, i *installation) { must.OK(t, os.Mkdir(i.db+".acme", 0o700)) }, acme, "tls", "fail", "the certificate for attest.example.com from the CA"},
		{"a certificate of the CA", fromCA(0o700), acme, "tls", "ok", "ends at"},
		{"keys of the CA for all", fromCA(0o705), acme, "tls", "fail", "only its owner can read"},
		{"an open address", nil, flags("--listen", "0.0.0.0:8080", "--rate-limits", "off"), "listen", "warn", "fill the disk"},
		{"much in memory", nil, flags("--max-inflight", "1TiB"), "limits", "warn", "of memory"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			if fault.does != nil {
				fault.does(t, &i)
			}
			args := i.flags()
			if fault.flags != nil {
				args = append(args, fault.flags(&i)...)
			}
			if !slices.Contains([]string{"chains", "tables", "pages"}, fault.check) {
				args = append(args, "--quick")
			}
			d := diagnose(t, args...)
			d.finds(t, fault.check, fault.state, fault.text)
		})
	}
}

// theBackup returns the path of the one backup, or of its manifest.
func theBackup(t *testing.T, i *installation, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(i.backups, "*"+suffix))
	must.OK(t, err)
	if len(found) != 1 {
		t.Fatalf("there: %q", found)
	}
	return found[0]
}

func removeManifest(t *testing.T, i *installation) { must.OK(t, os.Remove(theBackup(t, i, ".json"))) }
