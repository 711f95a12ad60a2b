package test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "attestd/sdk/attestd"

	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// signing is a machine on which an agent has a key.
type signing struct {
	*service
	company *client
	folder  string // home
	env     []string
	keyFile string
}

// signingMachine enrols a key of the agent bot on a machine of its own, with a token.
func signingMachine(t *testing.T, s *service, c *client) *signing {
	t.Helper()
	program, err := binary(t)
	must.OK(t, err)
	folder := t.TempDir()
	m := &signing{service: s, company: c, folder: folder, keyFile: filepath.Join(folder, "attestd", "agents", "bot.jwk")}
	m.env = append(withoutAttestd(os.Environ()), "HOME="+folder, "XDG_CONFIG_HOME="+folder, "XDG_STATE_HOME="+folder)
	var made struct{ Token string }
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	c.call(t, 201, "POST", "/v1/agents/bot/enrolments", `{}`, &made)
	enrol := exec.Command(program, "agent-key", "enrol", "--token", made.Token, "--url", s.URL)
	enrol.Env = m.env
	if out, err := enrol.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return m
}

func withoutAttestd(environment []string) (rest []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "ATTESTD_") {
			rest = append(rest, variable)
		}
	}
	return rest
}

// attestd is a command of the machine.
func (m *signing) attestd(t *testing.T, input string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := binary(t)
	must.OK(t, err)
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir, cmd.Stdin = m.env, m.folder, strings.NewReader(input)
	return cmd
}

// killAfter starts a command and kills it after a while, unless it ends before. It reports whether
// it was killed.
func killAfter(t *testing.T, cmd *exec.Cmd, d time.Duration) (killed bool) {
	t.Helper()
	must.OK(t, cmd.Start())
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
	return !cmd.ProcessState.Exited()
}

// check requires that every session in the log has all its places, from 0 on and each once, and
// that each statement names the one before; that nothing waits; and that what was set apart in a
// folder of the Go client, if anything may be, is what statements in the log call refused.
func (m *signing) check(t *testing.T, refusable bool) (sessions, records, refused int) {
	t.Helper()
	places := map[string]map[int64]*statement.Statement{}
	hashes := map[string]string{} // of refused places, by session and seq
	own, err := api.New(api.Config{URL: m.URL, Credential: api.Key(m.company.key)})
	must.OK(t, err)
	defer own.Close()
	for r, err := range own.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		s, err := statement.Parse(r.Payload.Statement)
		must.OK(t, err)
		if places[s.Session] == nil {
			places[s.Session] = map[int64]*statement.Statement{}
		}
		if places[s.Session][s.Seq] != nil {
			t.Errorf("the session %s has %d twice", s.Session, s.Seq)
		}
		places[s.Session][s.Seq] = s
		for _, r := range s.Refused {
			at := fmt.Sprint(s.Session, " ", r.Seq)
			if before, ok := hashes[at]; ok && before != r.Hash {
				t.Errorf("two hashes of the refused place %s", at)
			}
			hashes[at] = r.Hash
		}
		records++
	}
	for id, all := range places {
		last := slices.Max(slices.Collect(maps.Keys(all)))
		for seq := range last + 1 {
			at, hash := all[seq], hashes[fmt.Sprint(id, " ", seq)]
			switch {
			case at == nil && hash == "":
				t.Errorf("the session %s of %d records lacks %d", id, len(all), seq)
				continue
			case at != nil && hash != "":
				t.Errorf("the session %s: %d is recorded, and called refused", id, seq)
			case at != nil:
				hash = at.Hash()
			}
			if next := all[seq+1]; next != nil && next.Previous != hash {
				t.Errorf("the session %s: %d does not name the one before", id, seq+1)
			}
		}
	}
	folders, err := filepath.Glob(filepath.Join(m.folder, "attestd", "*", "spool"))
	must.OK(t, err)
	for _, folder := range folders {
		left, err := spool.Open(folder, own)
		must.OK(t, err)
		apart, err := left.Refused()
		if n := left.Pending(); n > 0 || err != nil || len(apart) > 0 && !refusable {
			t.Errorf("%s: %d wait, refused: %v, %v", folder, n, apart, err)
		}
		for _, a := range apart {
			var it struct{ Statement string }
			must.OK(t, json.Unmarshal(a.Attestation, &it))
			s, err := statement.Parse(it.Statement)
			must.OK(t, err)
			if hashes[fmt.Sprint(s.Session, " ", s.Seq)] != s.Hash() {
				t.Errorf("no statement calls %d of %s refused, which was set apart: %s", s.Seq, s.Session, a.Error)
			}
			refused++
		}
		if damaged, err := os.ReadFile(filepath.Join(folder, "damaged")); err == nil {
			t.Errorf("damaged: %s", damaged)
		}
	}
	if refusable && refused != len(hashes) {
		t.Errorf("%d are set apart, and %d are called refused", refused, len(hashes))
	}
	return len(places), records, len(hashes)
}

// killPoints is at how many moments a signing process is killed.
func killPoints() int { return testenv.Rounds(8, 100) }

// A hook, a run and an MCP proxy that sign are killed at random moments, by SIGKILL. What comes
// after them goes on: no session has a hole, or two statements at one place.
func TestSigningSurvivesKills(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	for name, one := range map[string]struct {
		kill   func(t *testing.T, m *signing, round int, after time.Duration) bool
		finish func(t *testing.T, m *signing)
		starts int // of a process, by finish
	}{
		"hook": {killedHook, finishHook, 3},
		"run":  {killedRun, finishRun, 1},
		"mcp":  {killedMCP, finishMCP, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, storetest.New(t), "--rate-limits", "off")
			m := signingMachine(t, s, s.register(t, "acme"))
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			chance, killed := rand.New(rand.NewPCG(seed, 0)), 0
			began := time.Now()
			one.finish(t, m)
			within := time.Since(began) / time.Duration(one.starts)
			for round := range killPoints() {
				if one.kill(t, m, round, time.Duration(chance.Int64N(int64(within)))) {
					killed++
				}
			}
			one.finish(t, m)
			sessions, records, _ := m.check(t, false)
			t.Logf("killed %d times: %d records in %d sessions", killed, records, sessions)
			if killed == 0 || records == 0 {
				t.Error("no process was killed, or none recorded anything")
			}
		})
	}
}

// hookEvent is a call of a tool by Claude Code, always in one session.
func hookEvent(name string, n int) string {
	return fmt.Sprintf(`{"session_id":"one","hook_event_name":%q,"tool_name":"Bash","tool_use_id":"call-%d","tool_input":{"n":%d}}`, name, n, n)
}

func killedHook(t *testing.T, m *signing, round int, after time.Duration) bool {
	return killAfter(t, m.attestd(t, hookEvent([]string{"PreToolUse", "PostToolUse"}[round%2], round/2), "hook", "--agent", "bot"), after)
}

func finishHook(t *testing.T, m *signing) {
	t.Helper()
	for _, event := range []string{hookEvent("PreToolUse", 1000), hookEvent("PostToolUse", 1000), `{"session_id":"one","hook_event_name":"SessionEnd"}`} {
		if out, err := m.attestd(t, event, "hook", "--agent", "bot").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

func killedRun(t *testing.T, m *signing, _ int, after time.Duration) bool {
	return killAfter(t, m.attestd(t, "", "run", "--agent", "bot", "--", "true"), after)
}

func finishRun(t *testing.T, m *signing) {
	if out, err := m.attestd(t, "", "run", "--agent", "bot", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// mcpServer answers each call.
const mcpServer = `while read -r line; do id=${line#*'"id":'}; echo '{"jsonrpc":"2.0","id":'"${id%%,*}"',"result":{"content":[]}}'; done`

func (m *signing) mcp(t *testing.T, calls int) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd := m.attestd(t, "", "mcp", "--agent", "bot", "--", testenv.Path(t, "sh"), "-c", mcpServer)
	cmd.Stdin = nil
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	go func() {
		for n := range calls {
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":%d}}}`+"\n", n, n); err != nil {
				return
			}
		}
	}()
	return cmd, in
}

func killedMCP(t *testing.T, m *signing, _ int, after time.Duration) bool {
	cmd, in := m.mcp(t, 20)
	defer in.Close()
	return killAfter(t, cmd, after)
}

func finishMCP(t *testing.T, m *signing) {
	cmd, in := m.mcp(t, 3)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	for range 3 {
		if _, err := fmt.Fscanln(out, new(string)); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, in.Close())
	must.OK(t, cmd.Wait())
}

// Processes that share a session of the Go client's spool are killed at random moments, while they
// sign, send and flush, and while the service refuses some of it.
func TestClientSessionSurvivesKills(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	m := signingMachine(t, s, s.register(t, "acme"))
	dir, killed := filepath.Join(m.folder, "attestd", "shared", "spool"), 0
	for range killPoints() {
		// from when it begins to sign, however long it takes to start
		cmd := exec.Command("sessioner", m.keyFile, dir, "")
		cmd.Env, cmd.Stderr = m.env, os.Stderr
		begins, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		_, _ = begins.Read(make([]byte, 1))
		time.AfterFunc(time.Duration(rand.Int64N(int64(400*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		if _ = cmd.Wait(); !cmd.ProcessState.Exited() {
			killed++
		}
	}
	if out, err := exec.Command("sessioner", m.keyFile, dir, "end").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sessions, records, refused := m.check(t, true)
	t.Logf("killed %d times: %d records in %d sessions, %d refused", killed, records, sessions, refused)
	if killed == 0 || sessions != 1 || refused == 0 {
		t.Errorf("killed %d times; %d sessions, want 1; %d refused", killed, sessions, refused)
	}
}

// A process that signs in a session of a client's spool is killed at random moments, while the
// service refuses some of it, and the next one goes on where it was.
func TestOtherClientsSessionsSurviveKills(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for i, script := range []string{"session.mjs", "session.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			m := signingMachine(t, s, s.register(t, fmt.Sprint("sessions-", i)))
			dir, killed := filepath.Join(m.folder, "spool"), 0
			began := time.Now()
			run := func(mode string) *exec.Cmd {
				return clientScript(t, script, m.keyFile, m.URL, dir, mode, foreignDelegation())
			}
			if out, err := run("end").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			within := 3 * time.Since(began)
			for range killPoints() {
				if killAfter(t, run("go"), time.Duration(rand.Int64N(int64(within)))) {
					killed++
				}
			}
			if out, err := run("end").CombinedOutput(); err != nil {
				t.Fatalf("the last flush: %v\n%s", err, out)
			}
			sessions, records, refused := m.check(t, false)
			t.Logf("killed %d times: %d records in %d sessions, %d refused", killed, records, sessions, refused)
			if killed == 0 || sessions != 2 || refused == 0 {
				t.Errorf("killed %d times; %d sessions, want 2: the first ended; %d refused", killed, sessions, refused)
			}
		})
	}
}

// foreignDelegation is a token of the right form that no service has made, so that an attestation
// with it is refused.
func foreignDelegation() string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"EdDSA","typ":"JWT","kid":"`+strings.Repeat("A", 43)+`"}`) + "." +
		part(`{"iss":"spiffe://attestd.local/ca","sub":"spiffe://attestd.local/company/other","aud":["service"],"iat":1,"nbf":1,"exp":2,"jti":"x"}`) + "." +
		part(strings.Repeat("s", 64))
}

// sessioner is a program that signs in one session as fast as it can, from several goroutines, or
// sends all that is left and ends that session. Each tenth attestation is one that the service
// refuses. Its arguments are the file of the key, and a folder.
func sessioner() {
	fail := func(err error) {
		if err != nil && !errors.As(err, new(*spool.ApartError)) && !errors.As(err, new(*spool.RefusedError)) {
			fmt.Fprintln(os.Stderr, "sessioner:", err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	file, err := api.ReadAgentFile(os.Args[1])
	fail(err)
	who := file.Identity()
	who.DPoP = true
	identity, err := api.NewIdentity(who)
	fail(err)
	c, err := api.New(api.Config{URL: file.URL, Credential: identity, Retry: &api.Retry{}})
	fail(err)
	s, err := spool.Open(os.Args[2], c)
	fail(err)
	session, err := s.Session(identity, "shared")
	fail(err)
	if os.Args[3] != "" {
		fail(s.Flush(ctx)) // the end names what was refused
		_, _, err := session.End(ctx, api.Attestation{AgentID: "bot", ActionType: "end", Payload: true})
		fail(err)
		fail(s.Flush(ctx))
		os.Exit(0)
	}
	fmt.Println("begins")
	for who := range 3 {
		go func() {
			for n := 0; ; n++ {
				a := api.Attestation{AgentID: "bot", ActionType: "count", Payload: n}
				if n%10 == 9 {
					a.Delegation = foreignDelegation()
				}
				if who == 0 {
					fail(session.Add(ctx, a))
				} else {
					_, _, err := session.Attest(ctx, a)
					fail(err)
				}
			}
		}()
	}
	for {
		fail(s.Flush(ctx))
	}
}
