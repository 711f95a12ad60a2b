package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"attestd/server/export"
	"attestd/server/metrics"
)

// Before the export has looked at the logs it is unknown how far behind it is, and metrics say
// nothing of that: a zero would look like an answer.
func TestExportIsNotMeasuredBeforeItsFirstLook(t *testing.T) {
	t.Parallel()
	to := export.NewFile("lines")
	m := metrics.New("1.0.0")
	m.Add(exportValues(export.New(export.Config{Destination: to}).Status)...)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	shown := answer.Body.String()
	for _, name := range []string{"attestd_export_behind_records", "attestd_export_lag_seconds", "attestd_export_stopped_logs"} {
		if strings.Contains(shown, "\n"+name+" ") {
			t.Errorf("%s has a series:\n%s", name, shown)
		}
	}
	if !strings.Contains(shown, "\nattestd_export_delivered_lines_total 0\n") {
		t.Errorf("what is known is not shown:\n%s", shown)
	}
}
