package main

import (
	"context"
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

	"github.com/google/pprof/profile"

	"attestd/internal/harness"
)

const profileSection = "processor time of a request, by what it is spent on"

// stages are what the processor time of a request is spent on, each with the functions that begin
// it. A sample belongs to the stage of its innermost function that is listed, so what SQLite does
// for a commit counts as SQLite's, and the garbage collector's share of an allocation as its own.
var stages = []struct {
	name     string
	prefixes []string
}{
	{"garbage collector", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkDone"}},
	{"allocation", []string{"runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice"}},
	{"scheduler and timers", []string{"runtime.schedule", "runtime.mcall", "runtime.park_m", "runtime.findRunnable", "runtime.ready", "runtime.goready", "runtime.mstart", "runtime.sysmon", "runtime.gopreempt_m", "runtime.morestack"}},
	{"signatures", []string{"crypto/ed25519.", "crypto/internal/fips140/ed25519.", "crypto/ecdsa.", "crypto/internal/fips140/ecdsa."}},
	{"hashes and HMACs", []string{"crypto/sha256.", "crypto/internal/fips140/sha256.", "crypto/internal/fips140/hmac.", "crypto/hmac."}},
	{"SQLite: files", []string{"modernc.org/sqlite/lib._unix", "modernc.org/libc.Xwrite", "modernc.org/libc.Xpwrite", "modernc.org/libc.Xfsync", "modernc.org/libc.Xfdatasync", "modernc.org/libc.Xread", "modernc.org/libc.Xpread", "modernc.org/libc.Xfcntl", "modernc.org/sqlite/lib._walWriteOneFrame"}},
	{"SQLite: statements", []string{"modernc.org/sqlite/lib.", "modernc.org/libc."}},
	{"SQL driver", []string{"database/sql.", "modernc.org/sqlite.", "github.com/jackc/pgx/v5"}},
	{"store", []string{"attestd/store"}},
	{"canonical JSON and other encodings", []string{"attestd/crypto/jcs.", "encoding/json.", "attestd/crypto/strictjson.", "encoding/base64.", "encoding/hex."}},
	{"chain", []string{"attestd/chain"}},
	{"credentials and keys", []string{"attestd/crypto"}},
	{"service", []string{"attestd/service"}},
	{"log line", []string{"log/slog.", "attestd/cmd.", "attestd/server/trace"}},
	{"attestd's HTTP", []string{"attestd/server"}},
	{"network", []string{"net.(*conn)", "net.(*netFD)"}},
	{"net/http", []string{"net/http.", "bufio.", "net/textproto.", "net/url."}},
}

// profiles writes a processor profile of the server for each load into the folder that --profile
// names, and reports what a request is spent on. It builds attestd once more, with the handler of
// net/http/pprof, which no release has. Without the flag it does nothing.
func (b *bench) profiles(ctx context.Context) (err error) {
	if b.profileDir == "" {
		return nil
	}
	if err := os.MkdirAll(b.profileDir, 0o777); err != nil {
		return err
	}
	binary := filepath.Join(b.dir, "attestd-profile.exe")
	if err := harness.BuildProfile(ctx, binary); err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, serveArgs(filepath.Join(b.dir, "profile.db"))...)
	cmd.Env = append(os.Environ(), "ATTESTD_PROFILE="+addr)
	server, err := start(ctx, cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	t, err := register(ctx, server.addr, "acme")
	if err != nil {
		return err
	}
	if err := registerAgent(ctx, server.addr, t); err != nil {
		return err
	}
	appended, issued := attestRequest(t), request("POST", "/v1/agents/"+callerAgent+"/passport", t.key, "", "")
	for _, c := range []struct {
		column, file string
		clients      int
		request      []byte
	}{
		{"1 client", "append-1.pprof", 1, appended},
		{"16 clients", "append-16.pprof", 16, appended},
		{"64 clients", "append-64.pprof", 64, appended},
		{"passport, 64", "passport-64.pprof", 64, issued},
	} {
		b.say("profile: %s", c.column)
		s := &side{child: server, status: 201, request: func(int) []byte { return c.request }}
		file := filepath.Join(b.profileDir, c.file)
		if err := b.profile(ctx, s, c.clients, addr, file, c.column); err != nil {
			return fmt.Errorf("%s: %w", c.column, err)
		}
	}
	return nil
}

// profile loads one side while its profile is written.
func (b *bench) profile(ctx context.Context, s *side, clients int, addr, file, column string) (err error) {
	if s.clients, err = connect(ctx, s.child.addr, clients); err != nil {
		return err
	}
	defer hangUp(s.clients)
	seconds := pick(b.quick, 1, 10)
	if _, err := s.load(ctx, time.Second, 0); err != nil { // a warm-up
		return err
	}
	written := make(chan error, 1)
	go func() {
		written <- download(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, seconds), file)
	}()
	r, err := s.load(ctx, time.Duration(seconds)*time.Second, 0)
	if err = errors.Join(err, <-written); err != nil {
		return err
	}
	b.report.add(profileSection, column, "requests/s", r.perSecond(), perSecond, nil)
	if r.hasCPU {
		b.report.add(profileSection, column, "server CPU each", micros(r.cpu/time.Duration(r.all)), micro, nil)
	}
	spent, err := byStage(file)
	if err != nil {
		return err
	}
	for _, stage := range append(stageNames(), otherStage) {
		b.report.add(profileSection, column, "  "+stage, micros(spent[stage])/float64(r.all), micro, nil)
	}
	return nil
}

const otherStage = "all else"

func stageNames() (names []string) {
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}

// byStage sums the samples of a processor profile by stage.
func byStage(file string) (map[string]time.Duration, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, err
	}
	spent := map[string]time.Duration{}
	for _, sample := range p.Sample {
		spent[stageOf(sample)] += time.Duration(sample.Value[len(sample.Value)-1])
	}
	return spent, nil
}

func stageOf(sample *profile.Sample) string {
	for _, location := range sample.Location {
		for _, line := range location.Line { // innermost first, as locations are
			for _, s := range stages {
				for _, prefix := range s.prefixes {
					if strings.HasPrefix(line.Function.Name, prefix) {
						return s.name
					}
				}
			}
		}
	}
	return otherStage
}

func download(ctx context.Context, url, file string) (err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	return errors.Join(err, f.Close())
}

// freeAddr returns an address of loopback on which nothing listens.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
