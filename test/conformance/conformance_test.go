package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// patience bounds the wait for an answer of a runner.
const patience = 3 * time.Minute

type testCase struct {
	Name   string
	Client map[string]json.RawMessage
	Steps  []step
	Chain  []json.RawMessage
}

type step struct {
	Call     string
	Args     json.RawMessage
	Faults   []fault
	Requests *int
	Keys     int
	Expect   *expectation
	Save     map[string]string
}

type expectation struct {
	Result, Error json.RawMessage
}

// language is a client with the program that runs it; Go's runs in this process.
type language struct {
	name    string
	command []string
	built   string // what must have been built before
}

const clients = "../../sdk/"

func languages(t *testing.T) []language {
	all := []language{
		{name: "go"},
		{"typescript", []string{"node", clients + "typescript/conformance.mjs"}, clients + "typescript/dist/index.js"},
		python("python", "python3"),
	}
	if testenv.Quick() {
		return all
	}
	all = append(all, language{"commonjs", []string{"node", clients + "typescript/conformance.mjs", "require"}, clients + "typescript/dist/cjs/index.js"})
	others, err := harness.Pythons(t.Context())
	must.OK(t, err)
	for _, p := range others {
		all = append(all, python(p.Name, p.Program))
	}
	return all
}

// python runs the client so that it reports resources that were left open.
func python(name, program string) language {
	return language{name, []string{program, "-W", "default::ResourceWarning", clients + "python/conformance.py"}, clients + "python/attestd/__init__.py"}
}

// The clients of all languages behave as sdk/conformance.json requires, against the real server and
// with faults in between: every record that they report is in the chain once.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance.json")
	must.OK(t, err)
	var file struct{ Cases []testCase }
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	must.OK(t, d.Decode(&file))
	lab, err := harness.NewLab(t.Context())
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, lab.Close()) })
	for _, language := range languages(t) {
		t.Run(language.name, func(all *testing.T) {
			all.Parallel()
			if len(language.command) > 0 {
				available(all, language)
			}
			front := newFront(all)
			server, _, err := lab.ServeNew(t.Context(), "--rate-limits", "off", "--base-url", front.URL)
			must.OK(all, err)
			all.Cleanup(func() { must.OK(all, server.Stop()) })
			var own *runner // it serves all cases, until one fails
			for i, c := range file.Cases {
				all.Run(c.Name, func(t *testing.T) {
					r := &running{t: t, all: all, command: language.command, runner: own, server: &harness.Client{Addr: server.Addr}, proxy: newProxy(t, front, server.Addr), vars: variables{}}
					own = nil
					r.run(c, fmt.Sprintf("%s-%d", language.name, i))
					own = r.runner
				})
			}
			if own != nil {
				own.end(all)
			}
		})
	}
}

// available skips a language whose program is not here, and under the race detector, which sees
// nothing of it.
func available(t *testing.T, l language) {
	testenv.Needs(t, testenv.NotRaced)
	_, missing := exec.LookPath(l.command[0])
	if _, err := os.Stat(l.built); missing == nil {
		missing = err
	}
	if missing != nil {
		testenv.Missing(t, missing.Error())
	}
}

// running is a case under way.
type running struct {
	t       *testing.T
	all     *testing.T // of all cases of the language; a runner ends with it at the latest
	command []string
	server  *harness.Client
	key     string // of the company
	proxy   *proxy
	vars    variables
	runner  *runner
}

func (r *running) run(c testCase, company string) {
	t := r.t
	r.prepare(company)
	if c.Client["agent"] != nil {
		r.enrol(company)
	}
	if r.runner == nil {
		r.start()
	}
	r.new(c)
	for i, s := range c.Steps {
		where := fmt.Sprintf("step %d, %s", i, s.Call)
		args, err := r.vars.fill(s.Args)
		if err != nil {
			t.Fatal(where, ": ", err)
		}
		var answer answer
		switch s.Call {
		case "restart":
			r.runner.end(t)
			r.start()
			r.new(c)
			continue
		case "edit":
			answer.Result, err = edit(args)
			must.OK(t, err)
		case "claims":
			answer.Result, err = claimsOf(args)
			must.OK(t, err)
		default:
			answer = r.call(s, args, where)
		}
		if answer.Error != nil && strings.Contains(string(answer.Error), `"unsupported"`) {
			t.Skip("the client has no ", s.Call)
		}
		r.check(s, answer, where)
	}
	r.checkChain(c)
}

// prepare registers the company of a case.
func (r *running) prepare(company string) {
	t := r.t
	var err error
	r.key, err = r.server.Register(company)
	must.OK(t, err)
	must.OK(t, r.server.RegisterBot(r.key))
	var public struct {
		PEM, Fingerprint string
		JWK              struct{ X string }
	}
	r.ask(200, "GET", "/v1/ca/public-key?companyId="+company, "", &public)
	for name, value := range map[string]string{"url": r.proxy.URL, "company": company, "key": r.key, "dir": t.TempDir() + "/spool", "pem": public.PEM, "jwk": public.JWK.X, "fingerprint": public.Fingerprint,
		"medium": strings.Repeat("m", 300<<10), "large": strings.Repeat("l", 16<<20)} {
		must.OK(t, r.vars.set(name, value))
	}
	for _, role := range []string{"writer", "reader"} {
		var made struct{ Key string }
		r.ask(201, "POST", "/v1/keys", fmt.Sprintf(`{"role":%q}`, role), &made)
		must.OK(t, r.vars.set(role, made.Key))
	}
	var oauth struct{ ClientID, ClientSecret string }
	r.ask(201, "POST", "/v1/oauth/clients", "", &oauth)
	must.OK(t, r.vars.set("clientId", oauth.ClientID))
	must.OK(t, r.vars.set("clientSecret", oauth.ClientSecret))
}

// enrol makes a key of the agent bot, in files as attestd agent-key enrol writes them, and as it
// did before they named the log.
func (r *running) enrol(company string) {
	t := r.t
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	must.OK(t, err)
	admin, err := attestd.New(attestd.Config{URL: r.proxy.URL, Credential: attestd.Key(r.key)})
	must.OK(t, err)
	defer admin.Close()
	_, err = admin.EnrolKey(t.Context(), "bot", key, attestd.NewEnrolledKey{})
	must.OK(t, err)
	var keys struct{ Log string }
	r.ask(200, "GET", "/v1/agents/bot/keys", "", &keys)
	private, err := key.PrivateJWK()
	must.OK(t, err)
	var file map[string]any
	must.OK(t, json.Unmarshal(private, &file))
	file["agent"], file["url"] = "spiffe://attestd.local/company/"+company+"/agent/bot", r.proxy.URL
	folder := t.TempDir()
	for _, name := range []string{"agentFileOfBefore", "agentFile"} {
		text, err := json.Marshal(file)
		must.OK(t, err)
		path := filepath.Join(folder, name)
		must.OK(t, os.WriteFile(path, text, 0o600))
		must.OK(t, r.vars.set(name, path))
		file["log"] = keys.Log
	}
	var first, svid, exchanged struct {
		Token, SVID string
		AccessToken string `json:"access_token"`
	}
	r.ask(201, "POST", "/v1/token-exchange", `{"agentId":"bot","actingOn":"globex","scope":"a"}`, &first)
	must.OK(t, r.vars.set("delegation", first.Token))
	r.ask(201, "POST", "/v1/agents/register", `{"agentId":"planner"}`, nil)
	r.ask(201, "POST", "/v1/token-exchange", `{"agentId":"planner","actingOn":"globex","scope":"a"}`, &first)
	r.ask(200, "GET", "/v1/agents/bot/svid", "", &svid)
	r.ask(200, "POST", "/v1/token/exchange", fmt.Sprintf(`{"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange","subject_token":%q,`+
		`"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","actor_token":%q,"actor_token_type":"urn:ietf:params:oauth:token-type:jwt"}`,
		first.Token, svid.SVID), &exchanged)
	must.OK(t, r.vars.set("exchanged", exchanged.AccessToken))
	must.OK(t, r.vars.set("log", keys.Log))
	must.OK(t, r.vars.set("thumbprint", key.Thumbprint()))
}

// ask calls the server itself, as the company.
func (r *running) ask(status int, method, path, body string, dest any) {
	r.t.Helper()
	must.OK(r.t, r.server.Call(status, harness.Request{Method: method, Path: path, Key: r.key, Body: body}, dest))
}

// new makes the client of a case.
func (r *running) new(c testCase) {
	args := map[string]json.RawMessage{
		"url": json.RawMessage(`"${url}"`), "key": json.RawMessage(`"${key}"`), "timeoutMs": json.RawMessage("30000"),
		"retry": json.RawMessage(`{"times":2,"minMs":5,"maxMs":20}`), "spool": json.RawMessage(`"${dir}"`),
	}
	if c.Client["oauth"] != nil || c.Client["agent"] != nil {
		delete(args, "key")
	}
	for name, value := range c.Client {
		args[name] = value
	}
	text, err := json.Marshal(args)
	must.OK(r.t, err)
	text, err = r.vars.fill(text)
	must.OK(r.t, err)
	a := r.runner.call(r.t, "new", text)
	if strings.Contains(string(a.Error), `"unsupported"`) {
		r.t.Skip("the client has no such credential here")
	}
	if a.Error != nil {
		r.t.Fatalf("new: %s", a.Error)
	}
}

// call has the runner carry out a step.
func (r *running) call(s step, args []byte, where string) answer {
	t := r.t
	r.proxy.begin(s.Faults)
	a := r.runner.call(t, s.Call, args)
	requests, keys, keyless := r.proxy.end()
	if s.Requests != nil && requests != *s.Requests {
		t.Errorf("%s: %d requests, want %d", where, requests, *s.Requests)
	}
	if keyless || keys > 1 && keys != s.Keys {
		t.Errorf("%s: the requests carry %d idempotency keys, and one has none: %v", where, keys, keyless)
	}
	return a
}

// check holds an answer against what is expected, and saves of it.
func (r *running) check(s step, a answer, where string) {
	t := r.t
	want := expectation{Result: json.RawMessage("{}")}
	if s.Expect != nil {
		want = *s.Expect
	}
	expected, got := want.Result, a.Result
	if want.Error != nil {
		expected, got = want.Error, a.Error
	}
	if got == nil {
		t.Fatalf("%s: answers %s%s, want %s", where, a.Error, a.Result, expected)
	}
	filled, err := r.vars.fill(expected)
	must.OK(t, err)
	wanted, err := decode(filled)
	must.OK(t, err)
	has, err := decode(got)
	must.OK(t, err)
	if wrong := differs("", wanted, has); wrong != "" {
		t.Fatalf("%s: %s\nin %s", where, wrong, got)
	}
	for name, pointer := range s.Save {
		value, err := part(has, pointer)
		must.OK(t, err)
		must.OK(t, r.vars.set(name, value))
	}
}

// checkChain compares the chain on the server with the case, and has the server verify it.
func (r *running) checkChain(c testCase) {
	t := r.t
	var chain struct{ Records []json.RawMessage }
	r.ask(200, "GET", "/v1/chain", "", &chain)
	if len(chain.Records) != len(c.Chain) {
		t.Fatalf("the chain has %d records, want %d: %s", len(chain.Records), len(c.Chain), chain.Records)
	}
	for i, want := range c.Chain {
		filled, err := r.vars.fill(want)
		must.OK(t, err)
		wanted, err := decode(filled)
		must.OK(t, err)
		has, err := decode(chain.Records[i])
		must.OK(t, err)
		if wrong := differs("", wanted, has); wrong != "" {
			t.Errorf("record %d: %s\nin %s", i, wrong, chain.Records[i])
		}
	}
	var verdict struct{ Valid bool }
	r.ask(200, "GET", "/v1/verify", "", &verdict)
	if !verdict.Valid {
		t.Error("the chain does not verify")
	}
}

// edit is a copy of a value with another part.
func edit(args []byte) (json.RawMessage, error) {
	var given struct {
		Of, To json.RawMessage
		At     string
	}
	if err := json.Unmarshal(args, &given); err != nil {
		return nil, err
	}
	return changed(given.Of, given.At, given.To)
}

type answer struct{ Result, Error json.RawMessage }

// runner is a client's program.
type runner struct {
	in    io.WriteCloser
	lines chan []byte
	wait  func() error
}

func (r *running) start() {
	t := r.t
	in, requests := io.Pipe()
	var out io.ReadCloser
	var wait func() error
	if r.command == nil {
		answers, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := serveGo(context.Background(), in, w)
			ended <- errors.Join(err, w.Close())
		}()
		out, wait = answers, func() error { return <-ended }
	} else {
		cmd := exec.Command(r.command[0], r.command[1:]...)
		var complaints bytes.Buffer
		cmd.Stdin, cmd.Stderr = in, &complaints
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		var err error
		out, err = cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		r.all.Cleanup(func() { _ = cmd.Process.Kill() }) // mostly it has ended
		wait = func() error {
			err := cmd.Wait()
			if complaints.Len() > 0 {
				err = errors.Join(err, errors.New(complaints.String()))
			}
			return err
		}
	}
	r.all.Cleanup(func() { _ = requests.Close() })
	r.runner = &runner{in: requests, lines: make(chan []byte), wait: wait}
	go func() {
		defer close(r.runner.lines)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			r.runner.lines <- line
		}
	}()
}

func (r *runner) call(t *testing.T, call string, args []byte) (a answer) {
	t.Helper()
	if len(args) == 0 {
		args = []byte("{}")
	}
	var line bytes.Buffer
	line.WriteString(`{"call":"` + call + `","args":`)
	must.OK(t, json.Compact(&line, args)) // keeps escapes as they are
	line.WriteString("}\n")
	_, err := r.in.Write(line.Bytes())
	must.OK(t, err)
	select {
	case text, ok := <-r.lines:
		if !ok {
			t.Fatal("the runner has ended")
		}
		must.OK(t, json.Unmarshal(text, &a))
		return a
	case <-time.After(patience):
		t.Fatal("the runner does not answer")
		return a
	}
}

func (r *runner) end(t *testing.T) {
	must.OK(t, r.in.Close())
	for range r.lines {
		t.Error("the runner has written more than it was asked for")
	}
	must.OK(t, r.wait())
}
