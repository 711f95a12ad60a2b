package web_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/torchwood"

	"attestd/internal/must"
)

// The overview says that a witness or the head file is out of step, and leads to what is behind it.
func TestBrowserOverviewShowsWitnessesAndHeadFile(t *testing.T) {
	signer, err := torchwood.NewCosignatureSigner("witness.example", ed25519.NewKeyFromSeed(make([]byte, 32)))
	must.OK(t, err)
	heads := filepath.Join(t.TempDir(), "heads")
	must.OK(t, os.MkdirAll(filepath.Join(heads+".new", "in the way"), 0o700))
	s := startService(t, "", "", "--heads", heads, "--witness", "http://127.0.0.1:1/v1/witness="+signer.Verifier().String())
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(s.api("POST", "/v1/keys", key, map[string]any{"role": "reader"})["key"].(string))
	b.reads(`[data-attention]`, "The service cannot write its head file")
	b.wait(`(document.querySelector('[data-attention]')?.innerText.includes('1 witness that does not cosign every log')
		|| void [...document.querySelectorAll('button')].find((e) => e.textContent === 'Refresh' && !e.disabled)?.click())`)
	b.press("1 witness that does not cosign every log")
	b.reads("h1", "Checkpoints")
	b.reads("main", "No witness has cosigned this checkpoint.")
	b.goTo("#/start")
	b.press("The service cannot write its head file")
	b.reads("main", "Check that the service can write")
}

// What the service says that it found of all companies is shown by number, and as text alone; a
// service that says nothing is not called well.
func TestBrowserOverviewShowsStateOfService(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	for _, c := range []struct{ answer, shows string }{
		{`{"status":"degraded","rolledBack":1,"witnessAlarms":2}`, "2 logs contested by a witness"},
		{`{"status":"<script>violations.push('script ran')</script>"}`, "<script>"},
		{`{"status":["ready"]}`, "The state of the service could not be read"},
	} {
		b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
			if path == "/readyz" {
				return []byte(c.answer)
			}
			return answer
		}))
		b.signIn(key)
		b.reads(`[data-attention]`, c.shows)
	}
}
