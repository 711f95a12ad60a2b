package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/server/limit"
	"attestd/server/webhook"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/feed"
)

const (
	// interval of saving the progress of webhooks, whose messages a crash may send twice
	progressEvery = time.Second
	// interval of looking for webhooks that should be running and are not
	scanEvery    = time.Minute
	scanOften    = time.Second // the same if other servers enable webhooks too
	closeTimeout = 2 * time.Second
	attemptGrace = time.Second // for a running attempt when the deliverer stops
)

// FormerSecret is how long the previous secret still signs after a rotation.
const FormerSecret = 24 * time.Hour

// Deliverer sends the records of all companies to their webhooks. Each enabled webhook has a
// goroutine that follows its company's action log from the first unsent record, so that a failing
// webhook does not delay others. Run starts and stops them. Of several servers on one database, one
// at a time has this duty.
type Deliverer struct {
	store  *store.Store
	feed   *feed.Feed
	client sender
	saver  *progress[string, store.Progress] // by webhook
	Slots  *limit.Pool                       // places of running webhooks
	most   int64                             // maximum running webhooks; 0 for no bound
	places *places                           // of running attempts
	Pace   *Pace
	log    *slog.Logger
	counts webhookCounts

	changed       chan changedWebhook
	remoteChanges chan int64    // companies that other servers have changed
	duty          chan *db.Held // whether this server must deliver; nil where not
	stopping      chan struct{}
	ended         chan struct{} // closed when run has returned

	onDuty  *db.Held             // nil where another server delivers; owned by run, like running
	running map[string]*delivery // by webhook
}

// sender makes one attempt to send a message; it is a webhook.Client.
type sender interface {
	Send(ctx context.Context, url string, m webhook.Message, by ...webhook.Keys) webhook.Outcome
}

// changedWebhook announces that a webhook has changed. done is closed when deliveries use its new
// state.
type changedWebhook struct {
	store.EnabledWebhook
	done chan struct{}
}

func NewDeliverer(s *store.Store, f *feed.Feed, client sender, most limit.Size, log *slog.Logger) *Deliverer {
	return &Deliverer{
		store:   s,
		feed:    f,
		client:  client,
		saver:   newProgress(s.Webhooks.SaveProgress, log),
		Slots:   limit.NewPool(most),
		most:    most.Most,
		places:  newPlaces(),
		Pace:    new(Pace),
		log:     log,
		changed: make(chan changedWebhook), remoteChanges: make(chan int64), duty: make(chan *db.Held), stopping: make(chan struct{}),
		ended:   make(chan struct{}),
		running: make(map[string]*delivery),
	}
}

// webhookCounts count since the start, and what is now.
type webhookCounts struct{ delivered, failed, disabled, failing atomic.Int64 }

// WebhookStatus is what a server tells its operator about webhooks.
type WebhookStatus struct {
	// webhooks that this server serves, and those of them whose last attempt failed
	Running, Failing int64
	// attempts, and webhooks that were switched off, since the start
	Delivered, Failed, Disabled int64
}

// Status may be called at any time.
func (d *Deliverer) Status() WebhookStatus {
	running, _ := d.Slots.Use()
	return WebhookStatus{running, d.counts.failing.Load(), d.counts.delivered.Load(), d.counts.failed.Load(),
		d.counts.disabled.Load()}
}

// Run delivers until Close is called or ctx is done.
func (d *Deliverer) Run(ctx context.Context) error {
	defer close(d.ended)
	work, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { _ = d.saver.Run(work) }) // returns when work is done
	onDuty, leave := context.WithCancel(ctx)
	background.Go(func() {
		say := func(held *db.Held) {
			select {
			case d.duty <- held:
			case <-onDuty.Done():
			}
		}
		d.store.Duty(onDuty, "webhooks", say, func() { say(nil) })
	})
	defer func() {
		stop()
		for id := range d.running {
			d.stop(id)
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := d.saver.Flush(last); err != nil {
			d.log.Warn("webhook progress not saved; some messages will be sent again with the same IDs", "error", err)
		}
		leave()
		background.Wait()
	}()
	scan := time.NewTicker(scanEvery)
	defer scan.Stop()
	var fresh <-chan time.Time
	if d.store.MultiWriter() {
		often := time.NewTicker(scanOften)
		defer often.Stop()
		fresh = often.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stopping:
			return nil
		case c := <-d.changed:
			d.restart(work, c.EnabledWebhook)
			close(c.done)
		case company := <-d.remoteChanges:
			if company == everyCompany {
				d.startMissing(work)
			} else {
				d.restartChanged(work, company)
			}
		case d.onDuty = <-d.duty:
			d.stopAll(work)
			if d.onDuty != nil {
				d.saver.begin(d.onDuty)
			}
			d.startMissing(work)
		case <-scan.C:
			d.forgetEnded()
			d.startMissing(work)
		case <-fresh:
			d.startMissing(work)
		}
	}
}

// stopAll stops all deliveries, because another server has taken over, or may have meanwhile.
func (d *Deliverer) stopAll(ctx context.Context) {
	for id := range d.running {
		d.stop(id)
	}
	if err := d.saver.Flush(ctx); err != nil {
		d.log.Warn("webhook progress not saved; another server will send some messages again with the same IDs", "error", err)
	}
}

// everyCompany requests a search for webhooks that should be running and are not.
const everyCompany = 0

// recheck returns when deliveries to a company's webhooks follow the changes of another server.
func (d *Deliverer) recheck(company int64) {
	select {
	case d.remoteChanges <- company:
	case <-d.ended:
	}
}

// restartChanged restarts the webhooks of a company that have changed.
func (d *Deliverer) restartChanged(ctx context.Context, company int64) {
	for id, running := range d.running {
		if running.to.Company.Chain != company {
			continue
		}
		found, err := d.store.Webhooks.Delivery(ctx, company, id)
		if err != nil || found.DisabledAt != "" || found.Fingerprint != running.to.Fingerprint || running.hasEnded() {
			d.restart(ctx, store.EnabledWebhook{Company: company, ID: id})
		}
	}
}

// Close stops all deliveries and saves their progress. It is called once, while the store is
// writable.
func (d *Deliverer) Close() {
	close(d.stopping)
	<-d.ended
}

// Apply returns when deliveries to a webhook follow the database. It does not return early if the
// caller leaves, because a deleted webhook would otherwise still receive messages.
func (d *Deliverer) Apply(by store.Caller, id string) {
	c := changedWebhook{store.EnabledWebhook{Company: by.Company.Chain, ID: id}, make(chan struct{})}
	select {
	case d.changed <- c:
		<-c.done
	case <-d.ended:
	}
}

// forgetEnded removes deliveries that were disabled, or could not be. The next scan retries the
// latter.
func (d *Deliverer) forgetEnded() {
	for id, running := range d.running {
		if running.hasEnded() {
			d.stop(id)
		}
	}
}

// startMissing starts the webhooks that should be running. The next scan retries those that cannot
// be read.
func (d *Deliverer) startMissing(ctx context.Context) {
	if d.onDuty == nil {
		return
	}
	for e, err := range d.store.Webhooks.Enabled(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				d.log.Error("webhooks cannot be read; retrying", "error", err)
			}
			return
		}
		if d.running[e.ID] == nil {
			d.restart(ctx, e)
		}
	}
}

// restart stops the deliveries to a webhook, and starts them again according to the database.
func (d *Deliverer) restart(ctx context.Context, e store.EnabledWebhook) {
	d.stop(e.ID)
	if err := d.saver.Flush(ctx); err != nil {
		d.log.Warn("webhook progress not saved", "error", err)
	}
	if d.onDuty == nil {
		return
	}
	found, err := d.store.Webhooks.Delivery(ctx, e.Company, e.ID)
	if err != nil || found.DisabledAt != "" {
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrSuspended) && ctx.Err() == nil {
			d.log.Error("a webhook cannot be read", "webhook", e.ID, "error", err)
		}
		return
	}
	keys, err := keysOf(found, time.Now())
	if err != nil {
		d.log.Error("a webhook has invalid keys", "webhook", e.ID, "error", err)
		return
	}
	if err := d.Slots.Acquire(1, limit.Holder{Company: e.Company}); err != nil {
		d.log.Error("an enabled webhook is not served, because this server has reached its maximum number of webhooks",
			"webhook", e.ID)
		return
	}
	running, cancel := context.WithCancelCause(ctx)
	started := &delivery{Deliverer: d, held: d.onDuty, to: found, keys: keys, at: found.Progress,
		log:    d.log.With("webhook", found.ID, "company", found.Company.ID),
		cancel: cancel, done: make(chan struct{})}
	d.running[e.ID] = started
	go started.run(running)
}

// ErrNoRoom means that as many webhooks are enabled as this server allows.
var ErrNoRoom = errors.New("as many webhooks are enabled as this server allows")

// CheckRoom returns ErrNoRoom for a webhook beyond the server's maximum.
func (d *Deliverer) CheckRoom(ctx context.Context) error {
	if d.most == 0 {
		return nil
	}
	// count in the database, because another server may have the duty
	enabled := int64(0)
	for _, err := range d.store.Webhooks.Enabled(ctx) {
		if err != nil {
			return err
		}
		enabled++
	}
	if enabled >= d.most {
		return ErrNoRoom
	}
	return nil
}

// stop returns when nothing more is sent to a webhook.
func (d *Deliverer) stop(id string) {
	if running := d.running[id]; running != nil {
		running.cancel(errChanged)
		<-running.done
		delete(d.running, id)
		d.Slots.Release(1, limit.Holder{Company: running.to.Company.Chain})
	}
}

// errChanged cancels a delivery whose webhook has changed.
var errChanged = errors.New("the webhook was changed")

// attempt makes one attempt to send a message when there is a place for it, and returns its
// duration. may is asked right before; it may be nil. ok is false if ctx is done or may says no.
// Then a running attempt gets attemptGrace, because a message that is interrupted is sent again. It
// gets none if the webhook has changed, because the changes of all companies are made one after the
// other.
func (d *Deliverer) attempt(
	ctx context.Context, may func(context.Context) bool, to store.Delivery, m webhook.Message, by []webhook.Keys, isFast bool,
) (o webhook.Outcome, took time.Duration, ok bool) {
	release, ok := d.places.acquire(ctx, to.Company.Chain, isFast)
	if !ok {
		return o, 0, false
	}
	defer release()
	if may != nil && !may(ctx) {
		return o, 0, false
	}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == errChanged {
			cancel()
			return
		}
		time.AfterFunc(attemptGrace, cancel)
	})()
	began := time.Now()
	o = d.client.Send(sending, to.URL, m, by...)
	return o, time.Since(began), ctx.Err() == nil || o.Delivered()
}

// StoredSecret returns keys in the form for the store, from which keysOf reads them.
func StoredSecret(k webhook.Keys) store.WebhookSecret {
	return store.WebhookSecret{Bytes: k.Bytes(), Fingerprint: k.Fingerprint(), Public: k.Public()}
}

// keysOf returns the keys that sign for a webhook: the current ones, and the previous ones until
// their end.
func keysOf(d store.Delivery, now time.Time) ([]webhook.Keys, error) {
	current, err := webhook.ParseKeys(d.Secret)
	if err != nil || d.Former == nil || !now.Before(d.Until) {
		return []webhook.Keys{current}, err
	}
	former, err := webhook.ParseKeys(d.Former)
	return []webhook.Keys{current, former}, err
}

// Test makes one attempt to send a message with an ID that is not about a record. ok is false if
// ctx is done.
func (d *Deliverer) Test(ctx context.Context, to store.Delivery, now time.Time) (id string, o webhook.Outcome, ok bool, err error) {
	keys, err := keysOf(to, now)
	if err != nil {
		return "", o, false, err
	}
	body, err := json.Marshal(webhookMessage{"webhook.test", chain.FormatTime(now),
		map[string]any{"companyId": to.Company.ID, "webhookId": to.ID}})
	if err != nil {
		return "", o, false, err
	}
	m := webhook.Message{ID: "msg_" + rand.Text(), Body: body}
	o, _, ok = d.attempt(ctx, nil, to, m, keys, false)
	return m.ID, o, ok, nil
}
