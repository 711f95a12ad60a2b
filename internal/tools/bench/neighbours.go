package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// pocketBase is the program beside which section neighbours measures, built in a module of its own.
const pocketBase = "github.com/pocketbase/pocketbase/examples/base@v0.36.8"

const neighboursSection = "appends over HTTP beside others"

// neighbours measures appends in turns with those of two programs that do a part of the same:
//
//   - PocketBase creates a record in SQLite over REST. It answers before its commit is synced
//     (synchronous=NORMAL), and has neither hash nor signature, log, proof, nor a check of who asks
//     (the rule of its collection admits everybody).
//   - Tessera's POSIX driver, with one POST in front of it, adds an entry to a transparency log. It
//     answers when the entry has its index; the tree and a signed checkpoint follow within 100 ms.
//     It has no clients, no idempotency, no search and no signature for each entry.
//
// It downloads PocketBase, so it runs only where --neighbours asks for it.
func (b *bench) neighbours(ctx context.Context) (err error) {
	if !b.beside {
		return nil
	}
	attestd, t, err := b.serveTenant(ctx, "neighbours.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, attestd.stop()) }()
	plain := attestRequest(t)
	base, record, err := b.startPocketBase(ctx)
	if err != nil {
		return fmt.Errorf("start PocketBase: %w", err)
	}
	defer func() { err = errors.Join(err, base.stop()) }()
	log, err := b.startTessera(ctx)
	if err != nil {
		return fmt.Errorf("start Tessera: %w", err)
	}
	defer func() { err = errors.Join(err, log.stop()) }()
	_, body, _ := strings.Cut(string(plain), "\r\n\r\n")
	add := request("POST", "/add", "", jsonType, body)

	for _, clients := range []int{1, 16, 64} {
		column := fmt.Sprintf("%d clients", clients)
		for _, other := range []struct {
			name    string
			child   *child
			request []byte
		}{{"PocketBase", base, record}, {"Tessera", log, add}} {
			b.say("%s, %s", other.name, column)
			ours := &side{child: attestd, status: 201, request: func(int) []byte { return plain }}
			theirs := &side{child: other.child, status: 200, request: func(int) []byte { return other.request }}
			c, err := inTurns(ctx, ours, theirs, clients, pick(b.quick, 3, 15), pick(b.quick, 150*time.Millisecond, 500*time.Millisecond))
			if err != nil {
				return fmt.Errorf("%s: %w", other.name, err)
			}
			b.report.add(neighboursSection, column, other.name+", requests/s", c.barePerSecond, perSecond, nil)
			b.report.addRounds(neighboursSection, column, "  attestd ÷ "+other.name, c.ratios, atLeast(1))
			b.report.add(neighboursSection, column, "  CPU each of "+other.name, micros(c.bareCPU), micro, nil)
			b.report.add(neighboursSection, column, "  attestd's beside "+other.name, micros(c.cpu), micro, nil)
		}
	}
	return nil
}

// startPocketBase builds and starts PocketBase with a collection, and returns the request that
// creates a record in it: the tool call of attestRequest.
func (b *bench) startPocketBase(ctx context.Context) (server *child, record []byte, err error) {
	const mail, secret = "bench@example.com", "bench-bench"
	dir := filepath.Join(b.dir, "pocketbase")
	program, data := filepath.Join(dir, "pocketbase.exe"), filepath.Join(dir, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, err
	}
	b.say("building PocketBase")
	module, _, _ := strings.Cut(pocketBase, "@")
	for _, args := range [][]string{
		{"go", "mod", "init", "neighbours"}, {"go", "get", pocketBase}, {"go", "build", "-o", program, module},
		{program, "--dir", data, "superuser", "upsert", mail, secret},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, nil, err
	}
	if server, err = startAt(ctx, exec.Command(program, "--dir", data, "serve", "--http", addr), addr); err != nil {
		return nil, nil, err
	}
	var signedIn struct{ Token string }
	signIn := request("POST", "/api/collections/_superusers/auth-with-password", "", jsonType, fmt.Sprintf(`{"identity":%q,"password":%q}`, mail, secret))
	_, err = ask(ctx, addr, signIn, 200, &signedIn)
	if err == nil {
		_, err = ask(ctx, addr, request("POST", "/api/collections", signedIn.Token, jsonType, `{"name":"record","type":"base","createRule":"","fields":[
			{"name":"agentId","type":"text"},{"name":"actionType","type":"text"},{"name":"payload","type":"json"}]}`), 200, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, server.stop())
	}
	return server, request("POST", "/api/collections/record/records", "", jsonType,
		`{"agentId":"`+callerAgent+`","actionType":"`+callerAction+`","payload":`+callerPayload+`}`), nil
}

// startAt starts a program of others, and returns when it accepts connections.
func startAt(ctx context.Context, cmd *exec.Cmd, addr string) (*child, error) {
	c := &child{cmd: cmd, addr: addr, done: make(chan struct{})}
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.done)
		_ = cmd.Wait()
	}()
	timeout := time.After(patience)
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return c, conn.Close()
		}
		select {
		case <-c.done:
			return nil, errors.New("it ended at once")
		case <-timeout:
			return nil, errors.Join(err, c.stop())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), c.stop())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tesseraMode is the hidden first argument that makes this program a log of Tessera's.
const tesseraMode = "tessera"

func (b *bench) startTessera(ctx context.Context) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, exec.Command(self, tesseraMode, filepath.Join(b.dir, "tessera")))
}

// runTessera serves POST /add until its standard input ends. A batch waits 1 ms at most, because
// with Tessera's default of 250 ms, 64 clients that wait for answers add 256 entries a second.
func runTessera(dir string) int {
	err := serveTessera(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tessera:", err)
		return 1
	}
	return 0
}

func serveTessera(ctx context.Context, dir string) error {
	private, _, err := note.GenerateKey(rand.Reader, "bench.example.com")
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return err
	}
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		return err
	}
	appender, shutdown, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().WithCheckpointSigner(signer).
		WithCheckpointInterval(100*time.Millisecond).WithBatching(256, time.Millisecond))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		index, err := appender.Add(r.Context(), tessera.NewEntry(body))()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, index.Index)
	})
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(listener) }()
	fmt.Fprintf(os.Stderr, "Tessera listens on http://%s\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return shutdown(ctx)
}
