package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/export"
	"attestd/server/jobs"
	"attestd/server/local"
	"attestd/store/admin/backups"
	"attestd/store/ledger"
	"attestd/store/storetest"
)

// backedUp makes a server back up into a folder, with a real backup each time.
func backedUp(t testing.TB, path, folder string, every time.Duration) func(*server.Config) {
	t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	return func(c *server.Config) {
		c.Backups = &backups.Schedule{To: folder, Every: every, Log: c.Log,
			Newest: func(context.Context) (time.Time, error) { return time.Time{}, nil },
			Make: func(ctx context.Context) (m backups.Made, err error) {
				place, err := backups.OpenFolder(folder)
				if err != nil {
					return m, err
				}
				return backups.Make(ctx, path, place, backups.Options{Schema: string(schema), Temp: t.TempDir(),
					Heads: storetest.Heads(path), Keep: 2, At: time.Now()})
			}}
	}
}

func refusedBackupShows(t *testing.T) {
	path, folder := storetest.New(t), filepath.Join(t.TempDir(), "backups")
	must.OK(t, os.WriteFile(folder, nil, 0o600)) // no folder
	w := watch(t, path, backedUp(t, path, folder, 200*time.Millisecond))
	defer w.stop()
	w.company(t, "acme")
	w.becomes(t, "DEGRADED", "BACKUP_OVERDUE")
	series := scrape(t, w.metrics)
	if series["attestd_backup_overdue"] != "1" || number(t, series["attestd_backup_failures"]) < 1 || series["attestd_backup_timestamp_seconds"] != "0" {
		t.Errorf("overdue %s, failures %s, at %s", series["attestd_backup_overdue"], series["attestd_backup_failures"],
			series["attestd_backup_timestamp_seconds"])
	}
	must.OK(t, os.Remove(folder))
	must.OK(t, os.Mkdir(folder, 0o700))
	w.becomes(t, "READY", "")
	series = scrape(t, w.metrics)
	if series["attestd_backup_overdue"] != "0" || series["attestd_backup_failures"] != "0" || number(t, series["attestd_backup_bytes"]) <= 0 || number(t, series["attestd_backup_duration_seconds"]) <= 0 {
		t.Errorf("after a backup: %s, %s, %s", series["attestd_backup_overdue"], series["attestd_backup_failures"],
			series["attestd_backup_bytes"])
	}
	if at := number(t, series["attestd_backup_timestamp_seconds"]); time.Since(time.UnixMilli(int64(at*1000))) > time.Minute {
		t.Errorf("the newest backup is of %v", at)
	}
}

func refusedExportShows(t *testing.T) {
	var refuses atomic.Bool
	refuses.Store(true)
	at := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer at.Close()
	receiver, err := export.NewHTTPS(at.URL, export.FormLines, "", &tls.Config{})
	must.OK(t, err)
	exportShows(t, receiver, func() { refuses.Store(false) })
}

func exportWithoutFolderShows(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "lines")
	exportShows(t, export.NewFile(filepath.Join(folder, "lines.ndjson")), func() { must.OK(t, os.Mkdir(folder, 0o700)) })
}

// exportShows demands that an export shows that it is behind until its destination is mended.
func exportShows(t *testing.T, to export.Destination, mend func()) {
	t.Helper()
	w := watch(t, storetest.New(t), func(c *server.Config) { c.Export = &jobs.Export{Destination: to, BehindAfter: time.Millisecond} })
	defer w.stop()
	w.company(t, "acme").attestMany(t, 3)
	w.becomes(t, "DEGRADED", "EXPORT_BEHIND")
	eventually(t, "the metrics say so", func() bool {
		series := scrape(t, w.metrics)
		return number(t, series["attestd_export_behind_records"]) >= 3 && number(t, series["attestd_export_failures"]) >= 1 &&
			number(t, series["attestd_export_lag_seconds"]) > 0 && series["attestd_export_delivered_lines_total"] == "0"
	})
	mend()
	w.becomes(t, "READY", "")
	series := scrape(t, w.metrics)
	if number(t, series["attestd_export_delivered_lines_total"]) < 3 || series["attestd_export_failures"] != "0" || series["attestd_export_behind_records"] != "0" ||
		series["attestd_export_lag_seconds"] != "0" || series["attestd_export_stopped_logs"] != "0" {
		t.Errorf("after it was mended: %v", series)
	}
}

// strangeCursor is a position of an export that no version has written.
const strangeCursor = `UPDATE setting SET value = '{' WHERE name LIKE 'export %'`

func damagedPositionShows(t *testing.T) {
	path, file := storetest.New(t), filepath.Join(t.TempDir(), "lines.ndjson")
	w := watch(t, path, exporting(file))
	acme := w.company(t, "acme")
	fingerprint := w.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").status(200).str("fingerprint")
	acme.attestMany(t, 1)
	exported(t, "acme", fingerprint, 1, file)
	w.stop()
	must.OK(t, storetest.Stranger(t, path, strangeCursor).Close())
	w = watch(t, path, exporting(file), func(c *server.Config) { c.Export.BehindAfter = time.Millisecond })
	defer w.stop()
	w.becomes(t, "DEGRADED", "EXPORT_BEHIND")
	if n := number(t, scrape(t, w.metrics)["attestd_export_stopped_logs"]); n < 1 {
		t.Errorf("%v logs are stopped", n)
	}
}

func endingCertificateShows(t *testing.T) {
	s, url := startTLSWithMetrics(t)
	w := watched{s.service, url}
	w.becomes(t, "READY", "")
	key, err := os.ReadFile(s.key)
	must.OK(t, err)
	must.OK(t, os.WriteFile(s.key, []byte("no key"), 0o600))
	w.becomes(t, "DEGRADED", "CERTIFICATE_ENDS")
	if n := scrape(t, url)["attestd_certificate_failing"]; n != "1" {
		t.Errorf("failing is %s", n)
	}
	must.OK(t, os.WriteFile(s.key, key, 0o600))
	w.becomes(t, "READY", "")

	end := time.Now().Add(6 * 24 * time.Hour)
	cert, key := s.ca.Server(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = end.AddDate(0, 0, -90), end })
	must.OK(t, os.WriteFile(s.cert, cert, 0o600))
	must.OK(t, os.WriteFile(s.key, key, 0o600))
	// between the two files the pair does not match, which is degraded for the same reason
	eventually(t, "the new certificate is measured", func() bool {
		series := scrape(t, url)
		return int64(number(t, series["attestd_certificate_not_after_timestamp_seconds"])) == end.Unix() && series["attestd_certificate_failing"] == "0"
	})
	w.becomes(t, "DEGRADED", "CERTIFICATE_ENDS")
	s.install(t, s.ca)
	w.becomes(t, "READY", "")
}

func startTLSWithMetrics(t testing.TB, change ...func(*server.Config)) (*secure, string) {
	t.Helper()
	url, with := withMetrics(t)
	return startTLS(t, append(change, with)...), url
}

// Companies and quotas are counted for metrics, those that are suspended too, and so is what quotas
// and suspensions refuse.
func TestCompaniesAndQuotasAreMeasured(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url, with := withMetrics(t)
	s, operator := startLocal(t, with, func(c *server.Config) { c.Quotas = ledger.Quotas{Records: 2, AllRecords: 1000, Companies: 10} })
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	acme.attestMany(t, 2)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(507)
	if _, err := operator.Suspend(t.Context(), local.Decision{CompanyID: "zoo", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	zoo.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(403)
	var series map[string]string
	eventually(t, "the suspended company is counted", func() bool {
		series = scrape(t, url)
		return series["attestd_companies_suspended"] == "1"
	})
	for name, want := range map[string]string{
		"attestd_companies": "2", `attestd_quota_used{quota="companies"}`: "2", `attestd_quota_size{quota="companies"}`: "10",
		`attestd_quota_size{quota="records"}`: "2", `attestd_quota_size{quota="total-records"}`: "1000", `attestd_quota_size{quota="bytes"}`: "",
		`attestd_company_refusals_total{reason="quota"}`: "1", `attestd_company_refusals_total{reason="suspended"}`: "1",
		`attestd_socket_requests_total{outcome="refused"}`: "0",
	} {
		if series[name] != want {
			t.Errorf("%s is %q, want %q", name, series[name], want)
		}
	}
	if used := number(t, series[`attestd_quota_used{quota="total-records"}`]); used < 6 || used > 100 {
		t.Errorf("%v records are used", used)
	}
	if n := number(t, series[`attestd_socket_requests_total{outcome="served"}`]); n < 1 {
		t.Errorf("%v requests at the socket", n)
	}
}

// What is off has no metrics: an alert about it can never be due, nor a panel show a zero.
func TestFeaturesThatAreOffHaveNoMetrics(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url, with := withMetrics(t)
	s := start(t, with)
	s.company(t, "acme").attestMany(t, 1)
	for name := range scrape(t, url) {
		for _, off := range []string{"attestd_backup_", "attestd_certificate_", "attestd_export_", "attestd_socket_", "attestd_quota_size"} {
			if strings.HasPrefix(name, off) {
				t.Errorf("%s, and the feature is off", name)
			}
		}
	}
}

// errHostile has details that no outsider may read.
var errHostile = errors.New("s3://bucket-of-secrets/prefix: access denied to AKIA-of-secrets")

// What /readyz and the metrics say of backups names no place and no reason.
func TestBackupsInReadinessNameNoPlace(t *testing.T) {
	storetest.AboutFile(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	w := watch(t, storetest.New(t), func(c *server.Config) {
		c.Backups = &backups.Schedule{To: "s3://bucket-of-secrets", Every: time.Millisecond, Log: c.Log,
			Newest: func(context.Context) (time.Time, error) { return time.Time{}, errHostile },
			Make:   func(context.Context) (m backups.Made, err error) { return m, errHostile }}
	})
	w.becomes(t, "DEGRADED", "BACKUP_OVERDUE")
	series, err := json.Marshal(scrape(t, w.metrics))
	must.OK(t, err)
	for _, text := range []string{string(series), string(w.anyone().do(t, "GET /readyz", "").raw)} {
		if strings.Contains(text, "of-secrets") {
			t.Errorf("said: %s", text)
		}
	}
}
