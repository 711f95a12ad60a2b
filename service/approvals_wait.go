package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"attestd/store"
)

// ApprovalWaiters wakes requests that wait for the decision of an approval. A request that waits
// holds no connection to the database.
type ApprovalWaiters struct {
	mu      sync.Mutex
	waiting map[int64]map[chan struct{}]bool // by company
	all     int
	closed  bool
}

const (
	// MaxWaiters and MaxWaitersOfCompany bound the requests that wait.
	MaxWaiters          = 10_000
	MaxWaitersOfCompany = 1_000

	// approvalPoll is after how long a request that waits looks again by itself, as what other
	// servers write may be heard of late.
	approvalPoll = 5 * time.Second
)

// ErrWaiters means that too many requests wait.
var ErrWaiters = errors.New("too many requests wait for approvals")

// join adds a request of a company that waits.
func (w *ApprovalWaiters) join(company int64) (woken chan struct{}, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.waiting[company]
	if w.closed || w.all >= MaxWaiters || len(of) >= MaxWaitersOfCompany {
		return nil, nil, ErrWaiters
	}
	if of == nil {
		of = map[chan struct{}]bool{}
		if w.waiting == nil {
			w.waiting = map[int64]map[chan struct{}]bool{}
		}
		w.waiting[company] = of
	}
	woken = make(chan struct{}, 1)
	of[woken] = true
	w.all++
	return woken, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(of, woken)
		if w.all--; len(of) == 0 {
			delete(w.waiting, company)
		}
	}, nil
}

// Wake wakes the requests of a company. It does not block.
func (w *ApprovalWaiters) Wake(company int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(company)
}

func (w *ApprovalWaiters) wake(company int64) {
	for woken := range w.waiting[company] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// Close has all requests that wait answered, and lets none wait any more.
func (w *ApprovalWaiters) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for company := range w.waiting {
		w.wake(company)
	}
}

func (w *ApprovalWaiters) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Wait is Get that waits until an approval is not pending any more, for some time at most.
func (s *Approvals) Wait(ctx context.Context, by store.Caller, base, id string, most time.Duration) (Approval, error) {
	woken, leave, err := s.Waiters.join(by.Company.Chain)
	if err != nil {
		return Approval{}, err
	}
	defer leave()
	began := time.Now()
	at := by.At
	for {
		by.At = at.Add(time.Since(began))
		a, err := s.Store.Approvals.Get(ctx, by, id)
		if err != nil {
			return Approval{}, approvalError(id, "", err)
		}
		left := min(most-time.Since(began), a.Expires.Sub(by.At))
		if a.StateAt(by.At) != store.ApprovalIsPending || left <= 0 || s.Waiters.isClosed() {
			return s.show(by, base, &a), nil
		}
		again := time.NewTimer(min(left, approvalPoll))
		select {
		case <-woken:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return Approval{}, ctx.Err()
		}
		again.Stop()
	}
}
