package jobs

import (
	"context"
	"log/slog"
	"testing"

	"attestd/internal/testenv"
	"attestd/server/limit"
	"attestd/server/webhook"
)

// A server without the duty to deliver, which so runs no webhook, accepts no more of them than the
// limit either.
func TestWebhooksAreBoundedWithoutTheDuty(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		idle := NewDeliverer(d.store, d.feed, d.attempts, limit.Size{Most: 2}, slog.New(slog.DiscardHandler))
		d.answer(webhook.Outcome{Status: 204})
		for range 2 {
			check(t, idle.CheckRoom(context.Background()))
			d.webhook("https://example.com/")
		}
		if err := idle.CheckRoom(context.Background()); err == nil {
			t.Error("one webhook too many was taken")
		}
	})
}
