package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"attestd/server/export"
)

// hangups returns a channel that gets a value for SIGHUP: one for several that come together. From
// now on the signal no longer ends the process.
func hangups() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// reopenOnHangup makes SIGHUP reopen the file of an export. It returns what ends that.
func reopenOnHangup(d export.Destination) (stop func()) {
	reopen := reopener(d)
	if reopen == nil {
		return func() {}
	}
	c := hangups()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-c:
				reopen()
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// reopener returns what makes a destination go on in a new file after a rotation has moved the
// former, or nil.
func reopener(d export.Destination) func() {
	if file, ok := d.(*export.File); ok {
		return file.Reopen
	}
	return nil
}

// terminal knows whether a process was started on a terminal.
type terminal struct{ was bool }

// startedOn looks for the terminal of the process. A process that was started to survive its
// terminal (nohup) counts as if it had none.
func startedOn() terminal { return terminal{!signal.Ignored(syscall.SIGHUP) && hasTerminal()} }

// closed reports whether the terminal is gone: then SIGHUP asks the process to end.
func (t terminal) closed() bool { return t.was && !hasTerminal() }

func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}
