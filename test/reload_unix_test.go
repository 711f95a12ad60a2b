//go:build unix

package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// hangup sends SIGHUP and returns the line of the log about it.
func (s *service) hangup(t *testing.T) string {
	t.Helper()
	before := strings.Count(s.log.String(), `msg="SIGHUP:`)
	must.OK(t, s.cmd.Process.Signal(syscall.SIGHUP))
	return s.hangupLine(t, before)
}

// hangupLine waits for the line that comes after so many others.
func (s *service) hangupLine(t *testing.T, before int) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		n := 0
		for line := range strings.Lines(s.log.String()) {
			if !strings.Contains(line, `msg="SIGHUP:`) {
				continue
			}
			if n++; n > before {
				return line
			}
		}
	}
	t.Fatal("no line about SIGHUP")
	return ""
}

// lineHas fails the test unless a line has each text.
func lineHas(t *testing.T, line string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("%q does not have %s", line, text)
		}
	}
}

// limitOf returns the limit of the standard tier, as answers say it.
func limitOf(t *testing.T, c *client) string {
	t.Helper()
	request, err := http.NewRequest("GET", c.url+"/v1/company", nil)
	must.OK(t, err)
	request.Header.Set("Authorization", "Bearer "+c.key)
	answer, err := c.http.Do(request)
	must.OK(t, err)
	must.OK(t, answer.Body.Close())
	return answer.Header.Get("X-RateLimit-Limit")
}

// SIGHUP makes a server read its file again. What may change does, the rest is named, flags win as
// before, and of a file that cannot be used nothing changes.
func TestHangupReloadsSettings(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	folder := t.TempDir()
	path, token := filepath.Join(folder, "attestd.toml"), filepath.Join(folder, "token")
	write := func(text string) { must.OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	must.OK(t, os.WriteFile(token, []byte("a-token-of-26-characters-x"), 0o600))
	write("rate-limits = \"standard=501\"\nmax-keys = 7\n")
	s := serve(t, filepath.Join(folder, "acme.db"), "--max-clients", "9")
	acme := s.register(t, "acme")
	expect := func(limit string) {
		t.Helper()
		if got := limitOf(t, acme); got != limit {
			t.Errorf("the limit is %q, want %s", got, limit)
		}
	}
	expect("501")

	lineHas(t, s.hangup(t), "level=INFO", `changed=""`, "file="+path)
	write("rate-limits = \"standard=502\"\nmax-keys = 8\nmax-clients = 8\nregistration = \"token\"\nregistration-token-file = \"" + token + "\"\n")
	line := s.hangup(t)
	lineHas(t, line, "level=INFO", `changed="max-keys=8 rate-limits=standard=502 registration=token registration-token-file=`+token+`"`)
	if strings.Contains(line, "max-clients") || strings.Contains(line, "a-token") {
		t.Errorf("the flag did not win, or the token is shown: %s", line)
	}
	expect("502")
	if status, _, _ := acme.send("POST", "/v1/companies", `{"companyId":"stranger"}`); status != 401 {
		t.Errorf("registration: %d", status)
	}
	must.OK(t, os.WriteFile(token, []byte("b-token-of-26-characters-x"), 0o600))
	lineHas(t, s.hangup(t), `changed="registration-token-file=`+token+`"`)
	operator := *acme
	operator.key = "b-token-of-26-characters-x"
	if status, _, _ := operator.send("POST", "/v1/companies", `{"companyId":"guest"}`); status != 201 {
		t.Errorf("registration with the new token: %d", status)
	}

	// nothing of a file that cannot be used
	for text, want := range map[string]string{
		"rate-limits = \"standard=503\"\nlisen = \":1\"":                      "did you mean listen?",
		"rate-limits = \"standard=503\"\nstream = \"closed\"":                 "stream is set by the file " + path + ":2",
		"rate-limits = \"standard=503\"\nrate":                                ":2: ",
		"rate-limits = \"standard=503\"\ntls-cert = \"x\"":                    "--tls-key",
		"rate-limits = \"standard=503\"\ntrust-domain = \"A B\"":              "trust domain",
		"rate-limits = \"standard=503\"\nregistration = \"token\"":            "require each other",
		"rate-limits = \"standard=503\"\nwitness = [\"https://w.example=x\"]": "--witness",
	} {
		write(text + "\n")
		lineHas(t, s.hangup(t), "level=ERROR", "nothing was changed", want)
		expect("502")
	}
	must.OK(t, os.Remove(path))
	lineHas(t, s.hangup(t), "level=ERROR", "is gone")
	expect("502")
	write("rate-limits = \"standard=503\"\n")
	must.OK(t, os.Chmod(path, 0o666))
	lineHas(t, s.hangup(t), "level=ERROR", "others can write")
	expect("502")

	// a file that takes the place of the former, with settings that need a restart
	next := filepath.Join(folder, "next.toml")
	must.OK(t, os.WriteFile(next, []byte("rate-limits = \"standard=504\"\nstream = \"off\"\nmax-body = \"2MiB\"\nlog-level = \"warn\"\n"), 0o600))
	must.OK(t, os.Rename(next, path))
	line = s.hangup(t)
	lineHas(t, line, "level=WARN", "others need a restart", `restart="max-body stream"`, "log-level=warn", "rate-limits=standard=504", "registration=open")
	expect("504")
	if status, _, _ := acme.send("GET", "/v1/ws", ""); status != http.StatusUpgradeRequired {
		t.Errorf("the stream was switched off: %d", status)
	}
	// it goes on to say so, until the restart
	lineHas(t, s.hangup(t), `changed=""`, `restart="max-body stream"`)
	must.OK(t, s.interrupt())
}

// Ten signals at once under load break nothing off, and the last file holds.
func TestHangupsUnderLoad(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "attestd.toml")
	replace := func(limit int, lines string) {
		text := fmt.Appendf(nil, "rate-limits = \"attest=1000000,standard=%d\"\nlog-level = \"warn\"\naccess-log = \"%s\"\n", limit, lines)
		must.OK(t, os.WriteFile(path+".new", text, 0o600))
		must.OK(t, os.Rename(path+".new", path))
	}
	replace(1000, "all")
	s := serve(t, filepath.Join(folder, "acme.db"), "--config", path, "--log-level", "info")
	acme := s.register(t, "acme")
	done := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if status, answer, err := acme.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`); status != 201 {
					t.Errorf("%d, %v: %s", status, err, answer)
					return
				}
			}
		})
	}
	for round := range 3 {
		replace(2000+round, "errors")
		for range 10 {
			must.OK(t, s.cmd.Process.Signal(syscall.SIGHUP))
		}
		s.hangup(t)
	}
	want := "2002"
	for end := time.Now().Add(patience); limitOf(t, acme) != want && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	close(done)
	load.Wait()
	if got := limitOf(t, acme); got != want {
		t.Errorf("the limit is %s", got)
	}
	must.OK(t, s.interrupt())
}

// A server without a file and without a terminal goes on after SIGHUP.
func TestHangupEndsNoServer(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "acme.db"))
	lineHas(t, s.hangup(t), "level=INFO", `changed=""`)
	if limit := limitOf(t, s.register(t, "acme")); limit != "1000" {
		t.Errorf("the limit is %s", limit)
	}
	must.OK(t, s.interrupt())
}

// A file that SIGHUP has found does not vanish undetected either: its settings stay in force, where
// the defaults would give unauthenticated callers rights.
func TestFileThatCameLaterCannotVanish(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "attestd.toml")
	s := serve(t, filepath.Join(folder, "acme.db"))
	acme := s.register(t, "acme")
	must.OK(t, os.WriteFile(path, []byte("registration = \"closed\"\n"), 0o600))
	lineHas(t, s.hangup(t), "level=INFO", `changed="registration=closed"`, "file="+path)
	must.OK(t, os.Remove(path))
	lineHas(t, s.hangup(t), "level=ERROR", path+" is gone", "nothing was changed")
	if status, _, _ := acme.send("POST", "/v1/companies", `{"companyId":"stranger"}`); status != 403 {
		t.Errorf("registration: %d", status)
	}
	must.OK(t, os.WriteFile(path, nil, 0o600))
	lineHas(t, s.hangup(t), "level=INFO", `changed="registration=open"`)
	must.OK(t, s.interrupt())
}

// At a reload the files that give rights are checked as at the start: a token in a folder that
// everybody may write since is not taken, and nothing else is changed.
func TestReloadRefusesFilesOfOthers(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "settings")
	must.OK(t, os.Mkdir(folder, 0o755))
	config, token := filepath.Join(t.TempDir(), "attestd.toml"), filepath.Join(folder, "token")
	write := func(path, text string) { must.OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(config, "rate-limits = 'sensitive=10,attest=100,standard=111'\n")
	write(token, "the-first-token-of-the-operator")
	s := serve(t, storetest.New(t), "--config", config, "--registration", "token", "--registration-token-file", token)
	first, second := s.client(t, "the-first-token-of-the-operator"), s.client(t, "the-second-token-of-somebody")
	first.call(t, 201, "POST", "/v1/companies", `{"companyId":"before"}`, nil)

	must.OK(t, os.Chmod(folder, 0o777))
	write(token, "the-second-token-of-somebody")
	write(config, "rate-limits = 'sensitive=10,attest=100,standard=222'\n")
	lineHas(t, s.hangup(t), "nothing was changed", "may write to it")
	first.call(t, 201, "POST", "/v1/companies", `{"companyId":"still"}`, nil)
	second.call(t, 401, "POST", "/v1/companies", `{"companyId":"evil"}`, nil)

	must.OK(t, os.Chmod(folder, 0o755))
	lineHas(t, s.hangup(t), "settings read again", "rate-limits", "registration-token-file")
	second.call(t, 201, "POST", "/v1/companies", `{"companyId":"after"}`, nil)
}
