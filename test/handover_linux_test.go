package test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"attestd/chain/lines"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server that is halted while it exports and delivers loses its duties to another one, and wakes
// when that one has gone on. Whatever it had on its way arrives late, and nothing is spoilt: the
// lines hold with all records, each webhook message comes at least once and in order, no progress
// in the database goes back, no verification finds anything, and what an endpoint answers to the
// halted server alone does not end a webhook that the other one serves.
func TestHaltedServerHandsOver(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.PostgreSQL, testenv.NotRaced)
	t.Parallel()
	for _, to := range []string{"file", "https", "syslog"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			handOver(t, to, testenv.Rounds(2, 12))
		})
	}
}

func handOver(t *testing.T, to string, rounds int) {
	db, received := storetest.Shared(t), newReceived(t)
	hooks := newHookLog(t)
	flags := append(received.listen(to), "--rate-limits", "off", "--webhooks-allow-private")
	holder := serve(t, db, flags...)
	c := holder.register(t, "acme")
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	c.call(t, 201, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q,"actions":["told.*"]}`, hooks.URL), nil)
	trap := newTrap(t)
	c.call(t, 201, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q,"actions":["told.*"]}`, trap.URL), nil)
	other := serve(t, db, flags...)
	direct, err := sql.Open("pgx", db)
	must.OK(t, err)
	t.Cleanup(func() { direct.Close() })
	had := func(holder string) (duties int) {
		must.OK(t, direct.QueryRow(`SELECT count(*) FROM duty WHERE holder = $1`, holder).Scan(&duties))
		return duties
	}
	progress := watchProgress(t, db)
	load := startLoad(t, c.at(other))
	for range rounds {
		load.to.Store(c.at(other))
		load.await(50)
		runs, name := received.runs(), ""
		must.OK(t, direct.QueryRow(`SELECT holder FROM duty WHERE name = 'webhooks'`).Scan(&name))
		halted := make(chan struct{})
		received.halt(func() {
			halt(t, holder)
			trap.close()
			close(halted)
		})
		<-halted
		received.await(t, "the other server does not go on", func() bool { return received.runs() > runs && had(name) == 0 })
		load.await(50)
		must.OK(t, holder.cmd.Process.Signal(syscall.SIGCONT))
		load.await(100)
		trap.open()
		holder, other = other, holder
	}
	records := load.stop()
	hooks.await(t, records.told)
	must.OK(t, other.interrupt())
	must.OK(t, holder.interrupt())
	progress.stop()
	v := received.check(t, published.Fingerprint)
	for _, l := range v {
		if l.First != 0 || l.From != 0 || l.To != l.Next || l.Log == "actions" && (l.Next != records.all || l.Runs < int64(rounds)+1) {
			t.Errorf("%d records and %d hand-overs: %+v", records.all, rounds, l)
		}
	}
	if out, err := attestd(t, "verify", "--db", db); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, s := range []*service{holder, other} {
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, "does not verify") || strings.Contains(line, "differ from") || strings.Contains(line, "was disabled") {
				t.Error(line)
			}
		}
	}
	if trap.gone.Load() == 0 {
		t.Error("no halted server had a message on its way")
	}
	t.Logf("%d records, %d messages of %d, %d answered 410: %+v", records.all, hooks.count(), records.told, trap.gone.Load(), v)
}

// halt returns when no thread of a server runs any more.
func halt(t *testing.T, s *service) {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		running := 0
		for _, path := range threads {
			if text, err := os.ReadFile(path); err == nil && !strings.Contains(string(text), ") T ") {
				running++
			}
		}
		if err == nil && len(threads) > 0 && running == 0 {
			return
		}
	}
	t.Error("the server does not halt")
}

// received is what a receiver of the export has stored, in a file.
type received struct {
	path string
	t    *testing.T

	mu    sync.Mutex
	armed func() // halts the sender of the next batch; nil for none
}

func newReceived(t *testing.T) *received {
	return &received{path: filepath.Join(t.TempDir(), "lines"), t: t}
}

// listen starts a receiver, and returns the flags of a server that sends to it.
func (r *received) listen(to string) []string {
	switch to {
	case "file":
		return []string{"--export-to", "file", "--export-file", r.path}
	case "https":
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			if body, err := io.ReadAll(q.Body); err == nil {
				r.store(body)
			}
		}))
		r.t.Cleanup(s.Close)
		return []string{"--export-to", "https", "--export-address", s.URL}
	}
	cert, key := certificateFiles(r.t, r.t.TempDir())
	pair, err := tls.LoadX509KeyPair(cert, key)
	must.OK(r.t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	must.OK(r.t, err)
	r.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.syslog(conn)
		}
	}()
	return []string{"--export-to", "syslog", "--export-address", l.Addr().String(), "--export-ca-file", cert}
}

// syslog stores each message of a connection as it comes.
func (r *received) syslog(conn net.Conn) {
	defer conn.Close()
	src := bufio.NewReader(conn)
	for {
		size, err := src.ReadString(' ')
		n, bad := strconv.Atoi(strings.TrimSpace(size))
		if err != nil || bad != nil {
			return
		}
		message := make([]byte, n, n+1)
		if _, err := io.ReadFull(src, message); err != nil {
			return
		}
		r.store(append(message, '\n'))
	}
}

// store appends lines. Those of a sender that it halts wait until those of another run have come.
func (r *received) store(text []byte) {
	r.mu.Lock()
	halt := r.armed
	r.armed = nil
	r.mu.Unlock()
	if halt != nil {
		runs := r.runs()
		halt()
		for end := time.Now().Add(patience); r.runs() == runs && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(text)
		_ = f.Close()
	}
	if err != nil {
		r.t.Error(err)
	}
}

// halt calls stop when a batch comes, or when the file has grown.
func (r *received) halt(stop func()) {
	if r.size() > 0 && r.isFile() {
		for size := r.size(); r.size() == size; time.Sleep(time.Millisecond) {
		}
		stop()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = stop
}

// isFile reports whether the server itself writes the file.
func (r *received) isFile() bool { return strings.HasSuffix(r.t.Name(), "/file") }

func (r *received) size() int64 {
	about, err := os.Stat(r.path)
	if err != nil {
		return 0
	}
	return about.Size()
}

var runMember = regexp.MustCompile(`"run":"[^"]+"`)

// runs returns of how many runs there are lines.
func (r *received) runs() int {
	text, _ := os.ReadFile(r.path)
	found := map[string]bool{}
	for _, name := range runMember.FindAll(text, -1) {
		found[string(name)] = true
	}
	return len(found)
}

func (r *received) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// check runs attestd check --lines, which must say that the lines hold.
func (r *received) check(t *testing.T, key string) []lines.Part {
	t.Helper()
	result := command(t, "check", "--lines", "--json", "--key", key, r.path)
	var v struct{ Logs []lines.Part }
	if result.status != 0 || json.Unmarshal([]byte(result.stdout), &v) != nil {
		t.Fatalf("exit status %d: %s", result.status, result.all)
	}
	return v.Logs
}

// load appends batches of five records, of which a webhook gets one.
type load struct {
	to      atomic.Pointer[client]
	batches atomic.Int64
	end     chan struct{}
	ended   sync.WaitGroup
	t       *testing.T
}

func startLoad(t *testing.T, c *client) *load {
	l := &load{end: make(chan struct{}), t: t}
	l.to.Store(c)
	batch := `{"records":[{"agentId":"bot","actionType":"told.it","payload":{}}` + strings.Repeat(`,{"agentId":"bot","actionType":"a.b","payload":{}}`, 4) + `]}`
	l.ended.Go(func() {
		for {
			select {
			case <-l.end:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if status, answer, err := l.to.Load().send("POST", "/v1/attest/batch", batch); err != nil || status != 201 {
				t.Errorf("%d, %v: %.300s", status, err, answer)
				return
			}
			l.batches.Add(1)
		}
	})
	return l
}

// await waits for so many more batches.
func (l *load) await(more int64) {
	l.t.Helper()
	begun := time.Now()
	for from := l.batches.Load(); l.batches.Load() < from+more; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			l.t.Fatalf("%d batches in %v", l.batches.Load()-from, patience)
		}
	}
}

type appended struct{ all, told int64 }

func (l *load) stop() appended {
	close(l.end)
	l.ended.Wait()
	n := l.batches.Load()
	return appended{5 * n, n}
}

// hookLog is the endpoint of a webhook, which answers that it has each message.
type hookLog struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[int64]bool
	last  int64 // newest index
	total int
}

func newHookLog(t *testing.T) *hookLog {
	h := &hookLog{seen: map[int64]bool{}, last: -1}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var message struct{ Data struct{ Index int64 } }
		body, err := io.ReadAll(q.Body)
		if err != nil || json.Unmarshal(bytes.TrimSpace(body), &message) != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.total++
		index := message.Data.Index
		if !h.seen[index] && index < h.last {
			t.Errorf("message %d comes first after message %d", index, h.last)
		}
		h.seen[index], h.last = true, max(h.last, index)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hookLog) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// await waits for so many different messages.
func (h *hookLog) await(t *testing.T, messages int64) {
	t.Helper()
	seen := func() int64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return int64(len(h.seen))
	}
	for end := time.Now().Add(patience); seen() != messages; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d messages of %d", seen(), messages)
		}
	}
}

// trap is the endpoint of a webhook that answers 410 to the messages which are on their way when
// their sender is halted, and accepts all others.
type trap struct {
	*httptest.Server
	mu     sync.Mutex
	halted chan struct{}
	gone   atomic.Int64 // messages that were answered so
}

func newTrap(t *testing.T) *trap {
	p := &trap{halted: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		p.mu.Lock()
		halted := p.halted
		p.mu.Unlock()
		select {
		case <-halted:
			return // of the other server
		default:
		}
		select {
		case <-halted:
			p.gone.Add(1)
			w.WriteHeader(http.StatusGone)
		case <-time.After(200 * time.Millisecond):
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// close answers 410 to what is on its way.
func (p *trap) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.halted)
}

func (p *trap) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halted = make(chan struct{})
}

// progressWatch fails the test when progress in the database goes back.
type progressWatch struct{ stop func() }

func watchProgress(t *testing.T, url string) progressWatch {
	db, err := sql.Open("pgx", url)
	must.OK(t, err)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer db.Close()
		newest := map[string]int64{}
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
			rows, err := db.Query(`SELECT webhook_id, next_record FROM webhook UNION ALL SELECT 'calls', next_record FROM call_watch
				UNION ALL SELECT name, (value::json->>'size')::bigint FROM setting WHERE name LIKE 'export %'`)
			if err != nil {
				t.Error(err)
				return
			}
			for rows.Next() {
				var what string
				var at int64
				if err := rows.Scan(&what, &at); err != nil {
					t.Error(err)
				}
				if at < newest[what] {
					t.Errorf("the progress of %s went back from %d to %d", what, newest[what], at)
				}
				newest[what] = at
			}
			_ = rows.Close()
		}
	}()
	return progressWatch{sync.OnceFunc(func() { close(end); <-ended })}
}
