package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/export"
	"attestd/server/jobs"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// archive makes an archive of a company's records from before a time.
func (s *service) archive(t testing.TB, company, before string) (path string, v lines.Verdict, err error) {
	t.Helper()
	operator := local.Operations{Store: s.store}
	frame, err := operator.Archive(t.Context(), local.Archive{CompanyID: company, Before: before})
	if err != nil {
		return "", v, err
	}
	read, err := store.OpenReadOnly(t.Context(), s.path)
	must.OK(t, err)
	defer read.Close()
	path = filepath.Join(t.TempDir(), "archive.ndjson")
	v, _, err = admin.Archive(t.Context(), read, frame, path, admin.ArchiveOptions{})
	return path, v, err
}

// moment appends until a record is of another moment than the one before it, and returns that, and
// how many actions are from before it.
func (c caller) moment(t testing.TB) (at string, count int) {
	t.Helper()
	for last := ""; ; last = at {
		r := c.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
		if at = r.str("timestamp"); last != "" && at > last {
			return at, int(r.at("index").(float64))
		}
	}
}

// checked is the verdict on an archive.
func checked(t testing.TB, path string, trust evidence.Trust) lines.Verdict {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	v, err := lines.CheckArchive(f, lines.Options{Trust: trust})
	must.OK(t, err)
	return v
}

// records says how many records an archive has of each log.
func records(v lines.Verdict) string {
	var list []string
	for _, l := range v.Logs {
		list = append(list, fmt.Sprintf("%s %d-%d", l.Log, l.First, l.Next))
	}
	return strings.Join(list, ", ")
}

// An archive holds while the server appends, has what was recorded before its moment, and says of
// both logs what continues it. It is not of another company.
func TestArchiveDuringAppends(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	zoo.attestMany(t, 3)
	acme.attestMany(t, 300)
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)
	acme.attestMany(t, 20)
	before, count := acme.moment(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		acme.attestMany(t, 50)
	}()
	path, made, err := s.archive(t, "acme", before)
	must.OK(t, err)
	<-done
	fingerprint := s.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").status(200).str("fingerprint")
	v := checked(t, path, evidence.Trust{Fingerprint: fingerprint})
	if v.Outcome != evidence.Holds || v.Archive.SHA256 != made.Archive.SHA256 || !strings.HasSuffix(records(v), fmt.Sprintf("actions 0-%d", count)) {
		t.Errorf("%+v", v)
	}
	other := s.anyone().do(t, "GET /v1/ca/public-key?companyId=zoo", "").status(200).str("fingerprint")
	if v := checked(t, path, evidence.Trust{Fingerprint: other}); v.Code != evidence.KeyUntrusted {
		t.Errorf("with the key of another company: %+v", v)
	}
	text, err := os.ReadFile(path)
	must.OK(t, err)
	if strings.Contains(string(text), `"companyId":"zoo"`) {
		t.Error("records of another company are in it")
	}
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
}

// A policy whose witnesses have cosigned a later tree accepts an archive, also when the newest tree
// is not cosigned.
func TestArchiveIsConfirmedByWitnesses(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	first := startOn(t, path, cred.Domain{})
	acme := first.company(t, "acme")
	acme.attestMany(t, 3)
	actions, control := acme.actions(t), acme.logNamed(t, "control")
	first.stop()
	w := start(t, cosigning(t, "log "+actions.VKeys[0], "log "+control.VKeys[0]))
	policy, err := tlog.ParsePolicy([]byte("log " + actions.VKeys[0] + "\nwitness w " + w.vkey(t).String() + "\nquorum w\n"))
	must.OK(t, err)
	trust := evidence.Trust{Policy: policy}
	s := startOn(t, path, cred.Domain{}, asking(t, w))
	acme.service = s
	before, count := acme.moment(t)
	for _, l := range []logged{acme.actions(t), acme.logNamed(t, "control")} {
		eventually(t, "the witness has cosigned "+l.Origin, func() bool {
			note := acme.do(t, "GET /v1/log/"+l.LogID+"/checkpoint", "").status(200).raw
			c, _, err := tlog.ParseSignedCheckpoint(note)
			must.OK(t, err)
			return c.Size >= l.Size && strings.Count(string(note), "\n") > 5
		})
	}
	w.stop()
	later, _ := acme.moment(t)
	made, _, err := s.archive(t, "acme", before)
	must.OK(t, err)
	v := checked(t, made, trust)
	dbg, _ := os.ReadFile(made)
	for _, l := range strings.Split(string(dbg), "\n") {
		if !strings.Contains(l, `"type":"record"`) {
			t.Log(l)
		}
	}

	if v.Outcome != evidence.Holds || !strings.HasSuffix(records(v), fmt.Sprintf("actions 0-%d", count)) {
		t.Errorf("%+v", v)
	}
	// but not what no witness has seen
	made, _, err = s.archive(t, "acme", later)
	must.OK(t, err)
	if v := checked(t, made, trust); v.Code != lines.Uncovered {
		t.Errorf("%+v", v)
	}
}

// A record that was changed or removed on disk is found when the archive is read back, and no
// archive is made. One that was changed after the moment is not in it.
func TestArchiveOfADamagedLog(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	for _, test := range []struct{ name, change, code string }{
		{"payload", `UPDATE record SET payload = replace(payload, '"n":1', '"n":7') WHERE id = (1 << 40) + 1`, "RECORD"},
		{"signature", `UPDATE record SET signature = zeroblob(64) WHERE id = (1 << 40) + 1`, "RECORD"},
		{"removed", `DELETE FROM record WHERE id = (1 << 40) + 1`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			acme := s.company(t, "acme")
			for n := range 3 {
				acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"x","payload":{"n":%d}}`, n)).status(201)
			}
			before, _ := acme.moment(t)
			operator := local.Operations{Store: s.store}
			frame, err := operator.Archive(t.Context(), local.Archive{CompanyID: "acme", Before: before})
			must.OK(t, err)
			stranger := storetest.Stranger(t, s.path, "DROP TRIGGER record_no_update; DROP TRIGGER record_no_delete; "+test.change)
			must.OK(t, stranger.Close())
			read, err := store.OpenReadOnly(t.Context(), s.path)
			must.OK(t, err)
			defer read.Close()
			folder := t.TempDir()
			v, _, err := admin.Archive(t.Context(), read, frame, filepath.Join(folder, "a"), admin.ArchiveOptions{})
			invalid := (*store.VerifyError)(nil)
			if test.code == "" {
				if !errors.As(err, &invalid) || invalid.Index != 1 {
					t.Errorf("%v", err)
				}
			} else if err != nil || v.Outcome != evidence.Fails || string(v.Code) != test.code {
				t.Errorf("%+v, %v", v, err)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}

// reluctant is a destination that acknowledges nothing until it is released.
type reluctant struct {
	*export.File
	released chan struct{}
}

func (r reluctant) Deliver(ctx context.Context, b *export.Batch) error {
	select {
	case <-r.released:
		return r.File.Deliver(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A prune asks the server's own export: what its receiver has not acknowledged stays. Without a
// server, each export that ever was on is held against it, unless the operator says otherwise.
func TestPruneWaitsForTheExport(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	to := reluctant{export.NewFile(filepath.Join(t.TempDir(), "lines")), make(chan struct{})}
	var second *local.Server
	s := start(t, func(c *server.Config) {
		c.Export = &jobs.Export{Destination: to}
		c.Local = &local.Server{Operations: local.Operations{Store: c.Store}, Log: c.Log}
		second = c.Local
	})
	acme := s.company(t, "acme")
	at, _ := acme.moment(t)
	path, _, err := s.archive(t, "acme", at)
	must.OK(t, err)
	prune := func(o *local.Operations) error {
		t.Helper()
		f, err := os.Open(path)
		must.OK(t, err)
		defer f.Close()
		err = o.BeginPrune(t.Context(), local.Prune{CompanyID: "acme"}, f)
		if !errors.Is(err, store.ErrNotPrunable) {
			t.Fatalf("a prune of young records: %v", err)
		}
		return err
	}
	const waits, young = "the export has not acknowledged records from 0 on", "is not a day old"
	if err := prune(&second.Operations); !strings.Contains(err.Error(), waits) {
		t.Errorf("before the export has sent anything: %v", err)
	}
	close(to.released)
	eventually(t, "the export holds nothing back", func() bool { return strings.Contains(prune(&second.Operations).Error(), young) })

	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	must.OK(t, s.store.SaveExportPositions(t.Context(), nil, "of another receiver", map[int64]string{company.Actions.Chain: ""}))
	if err := prune(&second.Operations); !strings.Contains(err.Error(), young) {
		t.Errorf("another export, which this server does not serve: %v", err)
	}
	if err := prune(&local.Operations{Store: s.store}); !strings.Contains(err.Error(), "--ignore-exports") {
		t.Errorf("without a server: %v", err)
	}
	if err := prune(&local.Operations{Store: s.store, IgnoreExports: true}); !strings.Contains(err.Error(), young) {
		t.Errorf("without a server, and the export is no more: %v", err)
	}
}
