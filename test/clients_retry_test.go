package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// What an agent has signed under a key of its caller's has one place in its session, however often
// it is tried while the service is away, and by whichever process: no place is lost to it.
func TestSessionRetryKeepsItsPlace(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for i, script := range []string{"retried.mjs", "retried.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			m := signingMachine(t, s, s.register(t, fmt.Sprint("retries-", i)))
			dir, nobody := filepath.Join(m.folder, "spool"), "http://127.0.0.1:1"
			for _, step := range []struct {
				url, key string
				n        int
				want     []string
			}{
				{nobody, "build 17", 1, []string{"queued", "queued", "left"}},
				{nobody, "build 18", 2, []string{"queued", "queued", "left"}},
				{nobody, "build 17", 1, []string{"queued", "queued", "left"}},
				{nobody, "build 17", 3, []string{"AttestdError", "AttestdError", "left"}},
				{m.URL, "build 18", 2, []string{"0", "0"}},
				// sent, it is no longer known here
				{m.URL, "build 17", 1, []string{"STATEMENT_REUSED", "STATEMENT_REUSED"}},
				{m.URL, "build 19", 4, []string{"2", "STATEMENT_REUSED"}},
			} {
				var texts []string
				printed(t, clientScript(t, script, m.keyFile, step.url, dir, step.key, fmt.Sprint(step.n)), &texts)
				if !slices.Equal(texts, step.want) {
					t.Errorf("%s %d to %s: %q, want %q", step.key, step.n, step.url, texts, step.want)
				}
			}
			if sessions, records, _ := m.check(t, false); sessions != 1 || records != 3 {
				t.Errorf("%d records in %d sessions", records, sessions)
			}
		})
	}
}
