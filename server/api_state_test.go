package server_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store/storetest"
)

// The state that the doctor reads over the local socket names no company and no agent, and has no
// secret, whatever is wrong: with a log that does not verify, changed tables, and a head file that
// is behind.
func TestStateHasNoIdentities(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s, operator := startLocal(t, verifyEvery(time.Millisecond), func(c *server.Config) {
		c.Registration.Token = "token-of-secrets"
	})
	acme := s.company(t, "acme-of-secrets")
	acme.agent(t, "bot-of-secrets")
	acme.recordMany(t, 3)
	var answer string
	shows := func(what string, ok func(failing int, reasons string) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			state, err := operator.State(t.Context())
			must.OK(t, err)
			text, err := json.Marshal(state)
			must.OK(t, err)
			answer = string(text)
			for _, secret := range []string{"of-secrets", acme.credential, acme.credential[len(acme.credential)-16:]} {
				if strings.Contains(answer, secret) {
					t.Fatalf("said: %s", answer)
				}
			}
			return ok(state.Verification.Failing, state.Readiness+" "+strings.Join(state.Reasons, " "))
		})
	}
	shows("ready", func(_ int, reasons string) bool { return reasons == "ready " })
	changeRecord(t, s.path, 1, 1, false)
	shows("a log does not verify", func(failing int, reasons string) bool {
		return failing == 1 && strings.Contains(reasons, "LOG_FAILED")
	})
	second := storetest.Heads(s.path)
	must.OK(t, os.Remove(second))
	must.OK(t, os.Mkdir(second, 0o700))
	acme.do(t, "POST /v1/agents/register", `{"agentId":"other-of-secrets"}`).status(201)
	shows("the head file is behind", func(_ int, reasons string) bool { return strings.Contains(reasons, "HEAD_FILE_BEHIND") })
	must.OK(t, storetest.Stranger(t, s.path, `UPDATE agent SET registered_at = '2020-01-01T00:00:00.000Z' WHERE agent_id = 'bot-of-secrets'`).Close())
	shows("the tables were changed", func(_ int, reasons string) bool { return strings.Contains(reasons, "TABLES_CHANGED") })
	for _, has := range []string{`"program":"attestd/1.2.3-test"`, `"verification":`, `"limits":`} {
		if !strings.Contains(answer, has) {
			t.Errorf("%s is not in %s", has, answer)
		}
	}
}
