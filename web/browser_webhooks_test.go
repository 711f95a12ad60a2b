package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A webhook is created with a secret that is shown once, tested, switched off and on, given another
// secret, and deleted. The page shows how far it has come and which answers its endpoint gives, and
// nothing of it is markup.
func TestBrowserWebhooks(t *testing.T) {
	var answer atomic.Int64
	answer.Store(http.StatusNoContent)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(answer.Load()))
	}))
	t.Cleanup(endpoint.Close)
	s := startService(t, "", "", "--webhooks-allow-private")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/webhooks")
	b.shows(`[data-webhooks="0"]`)
	b.fill(`[name=url]`, "ftp://example.com")
	b.press("Create webhook")
	b.reads(`[role=alert]`, "url")
	b.fill(`[name=url]`, endpoint.URL)
	b.fill(`[name=description]`, "<script>violations.push('script ran')</script>")
	b.fill(`[name=actions]`, "action.*, other")
	b.press("Create webhook")
	b.shows(`[data-webhook]`)
	b.reads(`[aria-label="New webhook"] .value`, "whsec_")
	b.reads(`[data-webhook]`, "action.*, other")
	s.attest(key, 3)
	b.waitForDelivery("record 2")
	b.press("Send a test")
	b.reads(`[data-webhook] [role=status]`, "accepted the test (status 204)")
	answer.Store(http.StatusInternalServerError)
	b.press("Send a test")
	b.reads(`[data-webhook] [role=alert]`, "not delivered: status 500")
	b.press("Disable")
	b.reads(`[data-webhook]`, "disabled on request")
	answer.Store(http.StatusNoContent)
	b.press("Enable")
	b.reads(`[data-webhook]`, "delivering")
	before := s.webhook(key)["fingerprint"]
	b.press("Rotate secret")
	b.shows(`dialog.confirm`)
	b.press("Rotate")
	b.reads(`main`, "The former secret signs for another day")
	if after := s.webhook(key)["fingerprint"]; after == before {
		t.Error("the secret is the same")
	}
	b.press("Delete")
	b.shows(`dialog.confirm`)
	b.press("Delete webhook")
	b.shows(`[data-webhooks="0"]`)
}

// webhook returns the only webhook of a company.
func (s *service) webhook(key string) map[string]any {
	s.t.Helper()
	all := s.api("GET", "/v1/webhooks", key, nil)["webhooks"].([]any)
	if len(all) != 1 {
		s.t.Fatal(all)
	}
	return all[0].(map[string]any)
}

// waitForDelivery presses Refresh until the page shows that a record is delivered.
func (b *browser) waitForDelivery(record string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(() => {
		[...document.querySelectorAll('button')].find((e) => e.textContent === 'Refresh').click();
		return document.querySelector('[data-webhook]')?.innerText.includes(%q);
	})()`, record))
}
