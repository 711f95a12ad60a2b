package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// exporterFolder has the stock exporters of npm, and the program that uses them.
func exporterFolder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/otlp")
	must.OK(t, err)
	if _, err := os.Stat(dir + "/node_modules"); err != nil {
		testenv.Missing(t, "there are no exporters: npm ci --prefix test/testdata/otlp --ignore-scripts")
	}
	return dir
}

// documentedExports are the lines of docs/agents/telemetry.md that put an instrumented agent on
// record.
func documentedExports(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/agents/telemetry.md")
	must.OK(t, err)
	block := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil || !strings.Contains(block[1], "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Fatal("docs/agents/telemetry.md does not say how an instrumented agent is put on record")
	}
	return block[1]
}

// exports runs the stock exporter of a signal in an encoding, with the variables of
// docs/agents/telemetry.md. acknowledged is called with the items that it says are acknowledged.
func exports(t *testing.T, c *client, signal, encoding string, batches string, acknowledged func(items []string)) error {
	script := documentedExports(t) + `exec "$0" export.mjs "$@"`
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-c", script, testenv.Path(t, "node"), signal, encoding, batches)
	cmd.Dir = exporterFolder(t)
	cmd.Env = append(os.Environ(), "ATTESTD_URL="+c.url, "ATTESTD_KEY="+c.key, "OTEL_SERVICE_NAME=travel-bot", "OTEL_EXPORTER_OTLP_COMPRESSION="+map[string]string{"json": "gzip", "protobuf": "none"}[encoding])
	var output bytes.Buffer
	cmd.Stderr = &output
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		acknowledged(strings.Fields(lines.Text()))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the exporter of %s as %s: %v\n%s", signal, encoding, err, tail(output.String(), 3000))
	}
	return nil
}

// The stock exporters of npm, of both signals and in both encodings, put every item on record that
// they say is acknowledged, exactly once, while the server is killed and started again. They need
// the variables of docs/agents/telemetry.md and nothing else.
func TestStockExportersSurviveKills(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	testenv.Path(t, "node")
	exporterFolder(t)
	db := storetest.New(t)
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	address := strings.TrimPrefix(s.URL, "http://")

	var mu sync.Mutex
	acked := map[string]int{}
	progress := make(chan int, 1000)
	var running sync.WaitGroup
	for _, signal := range []string{"traces", "logs"} {
		for _, encoding := range []string{"json", "protobuf"} {
			running.Go(func() {
				err := exports(t, c, signal, encoding, "150", func(items []string) {
					mu.Lock()
					for _, item := range items {
						acked[item]++
					}
					mu.Unlock()
					progress <- len(items)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	go func() { running.Wait(); close(progress) }()
	const all = 4 * 150 * 20
	total, kills := 0, 0
	deadline := time.After(4 * patience)
	for ended := false; !ended; {
		select {
		case n, more := <-progress:
			total, ended = total+n, !more
			if rounds := testenv.Rounds(4, 8); kills < rounds && total >= (kills+1)*all/(rounds+1) {
				kills++
				must.OK(t, s.kill())
				s = serve(t, db, "--rate-limits", "off", "--listen", address)
			}
		case <-deadline:
			t.Fatal("the exporters have come to a halt")
		}
	}
	c = c.at(s)
	recorded := map[string]int{}
	for _, item := range telemetryOf(t, c) {
		recorded[item]++
	}
	if len(acked) != all || kills < 4 {
		t.Errorf("%d items are acknowledged, of %d; the server was killed %d times", len(acked), all, kills)
	}
	for item, n := range acked {
		if n != 1 || recorded[item] != 1 {
			t.Errorf("%s: acknowledged %d times, recorded %d times", item, n, recorded[item])
		}
	}
	if len(recorded) != len(acked) {
		t.Errorf("%d items are recorded, and %d acknowledged", len(recorded), len(acked))
	}
}

// telemetryOf returns the items on record, by the attribute that numbers them, and demands that
// they say what they are.
func telemetryOf(t *testing.T, c *client) (items []string) {
	t.Helper()
	var list struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType string
				Payload             struct {
					Source, Tool string
					Attributes   map[string]json.RawMessage
				}
			}
		}
	}
	c.call(t, 200, "GET", "/v1/chain", "", &list)
	for _, r := range list.Records {
		what := r.Payload.Payload
		var n string
		must.OK(t, json.Unmarshal(what.Attributes["n"], &n))
		action := map[bool]string{true: "otel.tool", false: "otel.event"}[strings.HasPrefix(n, "traces")]
		if r.Payload.AgentID != "travel-bot" || r.Payload.ActionType != action || what.Source != "otlp" || what.Tool != "search" ||
			!strings.HasPrefix(string(what.Attributes["gen_ai.tool.call.arguments"]), `{"sha256":"`) {
			t.Fatalf("%+v", r)
		}
		items = append(items, n)
	}
	return items
}
