package jobs

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/strictjson"
	"attestd/internal/sleep"
	"attestd/server/webhook"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/feed"
)

const readRetry = time.Second // after a failed read of records

// delivery sends records of both logs to one webhook, one message after the other: a failing
// endpoint has one schedule of retries. It is owned by its goroutine.
type delivery struct {
	*Deliverer
	held    *db.Held // the duty to deliver
	to      store.Delivery
	keys    []webhook.Keys // current keys, then the previous ones while they sign too
	at      store.Progress
	failing bool // a failure was logged
	fast    bool // the last attempt succeeded within fastAnswer
	log     *slog.Logger

	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the end of run
}

func (d *delivery) hasEnded() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// run sends until ctx is done or the webhook is disabled.
func (d *delivery) run(ctx context.Context) {
	defer close(d.done)
	defer d.setFailing(false)
	company := d.to.Company
	next := d.feed.Follow(company.Control.Chain, d.at.NextControl)
	other := d.feed.Follow(company.Actions.Chain, d.at.Next)
	for ctx.Err() == nil {
		cursor, err := feed.Either(ctx, next, other)
		if cursor == next { // the logs take turns, so that neither delays the other
			next, other = other, next
		}
		var records []notice
		if err == nil {
			records, err = d.read(ctx, cursor)
		}
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			d.log.Error("records cannot be read for a webhook; retrying", "error", err)
			if errors.Is(err, feed.ErrBeyond) {
				other = d.fromTheEnd(ctx, cursor)
			}
			_ = sleep.For(ctx, readRetry) // the loop handles ctx
			continue
		}
		for _, r := range records {
			if !d.deliver(ctx, r) {
				return
			}
		}
		// records that were left out end no series of failures
		d.saveProgress(d.at.MovedTo(d.logOf(cursor), cursor.Next()))
	}
}

// logOf returns the name of the log that a cursor reads.
func (d *delivery) logOf(cursor *feed.Cursor) store.LogName {
	if cursor.Chain() == d.to.Company.Control.Chain {
		return store.Control
	}
	return store.Actions
}

// fromTheEnd returns a cursor at the end of a chain that is shorter than the webhook's position.
// Later records are new.
func (d *delivery) fromTheEnd(ctx context.Context, cursor *feed.Cursor) *feed.Cursor {
	head, _, err := d.store.Tip(ctx, cursor.Chain())
	if err != nil {
		return cursor
	}
	return d.feed.Follow(cursor.Chain(), head.Length)
}

// saveProgress records the webhook's progress.
func (d *delivery) saveProgress(at store.Progress) {
	if at != d.at {
		d.at = at
		d.saver.Note(d.to.ID, at)
	}
}

// read returns the notices of the next records of a log. Their payloads stay on disk. It passes
// over records whose payloads were pruned, and logs how many: whether the webhook wants them is
// unknown.
func (d *delivery) read(ctx context.Context, cursor *feed.Cursor) (list []notice, err error) {
	if err := d.Pace.wait(ctx); err != nil {
		return nil, err
	}
	reader := strictjson.NewReader()
	var pruned, last int64
	err = cursor.Read(ctx, func(r *chain.Record) bool {
		if r.IsPruned() {
			pruned, last = pruned+1, r.Index
			return true
		}
		n := notice{log: d.logOf(cursor), index: r.Index, hash: r.Hash, timestamp: r.Timestamp}
		n.agent, n.action = agentAndAction(reader, r.Payload)
		if n.log == store.Control {
			var isSent bool
			if n.agent, isSent = agentConcerned(n.action, r.Payload); !isSent {
				return true
			}
		} else {
			n.approval = approvalAsked(n.action, r.Payload)
		}
		if d.wants(n.agent, n.action) || n.approval != "" && d.wants(n.agent, approvalRequested) {
			list = append(list, n)
		}
		return true
	})
	if pruned > 0 {
		d.log.Warn("a webhook does not send records whose payloads were pruned", "records", pruned, "last", last)
	}
	return list, err
}

// wants reports whether the webhook's filters match an agent and an action.
func (d *delivery) wants(agent, action string) bool {
	return (d.to.Agents == nil || slices.Contains(d.to.Agents, agent)) &&
		(d.to.Actions == nil || slices.ContainsFunc(d.to.Actions, func(wanted string) bool {
			prefix, isPrefix := strings.CutSuffix(wanted, "*")
			return action == wanted || isPrefix && strings.HasPrefix(action, prefix)
		}))
}

// deliver sends one message, and retries until it is accepted. It returns false if nothing more
// must be sent.
func (d *delivery) deliver(ctx context.Context, n notice) bool {
	m, err := n.message(d.to.Webhook, d.to.Company)
	if err != nil { // impossible, because the server has made it
		d.log.Error("a webhook message cannot be created", "log", n.log, "index", n.index, "error", err)
		return false
	}
	for {
		if sleep.For(ctx, time.Until(d.at.RetryAt)) != nil || d.Pace.wait(ctx) != nil {
			return false
		}
		if len(d.keys) > 1 && !time.Now().Before(d.to.Until) {
			d.keys = d.keys[:1]
		}
		o, took, ok := d.attempt(ctx, d.hasDuty, d.to, m, d.keys, d.fast)
		if !ok {
			return false
		}
		// the time of the attempt may have passed while this server was halted
		if !o.Delivered() && !d.hasDuty(ctx) {
			return false
		}
		d.fast = o.Delivered() && took <= fastAnswer
		d.recordOutcome(o)
		if o.Delivered() {
			at := d.at.MovedTo(n.log, n.index+1)
			at.Failed, at.RetryAt = 0, time.Time{}
			d.saveProgress(at)
			return true
		}
		if o.Gone() {
			d.switchOff(ctx, store.WebhookGone)
			return false
		}
		delay, again := webhook.Delay(d.at.Failed+1, o.RetryAfter, rand.Float64())
		if !again {
			d.switchOff(ctx, store.WebhookFailing)
			return false
		}
		at := d.at.MovedTo(n.log, n.index)
		at.Failed, at.RetryAt = at.Failed+1, time.Now().Add(delay)
		d.saveProgress(at)
	}
}

// hasDuty reports whether this server still has the duty to deliver. It waits while the database
// does not say, and returns false if ctx is done.
func (d *delivery) hasDuty(ctx context.Context) bool {
	for {
		err := d.held.Check(ctx)
		if err == nil || errors.Is(err, db.ErrDutyLost) {
			return err == nil
		}
		if sleep.For(ctx, readRetry) != nil {
			return false
		}
	}
}

// recordOutcome logs the first failure of a webhook, and its recovery.
func (d *delivery) recordOutcome(o webhook.Outcome) {
	switch fails := !o.Delivered(); {
	case fails && !d.failing:
		d.log.Warn("a webhook does not accept a message; retrying", "status", o.Status, "failure", o.Failure)
	case !fails && d.failing:
		d.log.Info("a webhook accepts messages again")
	}
	if o.Delivered() {
		d.counts.delivered.Add(1)
	} else {
		d.counts.failed.Add(1)
	}
	d.setFailing(!o.Delivered())
}

// setFailing counts the webhook among those that fail, or not.
func (d *delivery) setFailing(is bool) {
	if is != d.failing {
		d.counts.failing.Add(map[bool]int64{true: 1, false: -1}[is])
	}
	d.failing = is
}

// switchOff disables the webhook, with a control record of the reason. If that cannot be written,
// the last attempt is repeated after the next look.
func (d *delivery) switchOff(ctx context.Context, reason string) {
	_, err := d.store.Webhooks.Disable(ctx, store.Caller{Company: d.to.Company, At: time.Now()}, d.to.ID, reason)
	if err != nil {
		d.log.Error("a webhook cannot be disabled", "reason", reason, "error", err)
		return
	}
	d.counts.disabled.Add(1)
	d.log.Warn("a webhook was disabled", "reason", reason)
}
