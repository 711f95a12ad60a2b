package server

import (
	"context"
	"sync"

	"attestd/store"
)

// whileOnDuty runs work whenever this server has a duty, until ctx is done. The context of work
// ends with the duty. Work that takes long to end may still run when the duty, and with it work, is
// back.
func whileOnDuty(ctx context.Context, s *store.Store, duty string, work func(context.Context)) {
	var group sync.WaitGroup
	defer group.Wait()
	end := func() {}
	s.Duty(ctx, duty, func() {
		onDuty, cancel := context.WithCancel(ctx)
		end = cancel
		group.Go(func() { work(onDuty) })
	}, func() { end() })
	end()
}
