package jobs

import (
	"context"
	"errors"
	"time"
)

// readyTimeout is how long a request waits for the database before the server is not ready.
const readyTimeout = 5 * time.Second

// ReadyCheck asks the store whether it can write, for all requests that wait at a time together. So
// unauthenticated requests put at most one write into the queue, and a database that does not
// answer holds none of them longer than readyTimeout. No answer is older than its request.
type ReadyCheck struct {
	check func(context.Context) error
	asked chan chan error
}

func NewReadyCheck(check func(context.Context) error) *ReadyCheck {
	return &ReadyCheck{check, make(chan chan error)}
}

// NoAnswerError means that the database has not answered in time, or that the caller has left.
type NoAnswerError struct{ Cause error }

func (e *NoAnswerError) Error() string { return errNotAnswering.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Cause }

var errNotAnswering = errors.New("the database does not answer")

// Ask returns nil if the store can write, or the error that a write would get.
func (r *ReadyCheck) Ask(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotAnswering)
	defer cancel()
	answer := make(chan error, 1)
	select {
	case r.asked <- answer:
	case <-waiting.Done():
		return &NoAnswerError{context.Cause(waiting)}
	}
	select {
	case err := <-answer:
		return err
	case <-waiting.Done():
		return &NoAnswerError{context.Cause(waiting)}
	}
}

// Run answers until ctx is done. Requests that come while a check runs are answered by the next.
func (r *ReadyCheck) Run(ctx context.Context) error {
	var answers []chan error // of the check that runs
	var next []chan error
	done := make(chan error, 1)
	for {
		if len(answers) == 0 && len(next) > 0 {
			answers, next = next, nil
			go func() { done <- r.check(ctx) }()
		}
		select {
		case <-ctx.Done():
			if len(answers) > 0 {
				<-done // the store is open until this worker ends
			}
			return ctx.Err()
		case answer := <-r.asked:
			next = append(next, answer)
		case err := <-done:
			for _, answer := range answers {
				answer <- err
			}
			answers = nil
		}
	}
}
