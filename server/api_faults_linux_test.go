package server_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store/storetest"
)

// watched is a server with metrics.
type watched struct {
	*service
	metrics string
}

func watch(t testing.TB, path string, change ...func(*server.Config)) watched {
	t.Helper()
	url, with := withMetrics(t)
	return watched{startOn(t, path, cred.Domain{}, append(change, with)...), url}
}

// becomes waits until /readyz and the metrics agree on a state. With a reason the state is
// DEGRADED.
func (w watched) becomes(t testing.TB, state, reason string) {
	t.Helper()
	eventually(t, "the server is "+state+" "+reason, func() bool {
		r := w.anyone().do(t, "GET /readyz", "")
		is := ""
		if r.code == 200 {
			is = map[string]string{"ready": "READY", "degraded": "DEGRADED"}[r.str("status")]
		} else {
			is = r.str("code")
		}
		if is != state || reason != "" && fmt.Sprint(r.at("reasons")) != "["+reason+"]" {
			return false
		}
		series := scrape(t, w.metrics)
		return series[`attestd_readiness{state="`+state+`"}`] == "1" && (reason == "" || series[`attestd_degraded{reason="`+reason+`"}`] == "1")
	})
}

// Each fault turns /readyz and its metrics, and they turn back when it has passed.
func TestFaultsShowInReadinessAndMetrics(t *testing.T) {
	storetest.AboutFile(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T){
		"full disk":      fullDiskShows,
		"database moved": movedDatabaseShows,
		"head file gone": lostHeadFileShows,
		"changed tables": changedTablesShow,
		"witness silent": silentWitnessShows,

		"backup refused":                   refusedBackupShows,
		"certificate ends":                 endingCertificateShows,
		"export refused":                   refusedExportShows,
		"export without folder":            exportWithoutFolderShows,
		"export whose position is damaged": damagedPositionShows,

		"disk below floor": func(t *testing.T) {
			w := watch(t, storetest.New(t), func(c *server.Config) { c.DiskFloor = 1 << 60 })
			w.becomes(t, "DISK_LOW", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault(t)
		})
	}
}

func fullDiskShows(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size=8m"); err != nil {
		testenv.Needs(t, testenv.Root)
		testenv.Missing(t, fmt.Sprintf("a small tmpfs cannot be mounted: %v", err))
	}
	t.Cleanup(func() { must.OK(t, syscall.Unmount(dir, 0)) })
	w := watch(t, filepath.Join(dir, "attestd.db"))
	t.Cleanup(w.stop)
	acme := w.company(t, "acme")
	w.becomes(t, "READY", "")
	free := number(t, scrape(t, w.metrics)["attestd_disk_free_bytes"])
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	payload := `{"agentId":"bot","actionType":"x","payload":"` + string(bytes.Repeat([]byte("x"), 20_000)) + `"}`
	for acme.do(t, "POST /v1/attest", payload).code == 201 {
	}
	w.becomes(t, "NOT_DONE", "")
	series := scrape(t, w.metrics)
	if n := number(t, series[`attestd_transactions_total{outcome="failed"}`]); n < 1 {
		t.Errorf("%v transactions failed", n)
	}
	if n := number(t, series["attestd_disk_free_bytes"]); n > free/4 {
		t.Errorf("%v bytes are free, and were %v", n, free)
	}
	must.OK(t, os.Truncate(ballast, 0))
	must.OK(t, os.Remove(ballast))
	w.becomes(t, "READY", "")
	acme.do(t, "POST /v1/attest", payload).status(201)
}

func movedDatabaseShows(t *testing.T) {
	w := watch(t, storetest.New(t))
	w.company(t, "acme")
	w.becomes(t, "READY", "")
	must.OK(t, os.Rename(w.path, w.path+".moved"))
	w.becomes(t, "FILE_CHANGED", "")
	w.stop()
	must.OK(t, os.Rename(w.path+".moved", w.path))
	watch(t, w.path).becomes(t, "READY", "")
}

func lostHeadFileShows(t *testing.T) {
	w := watch(t, storetest.New(t))
	w.company(t, "acme")
	w.becomes(t, "READY", "")
	heads := storetest.Heads(w.path)
	must.OK(t, os.Remove(heads))
	must.OK(t, os.Mkdir(heads, 0o700))
	w.becomes(t, "DEGRADED", "HEAD_FILE_BEHIND")
	must.OK(t, os.Remove(heads))
	w.becomes(t, "READY", "")
	if _, err := os.Stat(heads); err != nil {
		t.Error(err)
	}
}

func changedTablesShow(t *testing.T) {
	path := storetest.New(t)
	w := watch(t, path)
	acme := w.company(t, "acme")
	acme.agent(t, "bot")
	w.becomes(t, "READY", "")
	w.stop()
	set := func(sql string) { must.OK(t, storetest.Stranger(t, path, sql).Close()) }
	set(`CREATE TABLE kept AS SELECT agent_id, registered_at FROM agent`)
	set(`UPDATE agent SET registered_at = '2020-01-01T00:00:00.000Z' WHERE agent_id = 'bot'`)
	w = watch(t, path)
	w.becomes(t, "DEGRADED", "TABLES_CHANGED")
	eventually(t, "the metrics count the company", func() bool {
		series := scrape(t, w.metrics)
		return series["attestd_companies_tables_changed"] == "1" && series["attestd_verification_failing_companies"] == "1"
	})
	w.stop()
	set(`UPDATE agent SET registered_at = (SELECT registered_at FROM kept WHERE kept.agent_id = agent.agent_id)`)
	set(`DROP TABLE kept`)
	watch(t, path).becomes(t, "READY", "")
}

func silentWitnessShows(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{67}, ed25519.SeedSize))
	var silent atomic.Bool
	silent.Store(true)
	// a witness that answers does not know the logs, which is no alarm
	at := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusNotFound}[silent.Load()])
	}))
	defer at.Close()
	client, err := witness.NewClient(at.URL, tlog.VKey{Name: "silent.example", Type: tlog.TypeCosignature, Public: key.Public().(ed25519.PublicKey)})
	must.OK(t, err)
	w := watch(t, storetest.New(t), func(c *server.Config) {
		c.Witnesses, c.PublishEvery = []*witness.Client{client}, time.Millisecond
	})
	defer w.stop()
	acme := w.company(t, "acme")
	w.becomes(t, "DEGRADED", "WITNESS_SILENT")
	if n := scrape(t, w.metrics)[`attestd_witness_unreachable{witness="silent.example"}`]; n != "1" {
		t.Errorf("unreachable is %s", n)
	}
	silent.Store(false)
	acme.attestMany(t, 1)
	w.becomes(t, "READY", "")
	series := scrape(t, w.metrics)
	if series[`attestd_witness_unreachable{witness="silent.example"}`] != "0" || number(t, series[`attestd_witness_answered_timestamp_seconds{witness="silent.example"}`]) == 0 {
		t.Errorf("after it has answered: %v", series[`attestd_witness_unreachable{witness="silent.example"}`])
	}
}
