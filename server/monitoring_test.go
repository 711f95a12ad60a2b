package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/local"
	"attestd/store/admin/backups"
	"attestd/store/ledger"
)

const monitoring = "../docs/monitoring"

// metricName finds names of metrics in an expression, with the parts of histograms.
var metricName = regexp.MustCompile(`\b(?:attestd|go|process)_[a-z0-9_]+\b`)

// ofHistogram are the parts of a histogram.
var ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)

// expressions returns the expressions of the dashboard and of the alert rules.
func expressions(t testing.TB) (list []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(monitoring + "/grafana.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	rules, err := os.ReadFile(monitoring + "/alerts.yaml")
	must.OK(t, err)
	for line := range strings.Lines(string(rules)) {
		if _, expr, is := strings.Cut(line, "expr: "); is {
			list = append(list, expr)
		}
	}
	if len(list) < 40 {
		t.Fatalf("only %d expressions were found", len(list))
	}
	return list
}

// scraped are the series of a server that has a bit of everything.
func scraped(t *testing.T) map[string]string {
	t.Helper()
	url, change := withMetrics(t)
	silent := newLiar(t, lie{status: 503}, "")
	folder := t.TempDir()
	s := startTLS(t, change, silent.asking(t), exporting(filepath.Join(folder, "lines.ndjson")), func(c *server.Config) {
		c.Quotas = ledger.Quotas{Companies: 1000}
		c.Backups = &backups.Schedule{To: folder, Every: time.Hour, Log: c.Log,
			Newest: func(context.Context) (time.Time, error) { return time.Now(), nil }}
		c.Local = &local.Server{Operations: local.Operations{Store: c.Store}, Log: c.Log}
		must.OK(t, c.Local.Listen(filepath.Join(folder, "attestd.db")))
	})
	s.company(t, "acme").attestMany(t, 1)
	var series map[string]string
	eventually(t, "this server has its duties, and has counted the companies", func() bool {
		series = scrape(t, url)
		for _, name := range []string{`attestd_duty_held{duty="webhooks"}`, "attestd_export_lag_seconds", "attestd_companies"} {
			if _, has := series[name]; !has {
				return false
			}
		}
		return true
	})
	return series
}

// Each metric that the dashboard and the alert rules name is in a scrape, and each metric of a
// scrape is in the table of docs/operate/monitoring.md, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	is := families(scraped(t))
	for _, expr := range expressions(t) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !is[name] && !is[ofHistogram.ReplaceAllString(name, "")] {
				t.Errorf("%s is not in a scrape: %s", name, expr)
			}
		}
	}
	page, err := os.ReadFile("../docs/operate/monitoring.md")
	must.OK(t, err)
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(attestd_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = true
		if !is[row[1]] {
			t.Errorf("docs/operate/monitoring.md has %s, which is not in a scrape", row[1])
		}
	}
	for name := range is {
		if strings.HasPrefix(name, "attestd_") && !documented[name] {
			t.Errorf("%s is not in docs/operate/monitoring.md", name)
		}
	}
}

// A real Prometheus loads the configuration and the rules, scrapes a server, and answers every
// expression of the dashboard; promtool accepts the rules and what they do.
func TestPrometheusLoadsRulesAndDashboard(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.Hours, testenv.Program("prometheus"), testenv.Program("promtool"))
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}, {"check", "config", "prometheus.yaml"}} {
		cmd := exec.Command(testenv.Path(t, "promtool"), args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var tests strings.Builder
	for i, expr := range expressions(t) {
		expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(strings.TrimSpace(expr))
		quoted, err := json.Marshal(expr)
		must.OK(t, err)
		fmt.Fprintf(&tests, "      - {record: 'attestd:expression:%d', expr: %s}\n", i, quoted)
	}
	file := filepath.Join(t.TempDir(), "expressions.yaml")
	must.OK(t, os.WriteFile(file, []byte("groups:\n  - name: expressions\n    rules:\n"+tests.String()), 0o600))
	if out, err := exec.Command(testenv.Path(t, "promtool"), "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("an expression: %v\n%s", err, out)
	}
	watchedByPrometheus(t)
}

// watchedByPrometheus has a Prometheus scrape a server that is not ready, and waits for its answers
// and its alert.
func watchedByPrometheus(t *testing.T) {
	t.Helper()
	url, change := withMetrics(t)
	s := start(t, change, func(c *server.Config) { c.DiskFloor = 1 << 60 })
	s.company(t, "acme").attestMany(t, 1)
	folder := t.TempDir()
	config, err := os.ReadFile(monitoring + "/prometheus.yaml")
	must.OK(t, err)
	rules, err := filepath.Abs(monitoring + "/alerts.yaml")
	must.OK(t, err)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	text := strings.NewReplacer("127.0.0.1:9464", host, "alerts.yaml", rules, "scrape_interval: 15s",
		"scrape_interval: 1s\n  evaluation_interval: 1s").Replace(string(config))
	must.OK(t, os.WriteFile(filepath.Join(folder, "prometheus.yaml"), []byte(text), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := free.Addr().String()
	must.OK(t, free.Close())
	cmd := exec.Command(testenv.Path(t, "prometheus"), "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("Prometheus: %s", log.String())
		}
	})
	ask := func(path string) string {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			return ""
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		return string(answer)
	}
	eventually(t, "Prometheus has scraped the server", func() bool {
		return strings.Contains(ask("/api/v1/query?query=attestd_records_total"), `"__name__":"attestd_records_total"`)
	})
	eventually(t, "the alert is on its way", func() bool {
		answer := ask("/api/v1/alerts")
		return strings.Contains(answer, `"alertname":"AttestdNotReady"`) && strings.Contains(answer, `"state":"DISK_LOW"`)
	})
	for _, expr := range expressions(t) {
		expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(strings.TrimSpace(expr))
		if answer := ask("/api/v1/query?query=" + neturl.QueryEscape(expr)); !strings.HasPrefix(answer, `{"status":"success"`) {
			t.Errorf("%s: %s", expr, answer)
		}
	}
}
