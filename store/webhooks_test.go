package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server/webhook"
	"attestd/store"
)

func webhookSecret() store.WebhookSecret {
	k := webhook.NewKeys()
	return store.WebhookSecret{Bytes: k.Bytes(), Fingerprint: k.Fingerprint(), Public: k.Public()}
}

// A webhook starts after the existing records, receives records of its own company only, and after
// it was disabled continues where it stopped.
func TestWebhooks(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	attest(t, s, acme, 3)
	changed := tipOf(t, s, acme.Control).Length
	admin, stranger := by(acme, now), by(zoo, now)
	secret := webhookSecret()
	about := store.Webhook{URL: "https://hooks.example.com/x?token=1", Agents: []string{"bot"}, Actions: []string{"git.*"}, Description: ptr("mine")}
	made := got(s.Webhooks.Create(ctx, admin, about, secret, 2))(t)
	if made.Next != 3 || made.NextControl != changed || changed == 0 {
		t.Errorf("it begins with record %d, and control record %d of %d", made.Next, made.NextControl, changed)
	}
	got(s.Webhooks.Create(ctx, admin, store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 2))(t)
	if _, err := s.Webhooks.Create(ctx, admin, about, secret, 2); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("a third: %v", err)
	}
	read := got(s.Webhooks.Get(ctx, admin, made.ID))(t)
	if list := all(t, s.Webhooks.List(ctx, admin)); len(list) != 2 || !reflect.DeepEqual(list[0], read) || *read.Description != "mine" ||
		fmt.Sprint(read.Agents, read.Actions) != "[bot] [git.*]" || !read.PublicKey.Equal(secret.Public) || list[1].Agents != nil {
		t.Errorf("%+v", list)
	}
	for does, err := range map[string]error{
		"read":    func() error { _, err := s.Webhooks.Get(ctx, stranger, made.ID); return err }(),
		"disable": func() error { _, err := s.Webhooks.Disable(ctx, stranger, made.ID, store.WebhookGone); return err }(),
		"enable":  func() error { _, _, err := s.Webhooks.Enable(ctx, stranger, made.ID); return err }(),
		"rotate":  func() error { _, err := s.Webhooks.RotateSecret(ctx, stranger, made.ID, secret, now); return err }(),
		"delete":  s.Webhooks.Delete(ctx, stranger, made.ID),
		"deliver": func() error { _, err := s.Webhooks.Delivery(ctx, zoo.Chain, made.ID); return err }(),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another company can %s it: %v", does, err)
		}
	}

	retry := now.Add(5 * time.Minute).Truncate(time.Millisecond)
	must.OK(t, s.Webhooks.SaveProgress(ctx, nil, map[string]store.Progress{made.ID: {Next: 7, NextControl: 9, Failed: 2, RetryAt: retry}, "wh_gone": {Next: 1}}))
	if d := got(s.Webhooks.Delivery(ctx, acme.Chain, made.ID))(t); d.Next != 7 || d.NextControl != 9 || d.Failed != 2 || !d.RetryAt.Equal(retry) || d.Company.ID != "acme" ||
		!bytes.Equal(d.Secret, secret.Bytes) || d.Former != nil {
		t.Errorf("%+v", d)
	}
	got(s.Webhooks.Disable(ctx, admin, made.ID, store.WebhookFailing))(t)
	if d := got(s.Webhooks.Disable(ctx, admin, made.ID, store.WebhookRequested))(t); d.DisabledReason != store.WebhookFailing {
		t.Errorf("disabled twice: %+v", d)
	}
	if list := all(t, s.Webhooks.Enabled(ctx)); len(list) != 1 || list[0].ID == made.ID || list[0].Company != acme.Chain {
		t.Errorf("enabled: %+v", list)
	}
	if h, skipped, err := s.Webhooks.Enable(ctx, admin, made.ID); err != nil || skipped != 0 || h.Next != 7 || h.NextControl != 9 || h.Failed != 0 || !h.RetryAt.IsZero() || h.DisabledAt != "" {
		t.Errorf("enabled: %+v", h)
	}
	next := webhookSecret()
	got(s.Webhooks.RotateSecret(ctx, admin, made.ID, next, now.Add(time.Hour)))(t)
	if d := got(s.Webhooks.Delivery(ctx, acme.Chain, made.ID))(t); !bytes.Equal(d.Secret, next.Bytes) || !bytes.Equal(d.Former, secret.Bytes) || !d.Until.Equal(now.Add(time.Hour).Truncate(time.Millisecond)) {
		t.Errorf("after a change of secrets: %+v", d)
	}
	must.OK(t, s.Webhooks.Delete(ctx, admin, made.ID))

	records := controlRecords(t, s, acme)
	kinds := func(r string) string { kind, _, _ := strings.Cut(r, " "); return kind }
	var said []string
	for _, r := range records {
		if strings.HasPrefix(r, "webhook.") && strings.Contains(r, made.ID) {
			said = append(said, kinds(r))
		}
		if strings.Contains(r, "hooks.example.com") || strings.Contains(r, "token=1") {
			t.Errorf("a record shows the URL: %s", r)
		}
	}
	if want := []string{"webhook.created", "webhook.disabled", "webhook.enabled", "webhook.secret-rotated", "webhook.deleted"}; !slices.Equal(said, want) {
		t.Errorf("records of %q", said)
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	must.OK(t, s.Close())
	if list := all(t, open(t, path).Webhooks.List(ctx, admin)); len(list) != 1 {
		t.Errorf("after a restart: %+v", list)
	}
}
