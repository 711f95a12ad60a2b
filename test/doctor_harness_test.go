package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// diagnosis is what `attestd doctor --json` has printed.
type diagnosis struct {
	Form, Program, Database, At, State string
	Findings                           []struct{ Check, State, Detail, Remedy string }

	ran
}

// diagnose runs the doctor. Its exit status must be that of its report.
func diagnose(t *testing.T, args ...string) (d diagnosis) {
	t.Helper()
	d.ran = command(t, append([]string{"doctor", "--json"}, args...)...)
	d.parse(t)
	return d
}

func (d *diagnosis) parse(t *testing.T) {
	t.Helper()
	if err := json.Unmarshal([]byte(d.stdout), d); err != nil {
		t.Fatalf("%v: exit status %d, %s", err, d.status, d.all)
	}
	if want := map[string]int{"ok": 0, "warn": 9, "fail": 10}[d.State]; d.status != want || d.stderr != "" {
		t.Errorf("%s has exit status %d: %s", d.State, d.status, d.stderr)
	}
	for _, f := range d.Findings {
		if (f.Remedy != "") != (f.State == "warn" || f.State == "fail") || f.Detail == "" {
			t.Errorf("%+v has no remedy or no detail, or a remedy for nothing", f)
		}
	}
}

// finds fails the test unless a check has a state and its line a text.
func (d *diagnosis) finds(t *testing.T, check, state, text string) {
	t.Helper()
	for _, f := range d.Findings {
		if f.Check == check {
			if f.State != state || !strings.Contains(f.Detail, text) {
				t.Errorf("%s: %s, %q; want %s and %q", check, f.State, f.Detail, state, text)
			}
			return
		}
	}
	t.Errorf("%s was not checked: %s", check, d.all)
}

// wrong lists the checks that have found something.
func (d *diagnosis) wrong() (list []string) {
	for _, f := range d.Findings {
		if f.State != "ok" && f.State != "skipped" {
			list = append(list, f.Check+": "+f.Detail)
		}
	}
	return list
}

// installation is a folder with a database that is sealed, its head file, a backup, a certificate
// for example.com and its key. The database older is an earlier state of it.
type installation struct {
	dir, db, older, masterKey, backups, cert, certKey string
	apiKey                                            string
}

func at(dir string) installation {
	in := func(name string) string { return filepath.Join(dir, name) }
	return installation{dir: dir, db: in("data/attestd.db"), older: in("older.db"), masterKey: in("master.key"), backups: in("backups"),
		cert: in("tls.crt"), certKey: in("tls.key")}
}

// flags are those of serve, and so of the doctor.
func (i *installation) flags(more ...string) []string {
	return append([]string{"--db", i.db, "--master-key-file", i.masterKey, "--backup-to", i.backups}, more...)
}

// healthy makes an installation once.
var healthy struct {
	sync.Once
	installation
}

// install returns an installation of this test's own in which nothing is wrong.
func install(t *testing.T) installation {
	t.Helper()
	storetest.AboutFile(t)
	// before Do, which a test that is skipped there would leave undone
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	healthy.Do(func() {
		i := at(filepath.Join(scratch, "installation"))
		for _, dir := range []string{i.dir, filepath.Dir(i.db), i.backups} {
			must.OK(t, os.Mkdir(dir, 0o700))
		}
		_, err := attestd(t, "master-key", "new", i.masterKey)
		must.OK(t, err)
		cert, key := testenv.NewCA(t).Server(t)
		must.OK(t, os.WriteFile(i.cert, cert, 0o600))
		must.OK(t, os.WriteFile(i.certKey, key, 0o600))
		s := serve(t, i.db, "--master-key-file", i.masterKey)
		c := s.register(t, "acme")
		i.apiKey = c.key
		c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
		must.OK(t, s.interrupt())
		text, err := os.ReadFile(i.db)
		must.OK(t, err)
		must.OK(t, os.WriteFile(i.older, text, 0o600))
		s = serve(t, i.db, "--master-key-file", i.masterKey)
		for range 3 {
			c.at(s).call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"open","payload":{"door":1}}`, nil)
		}
		must.OK(t, s.interrupt())
		_, err = attestd(t, "backup", "--db", i.db, "--backup-to", i.backups)
		must.OK(t, err)
		healthy.installation = i
	})
	if healthy.dir == "" {
		t.Fatal("there is no installation")
	}
	i := at(t.TempDir())
	i.apiKey = healthy.apiKey
	must.OK(t, filepath.WalkDir(healthy.dir, func(path string, e os.DirEntry, err error) error {
		to := filepath.Join(i.dir, strings.TrimPrefix(path, healthy.dir))
		if err != nil || path == healthy.dir {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(to, 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	}))
	return i
}

// until runs the doctor until a check has a state and a text: a server may need a while to find
// what is wrong.
func until(t *testing.T, check, state, text string, args ...string) diagnosis {
	t.Helper()
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for deadline := time.Now().Add(patience); ; <-pace.C {
		d := diagnose(t, args...)
		if slices.ContainsFunc(d.Findings, func(f struct{ Check, State, Detail, Remedy string }) bool {
			return f.Check == check && f.State == state && strings.Contains(f.Detail, text)
		}) || time.Now().After(deadline) {
			return d
		}
	}
}
