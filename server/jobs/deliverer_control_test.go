package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/internal/testenv"
	"attestd/server/webhook"
	"attestd/store"
	"attestd/store/storetest"
)

// register registers an agent, of which no webhook has a message.
func (d *delivering) register(agentID string) {
	d.t.Helper()
	_, err := d.store.Agents.Register(d.t.Context(), d.by, agentID, nil, store.AgentBounds{Most: 100})
	check(d.t, err)
}

// enrol enrols a key of an agent, and returns its thumbprint.
func (d *delivering) enrol(agentID string) string {
	d.t.Helper()
	private, err := jose.GenerateKey(jose.EdDSA)
	check(d.t, err)
	key := store.AgentKey{Thumbprint: private.Key().Thumbprint, AgentID: agentID, JWK: json.RawMessage(private.Key().JWK())}
	_, err = d.store.AgentKeys.Enrol(d.t.Context(), d.by, key, nil, nil)
	check(d.t, err)
	return key.Thumbprint
}

func (d *delivering) revoke(agentID, thumbprint string) {
	d.t.Helper()
	_, err := d.store.AgentKeys.Revoke(d.t.Context(), d.by, agentID, thumbprint, store.Revocation{})
	check(d.t, err)
}

// keyEvents returns the indexes of the control records about keys.
func (d *delivering) keyEvents() (indexes []string) {
	d.t.Helper()
	check(d.t, d.store.Records(d.t.Context(), d.by.Company.Control.Chain, 0, 1<<20, func(r *chain.Record) error {
		if strings.Contains(string(r.Payload), `"actionType":"agent-key.`) {
			indexes = append(indexes, fmt.Sprint(r.Index))
		}
		return nil
	}))
	return indexes
}

// However often deliveries end without a word, as by a kill, no event of a key is missed, each log
// comes in order, and what comes twice has the ID that it had.
func TestWebhooksMissNoKeyEventOverCrashes(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		d.register("bot")
		d.revoke("bot", d.enrol("bot")) // before the webhook
		before := len(d.keyEvents())
		d.webhook("https://hooks.example/")
		const crashes, each = 4, 5
		var actions, events []string
		seen := map[string]bool{}
		round := func() {
			for range each {
				d.append(1)
				d.revoke("bot", d.enrol("bot"))
			}
		}
		for n := range crashes {
			round()
			time.Sleep(1700 * time.Millisecond) // so that some progress is saved, and some is not
			round()
			if n%2 == 0 {
				synctest.Wait()
			}
			d.killed.Store(true)
			d.halt()
			round() // while no deliverer runs
			d.start()
			for _, a := range d.take() {
				if seen[a.id] {
					continue
				}
				seen[a.id] = true
				if parts := strings.Split(a.id, "_"); parts[2] == "control" {
					events = append(events, parts[3])
				} else {
					actions = append(actions, parts[2])
				}
			}
		}
		if want := d.keyEvents()[before:]; len(want) != crashes*3*each*2 || fmt.Sprint(events) != fmt.Sprint(want) {
			t.Errorf("events of keys: %v, want %v", events, want)
		}
		var want []string
		for i := range crashes * 3 * each {
			want = append(want, fmt.Sprint(i))
		}
		if fmt.Sprint(actions) != fmt.Sprint(want) {
			t.Errorf("records: %v", actions)
		}
	})
}

// An endpoint that fails has one schedule for the messages of both logs, over restarts too, and is
// disabled once. Control records that no webhook sends end no series of failures.
func TestFailingWebhookHasOneScheduleForBothLogs(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	deliver(t, func(t *testing.T, d *delivering) {
		d.answer(webhook.Outcome{Status: 500})
		d.register("bot")
		id := d.webhook("https://bad.example/")
		d.append(1)
		began := time.Now()
		synctest.Wait()
		for n := range 3 {
			time.Sleep(time.Hour)
			d.register(fmt.Sprintf("bot-%d", n))
			if n > 0 {
				d.enrol("bot")
			}
			d.halt()
			d.start()
		}
		time.Sleep(4 * 24 * time.Hour)
		want := []time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}
		sent, last, logs := d.take(), began, map[bool]int{}
		if len(sent) != len(want) {
			t.Fatalf("%d attempts", len(sent))
		}
		for i, a := range sent {
			if gap := a.at.Sub(last); gap < want[i].Truncate(time.Millisecond) || gap > want[i]+want[i]/10+10*time.Millisecond {
				t.Errorf("attempt %d after %v, want %v and up to a tenth more", i, gap, want[i])
			}
			last = a.at
			logs[strings.Contains(a.id, "_control_")]++
		}
		disabled := 0
		check(t, d.store.Records(t.Context(), d.by.Company.Control.Chain, 0, 100, func(r *chain.Record) error {
			if strings.Contains(string(r.Payload), "webhook.disabled") {
				disabled++
			}
			return nil
		}))
		if h := d.state(id); h.DisabledReason != store.WebhookFailing || h.Next != 0 || disabled != 1 || len(logs) != 2 {
			t.Errorf("at last %+v, disabled %d times, attempts %v", h, disabled, logs)
		}

		// Enabled again, it has missed nothing.
		d.answer(webhook.Outcome{Status: 204})
		_, _, err := d.store.Webhooks.Enable(t.Context(), d.by, id)
		check(t, err)
		d.Apply(d.by, id)
		var events []string
		records := 0
		for _, a := range d.take() {
			if parts := strings.Split(a.id, "_"); parts[2] == "control" {
				events = append(events, parts[3])
			} else {
				records++
			}
		}
		if fmt.Sprint(events) != fmt.Sprint(d.keyEvents()) || records != 1 {
			t.Errorf("enabled again: events %v, want %v; %d records", events, d.keyEvents(), records)
		}
	})
}

// A webhook that is beyond the end of the control log, as only a changed file makes it, continues
// with what is appended from then on, and with the other log at once.
func TestWebhookBeyondTheControlLog(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		d.register("bot")
		id := d.webhook("https://hooks.example/")
		d.enrol("bot")
		synctest.Wait()
		d.halt()
		d.take()
		check(t, d.store.Webhooks.SaveProgress(t.Context(), nil, map[string]store.Progress{id: {NextControl: 500}}))
		d.append(1)
		d.start()
		time.Sleep(5 * time.Second)
		d.enrol("bot")
		time.Sleep(5 * time.Second)
		events := d.keyEvents()
		if sent := d.take(); len(sent) != 2 || !strings.Contains(sent[0].id, "_0_") || !strings.Contains(sent[1].id, "_control_"+events[1]+"_") {
			t.Errorf("%+v", sent)
		}
	})
}

// A webhook whose position is before records with pruned payloads skips them, and gets the next
// ones.
func TestWebhookPassesOverPrunedRecords(t *testing.T) {
	deliver(t, func(t *testing.T, d *delivering) {
		d.halt()
		d.webhook("https://one.example/")
		d.append(5)
		number := d.by.Company.Actions.Chain
		check(t, storetest.Stranger(t, d.path, `DROP TRIGGER record_no_update`,
			fmt.Sprintf(`UPDATE record SET payload = '' WHERE id BETWEEN %d AND %d`, number<<40, number<<40|2)).Close())
		d.start()
		synctest.Wait()
		var sent []string
		for _, a := range d.take() {
			sent = append(sent, strings.Split(a.id, "_")[2])
		}
		if got := strings.Join(sent, " "); got != "3 4" {
			t.Errorf("sent: %s", got)
		}
	})
}
