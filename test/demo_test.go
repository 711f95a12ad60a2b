package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// madeDemo is what attestd demo --json prints.
type madeDemo struct {
	CompanyID, APIKey, Fingerprint, Console string
	AgentKeys                               map[string]string
}

func playDemo(t *testing.T, s *service, args ...string) (made madeDemo) {
	t.Helper()
	out, err := attestd(t, append([]string{"demo", "--url", s.URL, "--json"}, args...)...)
	must.OK(t, err)
	must.OK(t, json.Unmarshal([]byte(out), &made))
	return made
}

// A demo company has what it says, and its logs verify. A second one has the next name, and
// without a server the command says how to start one.
func TestDemo(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	s := serve(t, path) // with the rate limits that everybody has
	made := playDemo(t, s)
	if made.CompanyID != "demo" || made.Console != s.URL+"/#/start?fingerprint="+made.Fingerprint || !strings.HasPrefix(made.Fingerprint, "SHA256:") || len(made.AgentKeys) != 2 {
		t.Errorf("%+v", made)
	}
	c := s.client(t, made.APIKey)
	var counted struct {
		Total     int
		TopAgents []struct{ AgentID string }
	}
	c.call(t, 200, "GET", "/v1/records/histogram?by=agent", "", &counted)
	if counted.Total != 39 || len(counted.TopAgents) != 5 || counted.TopAgents[0].AgentID != "coder" {
		t.Errorf("%+v", counted)
	}
	for _, log := range []string{"actions", "control"} {
		var verdict struct{ Valid bool }
		if c.call(t, 200, "GET", "/v1/verify?log="+log, "", &verdict); !verdict.Valid {
			t.Errorf("the log %s does not verify", log)
		}
	}
	if out, err := attestd(t, "verify", "--db", path); err != nil {
		t.Errorf("attestd verify: %v\n%s", err, out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", s.URL, "--company", "demo"}, "Company already exists: demo; choose another name with --company"},
		{[]string{"--url", s.URL, "--company", "a b"}, "companyId"},
		{[]string{"--url", "http://127.0.0.1:1"}, "start attestd serve"},
		{[]string{"--url", "ftp://x"}, "must look like https://"},
	} {
		if _, err := attestd(t, append([]string{"demo"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if again := playDemo(t, s); again.CompanyID != "demo-2" {
		t.Errorf("a second demo is %s", again.CompanyID)
	}
	out, err := attestd(t, "demo", "--url", s.URL, "--company", "second")
	must.OK(t, err)
	if !strings.Contains(out, "company      second\n") || !strings.Contains(out, "API key      svc_") || !strings.Contains(out, "#/start?fingerprint=SHA256:") || !strings.Contains(out, " of deploy-bot\n") {
		t.Error(out)
	}
}

// The story of the demo has agents' own keys, sealed sessions, a call that was denied, one that
// failed, one that ran although it was refused, delegations, a person, and a witness; the checkers
// say the same of them. Its days are those of the payloads, and the log has its own times.
func TestStoryOfDemo(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	s := serve(t, storetest.New(t))
	began := time.Now()
	made := playDemo(t, s)
	if took := time.Since(began); took > 10*time.Second { // less than 2 s on a quiet machine
		t.Errorf("it took %s", took)
	}
	c := s.client(t, made.APIKey)

	var listed struct {
		Sessions []struct{ AgentID, Kid, Sid, State string }
	}
	c.call(t, 200, "GET", "/v1/sessions", "", &listed)
	var states []string
	for _, one := range listed.Sessions {
		states = append(states, one.AgentID+" "+one.Sid+" "+one.State)
		if one.Kid != "" && one.Kid != made.AgentKeys[one.AgentID] {
			t.Errorf("the session %s is under the key %s", one.Sid, one.Kid)
		}
	}
	slices.Sort(states)
	if want := []string{"coder shop-142 sealed", "deploy-bot release-1.42.1 sealed", "deploy-bot rollback-1.42.0 sealed", "deploy-bot week sealed", "on-call incident-7 disobeyed"}; !slices.Equal(states, want) {
		t.Errorf("the sessions are %q", states)
	}

	var chain struct {
		Records []struct {
			Index     int64
			Timestamp time.Time
			Payload   struct {
				AgentID, ActionType string
				Payload             struct {
					At                   time.Time
					Witness, Checkpoint  string
					CallID, Tool, Reason string
				}
			}
			Delegation struct{ DelegationChain []string }
		}
	}
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	actions := map[string]int{}
	chains := map[string]int{}
	var witnessed []int64
	var last time.Time
	for _, r := range chain.Records {
		at := r.Payload.Payload.At
		if at.Before(last) || at.After(began) || at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			t.Errorf("record %d tells of %s", r.Index, at)
		}
		if r.Timestamp.Before(began.Add(-time.Minute)) || r.Timestamp.After(time.Now().Add(time.Minute)) {
			t.Errorf("record %d was received at %s", r.Index, r.Timestamp)
		}
		last = at
		actions[r.Payload.ActionType]++
		if n := len(r.Delegation.DelegationChain); n > 0 {
			chains[r.Delegation.DelegationChain[0]+" "+r.Payload.AgentID]++
		}
		if text := r.Payload.Payload.Checkpoint; text != "" {
			witnessed = append(witnessed, cosignedSize(t, c, text, r.Payload.Payload.Witness))
		}
	}
	if last.Sub(chain.Records[0].Payload.Payload.At) < 4*24*time.Hour || last.Weekday() != time.Friday {
		t.Errorf("the story ends at %s", last)
	}
	if actions["tool.denied"] != 2 || actions["tool.failed"] != 1 {
		t.Errorf("%v", actions)
	}
	if want := map[string]int{"https://id.shop.example#alice on-call": 2, "spiffe://attestd.local/company/demo planner": 4}; fmt.Sprint(chains) != fmt.Sprint(want) {
		t.Errorf("the delegations are %v", chains)
	}
	// the witness saw the whole log each time, and that it only grew
	if want := []int64{22, 38}; !slices.Equal(witnessed, want) {
		t.Errorf("the witness has cosigned %v", witnessed)
	}

	dir, reader := t.TempDir(), c
	for _, c := range []struct {
		agent, sid string
		status     int
		message    string
	}{
		{"coder", "shop-142", 0, "complete"},
		{"deploy-bot", "week", 0, "complete"},
		{"on-call", "incident-7", 0, "a call that was refused ran all the same"},
	} {
		file := filepath.Join(dir, c.sid)
		must.OK(t, os.WriteFile(file, reader.call(t, 200, "GET", "/v1/sessions/"+c.agent+"/"+c.sid, "", nil), 0o600))
		args := []string{"check", "--key", made.Fingerprint, file}
		if key := made.AgentKeys[c.agent]; key != "" {
			args = append(args, "--agent-key", key)
		}
		out, err := attestd(t, args...)
		if (err == nil) != (c.status == 0) || !strings.Contains(out, c.message) {
			t.Errorf("%s: %v\n%s", c.sid, err, out)
		}
	}
}

// cosignedSize verifies the signatures of log and witness below a checkpoint.
func cosignedSize(t *testing.T, c *client, checkpoint, witness string) int64 {
	t.Helper()
	var logs struct{ Logs []struct{ VKeys []string } }
	c.call(t, 200, "GET", "/v1/logs", "", &logs)
	policy, err := tlog.ParsePolicy([]byte("log " + logs.Logs[0].VKeys[0] + "\nwitness w " + witness + "\nquorum w\n"))
	must.OK(t, err)
	opened, err := policy.Open([]byte(checkpoint))
	must.OK(t, err)
	if !opened.Quorum {
		t.Error("the witness has not cosigned it")
	}
	return opened.Size
}
