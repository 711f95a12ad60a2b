package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Lines by the Elastic Common Schema have its names, and fields that it has no name for are below
// attestd.
func TestECSLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := logFlags{format: "ecs", level: "info"}
	log := slog.New(f.handler(&out, "1.2.3"))
	log.Debug("not written")
	log.Error("request", "id", "7", "method", "GET", "route", "/v1/health", "status", 500,
		"duration", 3*time.Millisecond, "bytes", 12, "company", "acme", "error", errors.New("disk"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	at, _ := line["@timestamp"].(string)
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil || !strings.HasSuffix(at, "Z") {
		t.Errorf("@timestamp %q", at)
	}
	delete(line, "@timestamp")
	want := map[string]any{
		"log.level": "error", "message": "request", "ecs.version": "8.11.0", "service.name": "attestd", "service.version": "1.2.3",
		"http.request.id": "7", "http.request.method": "GET", "attestd.route": "/v1/health", "http.response.status_code": 500.0,
		"event.duration": 3e6, "http.response.body.bytes": 12.0, "organization.id": "acme", "error.message": "disk",
	}
	for name, value := range want {
		if line[name] != value {
			t.Errorf("%s is %v, want %v", name, line[name], value)
		}
		delete(line, name)
	}
	if len(line) > 0 {
		t.Errorf("also %v", line)
	}
}

// In front of the journal each line begins with its severity, and nothing that a line says makes
// another line.
func TestJournalSeverity(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := logFlags{format: "text", level: "debug", journal: true}
	log := slog.New(f.handler(&out, "1.2.3")).With("part", "x")
	log.Error("a", "text", "two\nlines<0>")
	log.Warn("b")
	log.Info("c")
	log.Debug("d")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, want := range []string{"<3>time=", "<4>time=", "<6>time=", "<7>time="} {
		if len(lines) != 4 || !strings.HasPrefix(lines[i], want) || !strings.Contains(lines[i], "part=x") {
			t.Fatalf("%q", lines)
		}
	}
}

// Only the stream that systemd names is the journal.
func TestJournalStream(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no journal")
	}
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	name, err := deviceAndInode(file)
	if err != nil || !leadsToJournal(file, name) {
		t.Errorf("%s is not the stream: %v", name, err)
	}
	for _, other := range []string{"", ":", "1:2", name + "0"} {
		if leadsToJournal(file, other) {
			t.Errorf("%q is the stream", other)
		}
	}
}

// A log file that is copied and cut off under the server (copytruncate) restarts without a hole.
func TestLogFileRotatesByTruncation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are rotated otherwise")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path) // without O_APPEND, as a shell's 2>log
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	appendOnly(file)
	for range 2 {
		if _, err := file.WriteString("a line\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "a line\n" {
			t.Errorf("%q, %v", text, err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
	}
}
