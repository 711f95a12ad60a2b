package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/export"
	"attestd/server/jobs"
	"attestd/store/storetest"
)

// exporting makes a server export to a file.
func exporting(path string, companies ...string) func(*server.Config) {
	return func(c *server.Config) {
		c.Export = &jobs.Export{Destination: export.NewFile(path), Companies: companies}
	}
}

// exported waits until files hold, one after the other, for a company whose actions have so many
// records, and returns the verdict.
func exported(t testing.TB, company, fingerprint string, actions int64, paths ...string) (v lines.Verdict) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		var files []lines.File
		for _, path := range paths {
			if f, err := os.Open(path); err == nil {
				defer f.Close()
				files = append(files, lines.File{Name: path, ReadSeeker: f})
			}
		}
		var err error
		v, err = lines.Check(files, lines.Options{Trust: evidence.Trust{Fingerprint: fingerprint}, CompanyID: company})
		must.OK(t, err)
		for _, l := range v.Logs {
			if v.Outcome == evidence.Holds && l.Log == "actions" && l.First == 0 && l.From == 0 && l.Next == actions {
				return v
			}
		}
		if time.Now().After(end) {
			t.Fatalf("not exported: %+v", v)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A server exports the logs of its companies, or of those that the operator names, across restarts.
// The export is in the control log.
func TestServerExportsItsCompanies(t *testing.T) {
	t.Parallel()
	path, file := storetest.New(t), filepath.Join(t.TempDir(), "lines.ndjson")
	s := startOn(t, path, cred.Domain{}, exporting(file))
	companies := []caller{s.company(t, "acme"), s.company(t, "globex")}
	for i := range 20 {
		for _, c := range companies {
			c.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a.b","payload":{"n":%d}}`, i)).status(201)
		}
	}
	fingerprints := map[string]string{}
	for _, id := range []string{"acme", "globex"} {
		fingerprints[id] = s.anyone().do(t, "GET /v1/ca/public-key?companyId="+id, "").status(200).str("fingerprint")
	}
	s.stop()
	for id, fingerprint := range fingerprints {
		v := exported(t, id, fingerprint, 20, file)
		if l := v.Logs[1]; l.Log != "control" || l.To != l.Next || l.Next < 1 {
			t.Errorf("%s: %+v", id, v.Logs)
		}
	}
	text, err := os.ReadFile(file)
	must.OK(t, err)
	if strings.Contains(string(text), `"companyId":"@`) {
		t.Error("the log of the companies is exported")
	}

	s = startOn(t, path, cred.Domain{}, exporting(file, "acme"))
	for _, c := range companies {
		c.on(s).do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a.b","payload":{}}`).status(201)
	}
	settings := companies[0].on(s).do(t, "GET /v1/chain?log=control", "").status(200)
	if !strings.Contains(string(settings.raw), "lines.ndjson, the logs of 1 companies") {
		t.Errorf("the export is not in the control log: %s", string(settings.raw))
	}
	s.stop()
	exported(t, "acme", fingerprints["acme"], 21, file)
	exported(t, "globex", fingerprints["globex"], 20, file)
}

// Of two servers on one database one exports, whichever has appended. When it ends, the other one
// goes on after the last record that was acknowledged.
func TestOneOfTwoServersExports(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.PostgreSQL, testenv.NotRaced)
	t.Parallel()
	path := storetest.Shared(t)
	folder := t.TempDir()
	files := []string{filepath.Join(folder, "first"), filepath.Join(folder, "second")}
	// one destination, whose file is where the server is
	first := startOn(t, path, cred.Domain{}, exportingAs("shared", files[0]))
	second := startOn(t, path, cred.Domain{}, exportingAs("shared", files[1]))
	acme := first.company(t, "acme")
	fingerprint := first.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").status(200).str("fingerprint")
	n := int64(0)
	attest := func(s *service) {
		acme.on(s).do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a.b","payload":{}}`).status(201)
		n++
	}
	for range 5 {
		attest(first)
		attest(second)
	}
	has := func(path string) bool {
		about, err := os.Stat(path)
		return err == nil && about.Size() > 0
	}
	holder, other := first, second
	for end := time.Now().Add(30 * time.Second); !has(files[0]) && !has(files[1]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is exported")
		}
	}
	if has(files[1]) {
		holder, other = second, first
		files[0], files[1] = files[1], files[0]
	}
	// a checkpoint comes with the end of the holder
	attest(other)
	holder.stop()
	if has(files[1]) {
		t.Error("both servers have exported at once")
	}
	exported(t, "acme", fingerprint, n, files...)
	attest(other)
	for end := time.Now().Add(30 * time.Second); !has(files[1]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the other server does not go on")
		}
	}
	other.stop()
	exported(t, "acme", fingerprint, n, files...)
}

// named is a destination under another name.
type named struct {
	*export.File
	name string
}

func (n named) String() string { return n.name }
func (n named) ID() string     { return n.name }

func exportingAs(name, path string) func(*server.Config) {
	return func(c *server.Config) { c.Export = &jobs.Export{Destination: named{export.NewFile(path), name}} }
}
