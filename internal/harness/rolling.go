package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Rolling is a rolling upgrade of the servers of one PostgreSQL database, as Kubernetes carries it
// out with packaging/kubernetes/many.yaml: the tables are upgraded, a new server starts while there
// is still the old ones, and one old one ends, until all are new.
type Rolling struct {
	Old, New           string   // built attestd
	OldFlags, NewFlags []string // of serve, in addition to the common ones
	URL                string   // of an empty database
	Each               int      // records that each phase waits for, from each company
	Say                func(format string, args ...any)
}

// Rolled says what a rolling upgrade was asked to carry.
type Rolled struct {
	Records   int           // acknowledged
	Companies int           // registered at any time
	Retries   int           // requests that were sent again
	Longest   time.Duration // until a record was acknowledged, with its retries
	Exported  int           // lines with a record
}

const (
	rollingServers = 2
	rollingCallers = 4 // for each company
)

// Run carries the upgrade out under load. It returns an error where an acknowledged record is not
// there once, where a company cannot be changed at a new server, or where `attestd verify` or
// `attestd check --lines` of the new version does not end with status 0.
func (r Rolling) Run(ctx context.Context, dir string) (done Rolled, err error) {
	sink, err := newSink(filepath.Join(dir, "lines.ndjson"))
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	l := &rollingLoad{sent: map[string]int{}, acknowledged: map[string]int64{}}
	defer func() { _ = l.stop() }() // what failed has ended a phase
	var running []*Service
	defer func() {
		for _, s := range running {
			err = errors.Join(err, s.Stop())
		}
	}()
	start := func(binary string, flags []string) error {
		lab := &Lab{Dir: dir, binary: binary}
		all := []string{"--rate-limits", "off"}
		help, err := exec.CommandContext(ctx, binary, "serve", "--help").Output()
		if err != nil {
			return err
		}
		if bytes.Contains(help, []byte("--export-to ")) { // not of the first versions
			all = append(all, "--export-to", "https", "--export-address", sink.url)
		}
		s, err := lab.Serve(ctx, r.URL, append(all, flags...)...)
		if err == nil {
			running = append(running, s)
			l.serveAt(running)
		}
		return err
	}
	end := func() error { // the oldest
		s := running[0]
		running = running[1:]
		l.serveAt(running)
		return s.Stop()
	}
	phase := func(name string) error {
		if err := l.register(fmt.Sprintf("c%d", len(l.companies))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := l.wait(ctx, r.Each); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Say("%s: %d records are acknowledged", name, l.count())
		return nil
	}
	for range rollingServers {
		if err := start(r.Old, r.OldFlags); err != nil {
			return done, err
		}
	}
	if err := phase("old servers"); err != nil {
		return done, err
	}
	if out, err := exec.CommandContext(ctx, r.New, "migrate", "--db", r.URL).CombinedOutput(); err != nil {
		return done, fmt.Errorf("migrate: %w: %s", err, out)
	}
	if err := phase("old servers on upgraded tables"); err != nil {
		return done, err
	}
	for range rollingServers {
		if err := start(r.New, r.NewFlags); err != nil {
			return done, err
		}
		if err := phase("old and new servers"); err != nil {
			return done, err
		}
		if err := end(); err != nil {
			return done, err
		}
	}
	if err := phase("new servers"); err != nil {
		return done, err
	}
	if err := l.stop(); err != nil {
		return done, err
	}
	// New servers unlock within seconds what older ones have registered.
	for end := time.Now().Add(Patience); exec.CommandContext(ctx, r.New, "verify", "--db", r.URL).Run() != nil && time.Now().Before(end); {
		time.Sleep(time.Second)
	}
	if err := l.change(); err != nil {
		return done, err
	}
	done = Rolled{Records: l.count(), Companies: len(l.companies), Retries: l.retries, Longest: l.longest}
	if err := sink.await(ctx, l.acknowledged); err != nil {
		return done, err
	}
	for len(running) > 0 { // the export ends with a checkpoint
		if err := end(); err != nil {
			return done, err
		}
	}
	done.Exported = sink.records
	if out, err := exec.CommandContext(ctx, r.New, "verify", "--db", r.URL).CombinedOutput(); err != nil {
		return done, fmt.Errorf("verify: %w: %s", err, out)
	}
	for _, c := range l.companies {
		if out, err := exec.CommandContext(ctx, r.New, "check", "--lines", "--company", c.id, "--key", c.fingerprint, sink.file.Name()).CombinedOutput(); err != nil {
			return done, fmt.Errorf("check --lines of %s: %w: %s", c.id, err, out)
		}
	}
	return done, nil
}

// rollingLoad appends to companies by way of the servers that run.
type rollingLoad struct {
	callers sync.WaitGroup

	mu           sync.Mutex
	servers      []*Service
	companies    []rollingCompany
	sent         map[string]int   // records acknowledged, by company
	acknowledged map[string]int64 // the index of each, by its marker
	retries      int
	longest      time.Duration
	failed       error
	stopping     bool
}

type rollingCompany struct{ id, key, fingerprint string }

func (l *rollingLoad) serveAt(running []*Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = slices.Clone(running)
}

// any sends a request to any server until one of them answers it as wanted.
func (l *rollingLoad) any(r Request, status int, dest any) error {
	began := time.Now()
	for again := false; ; again = true {
		l.mu.Lock()
		at := l.servers[rand.IntN(len(l.servers))].Addr
		if again {
			l.retries++
		}
		l.mu.Unlock()
		c := Client{Addr: at}
		err := c.Call(status, r, dest)
		c.Close()
		if err == nil || time.Since(began) > Patience {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// register registers a company with an agent, and begins to append to it.
func (l *rollingLoad) register(id string) error {
	var made struct{ APIKey string }
	if err := l.any(Request{Method: "POST", Path: "/v1/companies", Body: fmt.Sprintf(`{"companyId":%q}`, id)}, 201, &made); err != nil {
		return err
	}
	c := rollingCompany{id: id, key: made.APIKey}
	if err := l.any(Request{Method: "POST", Path: "/v1/agents/register", Key: c.key, Body: `{"agentId":"bot"}`}, 201, nil); err != nil {
		return err
	}
	var published struct{ Fingerprint string }
	if err := l.any(Request{Method: "GET", Path: "/v1/ca/public-key?companyId=" + id}, 200, &published); err != nil {
		return err
	}
	c.fingerprint = published.Fingerprint
	l.mu.Lock()
	l.companies = append(l.companies, c)
	l.mu.Unlock()
	for i := range rollingCallers {
		l.callers.Go(func() {
			for n := 0; l.attest(c, fmt.Sprintf("%s-%d-%d.", c.id, i, n)); n++ {
			}
		})
	}
	return nil
}

// attest appends a record once, and reports whether another may follow.
func (l *rollingLoad) attest(c rollingCompany, marker string) bool {
	l.mu.Lock()
	stopping := l.stopping
	l.mu.Unlock()
	if stopping {
		return false
	}
	began := time.Now()
	var made struct{ Index int64 }
	err := l.any(Request{Method: "POST", Path: "/v1/attest", Key: c.key, Header: []string{"Idempotency-Key: " + marker},
		Body: fmt.Sprintf(`{"agentId":"bot","actionType":"a.b","payload":{"marker":%q}}`, marker)}, 201, &made)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = errors.Join(l.failed, fmt.Errorf("%s: %w", marker, err))
		return false
	}
	l.acknowledged[marker] = made.Index
	l.sent[c.id]++
	l.longest = max(l.longest, time.Since(began))
	return true
}

// wait returns when each company has so many more records.
func (l *rollingLoad) wait(ctx context.Context, more int) error {
	l.mu.Lock()
	want := map[string]int{}
	for _, c := range l.companies {
		want[c.id] = l.sent[c.id] + more
	}
	l.mu.Unlock()
	for end := time.Now().Add(4 * Patience); ; time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		failed, enough := l.failed, true
		for id, n := range want {
			enough = enough && l.sent[id] >= n
		}
		l.mu.Unlock()
		if failed != nil || enough {
			return failed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return errors.New("too few records are acknowledged")
		}
	}
}

func (l *rollingLoad) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// stop waits for the callers, and returns what failed.
func (l *rollingLoad) stop() error {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.callers.Wait()
	return l.failed
}

// change changes the rights of each company at each server, and verifies its control log there. A
// server that has locked a company unlocks it within seconds.
func (l *rollingLoad) change() error {
	for _, c := range l.companies {
		for _, s := range l.servers {
			at := Client{Addr: s.Addr}
			var verdict struct{ Valid bool }
			var err error
			for end := time.Now().Add(Patience); ; time.Sleep(time.Second) {
				locked := (*StatusError)(nil)
				err = at.Call(201, Request{Method: "POST", Path: "/v1/keys", Key: c.key}, nil)
				if !errors.As(err, &locked) || !bytes.Contains(locked.Answer.Body, []byte("TABLES_CHANGED")) || time.Now().After(end) {
					break
				}
			}
			for _, log := range []string{"", "?log=control"} {
				if err == nil {
					err = at.Call(200, Request{Method: "GET", Path: "/v1/verify" + log, Key: c.key}, &verdict)
				}
				if err == nil && !verdict.Valid {
					err = fmt.Errorf("GET /v1/verify%s says that it is not valid", log)
				}
			}
			at.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", c.id, err)
			}
		}
	}
	return nil
}

// sink is a receiver of an export, which writes down what it acknowledges.
type sink struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	file    *os.File
	records int
	indices map[string]map[int64]bool // of the records with a marker
	failed  error
}

func newSink(path string) (*sink, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &sink{url: "http://" + listener.Addr().String(), file: file, indices: map[string]map[int64]bool{}}
	s.server = &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: Patience}
	go s.server.Serve(listener) // until it is closed
	return s, nil
}

func (s *sink) close() error { return errors.Join(s.server.Close(), s.file.Close(), s.failed) }

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server is gone, and sends it again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(body); err != nil {
		s.failed = err
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for line := range bytes.Lines(body) {
		var of struct {
			Index  int64
			Record struct {
				Payload struct{ Payload struct{ Marker string } }
			}
		}
		// lines of other kinds have no marker
		if marker := &of.Record.Payload.Payload.Marker; json.Unmarshal(line, &of) == nil && *marker != "" {
			s.records++
			if s.indices[*marker] == nil {
				s.indices[*marker] = map[int64]bool{}
			}
			s.indices[*marker][of.Index] = true
		}
	}
}

// await returns when all records have been exported, each of them at the place that was
// acknowledged and at no other.
func (s *sink) await(ctx context.Context, acknowledged map[string]int64) error {
	for end := time.Now().Add(2 * Patience); ; time.Sleep(50 * time.Millisecond) {
		s.mu.Lock()
		missing, failed := 0, s.failed
		for marker, index := range acknowledged {
			found := s.indices[marker]
			if len(found) == 0 {
				missing++
			} else if len(found) > 1 || !found[index] {
				failed = fmt.Errorf("%s was acknowledged at %d, and is exported at %v", marker, index, found)
			}
		}
		s.mu.Unlock()
		if failed != nil || missing == 0 {
			return failed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d records were acknowledged and not exported", missing)
		}
	}
}
