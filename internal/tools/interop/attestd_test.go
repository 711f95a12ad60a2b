// Package interop tests our logs with other projects' tools: Tessera's fsck, torchwood, and the
// witness litewitness; and our tokens with go-oidc, hashicorp/cap, x/oauth2 and go-spiffe. It is in
// a separate module, so that their dependencies are not attestd's.
package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/internal/harness"
	"attestd/internal/must"
)

// patience bounds every wait for a process.
const patience = time.Minute

// bin has attestd and the other tools, built by TestMain.
var bin string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "attestd-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	// the tools in go.mod
	if out, err := exec.Command("go", "build", "-o", dir+"/", "tool").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build tool: %v\n%s", err, out)
		return 1
	}
	if err := harness.Build(context.Background(), filepath.Join(dir, "attestd")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// run starts a program in bin until the end of the test, and returns the text after the marker in
// its output.
func run(t *testing.T, marker, name string, args ...string) string {
	t.Helper()
	output, _ := start(t, marker, name, args...)
	return output
}

// start is run with a function that ends the program before the test ends.
func start(t *testing.T, marker, name string, args ...string) (output string, stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, name), args...)
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	found := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// read to the end, because a full pipe would block the program
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if _, rest, ok := strings.Cut(lines.Text(), marker); ok && len(found) == 0 {
				found <- rest
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s has ended before the test: %v", name, err)
		}
		<-ended
		_ = cmd.Wait() // some end with an error after an interrupt
	})
	t.Cleanup(stop)
	select {
	case rest := <-found:
		return rest, stop
	case <-ended:
		t.Fatalf("%s ended at once", name)
	case <-time.After(patience):
		t.Fatalf("%s does not say %q", name, marker)
	}
	return "", nil
}

// serve starts attestd on the database at path, and returns its URL.
func serve(t *testing.T, path string, args ...string) (base string, stop func()) {
	t.Helper()
	listens, stop := start(t, "listens on ", "attestd", append([]string{"serve", "--listen", "127.0.0.1:0", "--db", path, "--rate-limits", "off"}, args...)...)
	return strings.Fields(listens)[0], stop
}

// company is a company on its own server, with its action log.
type company struct {
	client *http.Client
	path   string // of the database
	base   string // of the server
	stop   func() // ends the server
	key    string
	log    struct {
		LogID, Origin string
		VKeys         []string
		Size          int64
	}
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{path: filepath.Join(t.TempDir(), "attestd.db"), client: &http.Client{
		Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: writers}}}
	c.base, c.stop = serve(t, c.path)
	t.Cleanup(c.client.CloseIdleConnections)
	var made struct{ APIKey string }
	c.ask(t, "POST", "/v1/companies", `{"companyId":"acme"}`, &made)
	c.key = made.APIKey
	c.look(t)
	return c
}

func (c *company) do(method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return text, err
}

func (c *company) ask(t *testing.T, method, path, body string, dest any) {
	t.Helper()
	text, err := c.do(method, path, body)
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, dest))
}

// look reads the current state of the log.
func (c *company) look(t *testing.T) {
	t.Helper()
	var list struct {
		Logs []json.RawMessage
	}
	c.ask(t, "GET", "/v1/logs", "", &list)
	must.OK(t, json.Unmarshal(list.Logs[0], &c.log))
}

// rotate gives the company a new key, which signs the log from then on. Former keys remain listed,
// unless they are compromised.
func (c *company) rotate(t *testing.T, compromised bool) {
	t.Helper()
	var rotated struct{ Index int64 }
	c.ask(t, "POST", "/v1/companies/rotate-keys", fmt.Sprintf(`{"compromised":%v}`, compromised), &rotated)
	former := c.log.VKeys
	if compromised {
		former = nil
	}
	c.log.VKeys = nil
	c.look(t)
	if rotated.Index != c.log.Size || !slices.Equal(c.log.VKeys[1:], former) || slices.Contains(former, c.log.VKeys[0]) {
		t.Fatalf("rotated at %d of %d: %q after %q", rotated.Index, c.log.Size, c.log.VKeys, former)
	}
}

// url returns the URL of the log for tools.
func (c *company) url() string { return c.base + "/v1/log/" + c.log.LogID }

// checkpoint downloads the newest checkpoint and checks that it covers all records.
func (c *company) checkpoint(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		text, err := c.do("GET", "/v1/log/"+c.log.LogID+"/checkpoint", "")
		must.OK(t, err)
		lines := strings.Split(string(text), "\n")
		if lines[1] == fmt.Sprint(c.log.Size) {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the checkpoint is of size %s, the log of %d", lines[1], c.log.Size)
		}
	}
}

// writers is the number of concurrent writers.
const writers = 32

// grow attests until the log has size records.
func (c *company) grow(t *testing.T, size int64) {
	t.Helper()
	var left atomic.Int64
	left.Store(size - c.log.Size)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := c.do("POST", "/v1/attest", `{"agentId":"deploy-bot","actionType":"deploy","payload":{"to":"production"}}`); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	c.look(t)
	if c.log.Size != size {
		t.Fatalf("the log has %d records, not %d", c.log.Size, size)
	}
}

// signed returns a policy that trusts signatures by any of the log's keys.
func (c *company) signed(t *testing.T) torchwood.Policy {
	t.Helper()
	var keys []torchwood.Policy
	for _, vkey := range c.log.VKeys {
		v, err := note.NewVerifier(vkey)
		must.OK(t, err)
		keys = append(keys, torchwood.SingleVerifierPolicy(v))
	}
	return torchwood.ThresholdPolicy(1, keys...)
}

// policy returns a policy that requires the log and all of the witnesses.
func (c *company) policy(t *testing.T, witnesses ...note.Verifier) torchwood.Policy {
	t.Helper()
	all := []torchwood.Policy{torchwood.OriginPolicy(c.log.Origin), c.signed(t)}
	for _, w := range witnesses {
		all = append(all, torchwood.SingleVerifierPolicy(w))
	}
	return torchwood.ThresholdPolicy(len(all), all...)
}
