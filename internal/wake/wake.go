// Package wake has the signal by which goroutines tell another one that there is something to do.
// What there is to do is stored elsewhere, behind a lock.
package wake

// Signal wakes the goroutine that receives from it. It is set or not: setting it twice wakes once.
// So the receiver MUST look for all that there is to do, after it has received. No one receives
// from a nil Signal.
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It never blocks. What was done before is seen by the receiver.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // it is set already
	}
}
