package ledger

import (
	"context"
	"sync"

	"attestd/chain"
	"attestd/store/db"
)

// watched watches a database that other servers write too, as one of a group, until ctx is done. It
// returns publish as it is to be used then, once it is known how long all chains are, or that this
// cannot be read now.
func (l *Ledger) watched(ctx context.Context, group *sync.WaitGroup, o RunOptions, publish func([]chain.Extension, bool)) func([]chain.Extension, bool) {
	w := l.storage.(*pgWriter).watch
	w.Log = l.writer.logger
	w.Extended = func(number, from, to int64) {
		o.Grown(number)
		if company, name := db.LogOf(number); name == db.Control {
			o.Changed(company)
		} else {
			o.Others(number, from, to)
		}
	}
	w.Shrunk = func(chains []int64) {
		l.Forget()
		publish(nil, true)
		for _, number := range chains {
			if _, name := db.LogOf(number); name == db.Actions {
				o.WentBack(number)
			}
		}
	}
	if l.guard != nil {
		l.guard.Watch(w)
	}
	ready := make(chan struct{})
	group.Go(func() { w.Run(ctx, func() { close(ready) }) })
	<-ready
	return func(batch []chain.Extension, external bool) {
		w.Publish(batch, func(left []chain.Extension) { publish(left, external) })
	}
}
