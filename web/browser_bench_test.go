package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/testenv"
)

// largeCompany records 50,000 records of 5,000 sessions within the last minutes, so that all of
// them are of the day that the overview is about.
func largeCompany(s *service) (key string) {
	s.t.Helper()
	const sessions, calls = 5000, 5
	key = s.company("acme")
	for i := range 20 {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": fmt.Sprint("agent-", i)})
	}
	s.signer(key, "agent-1", jose.EdDSA, "label", "build machine")
	// At any time some hundred sessions run, as in a company whose agents work at once.
	const together = 100
	for first := 0; first < sessions; first += together {
		var records []any
		for call := range calls {
			for i := first; i < first+together; i++ {
				add := func(action string, payload map[string]any) {
					payload["tool"], payload["callId"] = "Bash", fmt.Sprintf("c-%d-%d", i, call)
					records = append(records, toolCall(fmt.Sprint("agent-", i%20), fmt.Sprint("run-", i), action, payload))
				}
				add("tool.requested", map[string]any{"input": map[string]any{"command": fmt.Sprintf("go test ./pkg/%d -run Call%d", i, call)}})
				switch {
				case call == 3 && i%50 == 7:
					add("tool.denied", map[string]any{"reason": "needs a passport"})
				case call == 4 && i%25 == 3:
					add("tool.failed", map[string]any{"error": "exit status 1"})
				default:
					add("tool.completed", map[string]any{"output": strings.Repeat("ok\n", 20), "durationMs": 1200})
				}
			}
		}
		s.api("POST", "/v1/attest/batch", key, map[string]any{"records": records})
	}
	return key
}

// took does something in the page and returns the milliseconds until the condition holds and what
// it brought is painted.
func (b *browser) took(act, condition string) float64 {
	b.t.Helper()
	ms := eval[float64](b, fmt.Sprintf(`new Promise((done) => {
		const start = performance.now();
		const look = () => {
			if (%[2]s) requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
			else if (performance.now() - start > 60_000) done(-1);
			else requestAnimationFrame(look);
		};
		%[1]s;
		look();
	})`, act, condition))
	if ms < 0 {
		b.t.Fatalf("not seen after %s: %s", act, condition)
	}
	return ms
}

// The console of a company with 50,000 records and 5,000 sessions: each round signs in with an
// empty profile, and opens the pages for the first time. The figures are medians.
func BenchmarkConsoleOfALargeCompany(b *testing.B) {
	testenv.Needs(b, testenv.Slow)
	s := startService(b, "", "")
	key := largeCompany(s)
	const overview = `/^\d+ calls denied, \d+ calls failed/.test(document.querySelector('[data-day]')?.textContent)`
	steps := []struct{ name, act, until string }{
		{"overview", `[...document.querySelectorAll('button')].find((e) => e.textContent.trim() === 'Sign in').click()`, overview},
		{"records", `location.hash = '#/records'`, `document.querySelector('.vlist-row .row-time')?.textContent.length > 8`},
		{"sessions", `location.hash = '#/sessions'`, `document.querySelector('[data-session]')`},
		{"overview-again", `location.hash = '#/start'`, overview},
	}
	ms := map[string][]float64{}
	for b.Loop() {
		tab := openBrowser(b, s.base)
		tab.fill(`input[name="key"]`, key)
		for _, step := range steps {
			ms[step.name] = append(ms[step.name], tab.took(step.act, step.until))
		}
		tab.press("Sign out") // so that it does not follow the log while the next one is measured
	}
	for _, step := range steps {
		all := ms[step.name]
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], "ms/"+step.name)
	}
	b.ReportMetric(0, "ns/op") // seeding and browsers are not what is measured
}
