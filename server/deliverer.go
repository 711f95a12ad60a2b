package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"attestd/server/limit"
	"attestd/server/webhook"
	"attestd/store"
	"attestd/store/feed"
)

const (
	// how often it is kept how far webhooks have come: what a crash may have sent a second time
	progressEvery = time.Second
	// how often it is looked for webhooks that should be running and are not
	lookEvery    = time.Minute
	lookOften    = time.Second // the same where other servers enable webhooks too
	closeTimeout = 2 * time.Second
	attemptGrace = time.Second // for an attempt that is under way when it is to stop
)

// deliverer sends the records of all companies to their webhooks. Each webhook that is enabled has
// a goroutine, which follows its company's actions from the record that was not sent yet; so one
// that fails holds up no other. run starts and stops them all. Of several servers on one database
// one at a time has this duty.
type deliverer struct {
	store  *store.Store
	feed   *feed.Feed
	client sender
	keeper *feed.Keeper[string, store.Progress] // by webhook
	seats  *limit.Pool                          // of webhooks that run
	most   int64                                // of them, 0 for no bound
	places *places                              // of attempts under way
	pace   pace
	log    *slog.Logger

	changed  chan changedWebhook
	others   chan int64 // companies of which other servers have changed something
	duty     chan bool  // whether this server is to deliver from now on
	stopping chan struct{}
	ended    chan struct{} // closed when run has returned

	onDuty  bool                 // owned by run, as is running
	running map[string]*delivery // by webhook
}

// sender makes one attempt at a message; a webhook.Client.
type sender interface {
	Send(ctx context.Context, url string, m webhook.Message, by ...webhook.Keys) webhook.Outcome
}

// changedWebhook says that a webhook is not as it was; done is closed when what is sent to it is as
// it is now.
type changedWebhook struct {
	store.EnabledWebhook
	done chan struct{}
}

func newDeliverer(s *store.Store, f *feed.Feed, client sender, most limit.Size, log *slog.Logger) *deliverer {
	return &deliverer{
		store:   s,
		feed:    f,
		client:  client,
		keeper:  feed.NewKeeper(progressEvery, s.Webhooks.SaveProgress, log),
		seats:   limit.NewPool(most),
		most:    most.Most,
		places:  newPlaces(),
		log:     log,
		changed: make(chan changedWebhook), others: make(chan int64), duty: make(chan bool), stopping: make(chan struct{}), ended: make(chan struct{}),
		running: make(map[string]*delivery),
	}
}

// run delivers until close is called or ctx is done.
func (d *deliverer) run(ctx context.Context) error {
	defer close(d.ended)
	work, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { _ = d.keeper.Run(work) }) // returns when work is done, and not before
	onDuty, leave := context.WithCancel(ctx)
	keeping.Go(func() {
		say := func(is bool) func() {
			return func() {
				select {
				case d.duty <- is:
				case <-onDuty.Done():
				}
			}
		}
		d.store.Duty(onDuty, "webhooks", say(true), say(false))
	})
	defer func() {
		stop()
		for id := range d.running {
			d.stop(id)
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := d.keeper.Flush(last); err != nil {
			d.log.Warn("it is not kept how far webhooks have come: some messages will be sent again, under the same IDs", "error", err)
		}
		leave()
		keeping.Wait()
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var fresh <-chan time.Time
	if d.store.MultiWriter() {
		often := time.NewTicker(lookOften)
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
		case company := <-d.others:
			d.lookAt(work, company)
		case d.onDuty = <-d.duty:
			if !d.onDuty {
				d.stopAll(work)
			}
			d.lookForMore(work)
		case <-look.C:
			d.forgetEnded()
			d.lookForMore(work)
		case <-fresh:
			d.lookForMore(work)
		}
	}
}

// stopAll ends all deliveries, for another server makes them now.
func (d *deliverer) stopAll(ctx context.Context) {
	for id := range d.running {
		d.stop(id)
	}
	if err := d.keeper.Flush(ctx); err != nil {
		d.log.Warn("it is not kept how far webhooks have come: another server sends some messages again, under the same IDs", "error", err)
	}
}

// recheck returns when what is sent to the webhooks of a company is as another server has made it.
func (d *deliverer) recheck(company int64) {
	select {
	case d.others <- company:
	case <-d.ended:
	}
}

// lookAt begins again with those webhooks of a company that are not as they were.
func (d *deliverer) lookAt(ctx context.Context, company int64) {
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

// close ends all deliveries, keeps how far they have come, and returns when that is done. It is
// called once, while the store is still written.
func (d *deliverer) close() {
	close(d.stopping)
	<-d.ended
}

// apply returns when what is sent to a webhook is as the file says: also where the caller has left
// meanwhile, or what was deleted would be sent on.
func (d *deliverer) apply(by store.Caller, id string) {
	c := changedWebhook{store.EnabledWebhook{Company: by.Company.Chain, ID: id}, make(chan struct{})}
	select {
	case d.changed <- c:
		<-c.done
	case <-d.ended:
	}
}

// forgetEnded forgets what was switched off, or should have been and could not: the next look asks
// such an endpoint once more.
func (d *deliverer) forgetEnded() {
	for id, running := range d.running {
		if running.hasEnded() {
			d.stop(id)
		}
	}
}

// lookForMore starts what should be running. What cannot be read is left for the next look.
func (d *deliverer) lookForMore(ctx context.Context) {
	if !d.onDuty {
		return
	}
	for e, err := range d.store.Webhooks.Enabled(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				d.log.Error("webhooks cannot be read; it is tried again", "error", err)
			}
			return
		}
		if d.running[e.ID] == nil {
			d.restart(ctx, e)
		}
	}
}

// restart stops what is sent to a webhook, and begins again as the file says.
func (d *deliverer) restart(ctx context.Context, e store.EnabledWebhook) {
	d.stop(e.ID)
	if err := d.keeper.Flush(ctx); err != nil {
		d.log.Warn("it is not kept how far webhooks have come", "error", err)
	}
	if !d.onDuty {
		return
	}
	found, err := d.store.Webhooks.Delivery(ctx, e.Company, e.ID)
	if err != nil || found.DisabledAt != "" {
		if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			d.log.Error("a webhook cannot be read", "webhook", e.ID, "error", err)
		}
		return
	}
	keys, err := keysOf(found, time.Now())
	if err != nil {
		d.log.Error("a webhook has no good keys", "webhook", e.ID, "error", err)
		return
	}
	if err := d.seats.Take(1, limit.Holder{Company: e.Company}); err != nil {
		d.log.Error("a webhook is enabled and not sent anything: there are as many as this server allows", "webhook", e.ID)
		return
	}
	running, cancel := context.WithCancelCause(ctx)
	started := &delivery{deliverer: d, to: found, keys: keys, at: found.Progress, log: d.log.With("webhook", found.ID, "company", found.Company.ID),
		cancel: cancel, done: make(chan struct{})}
	d.running[e.ID] = started
	go started.run(running)
}

// checkRoom refuses what would be one webhook too many for the server.
func (d *deliverer) checkRoom(ctx context.Context) error {
	if d.most == 0 {
		return nil
	}
	// in the database: this server may have no webhook running, for another has the duty
	enabled := int64(0)
	for _, err := range d.store.Webhooks.Enabled(ctx) {
		if err != nil {
			return err
		}
		enabled++
	}
	if enabled >= d.most {
		return unavailable("NOT_DONE", "as many webhooks are enabled as this server allows", nil).with("Retry-After", "600")
	}
	return nil
}

// stop returns when nothing more is sent to a webhook.
func (d *deliverer) stop(id string) {
	if running := d.running[id]; running != nil {
		running.cancel(errChanged)
		<-running.done
		delete(d.running, id)
		d.seats.Give(1, limit.Holder{Company: running.to.Company.Chain})
	}
}

// errChanged is why nothing more is sent as a webhook was.
var errChanged = errors.New("the webhook was changed")

// attempt makes one attempt at a message when there is a place for it, and says how long that took;
// it is not ok when ctx is done. One that is under way then has a moment left, for what is broken
// off is sent again; but not when the webhook was changed, for changes are made one after the
// other, those of all companies.
func (d *deliverer) attempt(ctx context.Context, to store.Delivery, m webhook.Message, by []webhook.Keys, isFast bool) (o webhook.Outcome, took time.Duration, ok bool) {
	give, ok := d.places.take(ctx, to.Company.Chain, isFast)
	if !ok {
		return o, 0, false
	}
	defer give()
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

// keysOf are the keys that sign for a webhook: its own, and the ones before them until their time
// is over.
func keysOf(d store.Delivery, now time.Time) ([]webhook.Keys, error) {
	current, err := webhook.ParseKeys(d.Secret)
	if err != nil || d.Former == nil || !now.Before(d.Until) {
		return []webhook.Keys{current}, err
	}
	former, err := webhook.ParseKeys(d.Former)
	return []webhook.Keys{current, former}, err
}
