package attestd

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// errNoLog reports a text that no log has as its origin.
var errNoLog = errors.New("the origin of a log must have 1 to 255 visible ASCII characters")

// isLog reports whether a text can be the origin of a log.
func isLog(origin string) bool {
	return 0 < len(origin) && len(origin) <= 255 && !strings.ContainsFunc(origin, func(r rune) bool { return r <= ' ' || r > '~' })
}

// OtherLogError reports a service that names another log than the one for which the agent signs: it
// is another service, or its operator has begun another log. From then on the identity signs
// nothing and sends it no statement.
type OtherLogError struct {
	Agent string // SPIFFE ID
	Log   string // of the agent
	Named string // by the service
}

func (e *OtherLogError) Error() string {
	return fmt.Sprintf("ALARM: the agent %s signs for the log %s, and the service says that its log is %q: nothing is signed. "+
		"Find out whether the address leads to another service, and what has become of the log; enrol a new key where the other log is the right one", e.Agent, e.Log, e.Named)
}

// Log is the origin of the log for which the agent signs; "" while the identity does not know it.
func (i *Identity) Log() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.log
}

// wrongLog returns an *OtherLogError after the service has named another log.
func (i *Identity) wrongLog() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.otherLog == nil {
		return nil
	}
	return i.otherLog
}

// learnLog compares the log that the service names with the agent's, or makes it the agent's. A
// service that names none is older than such names.
func (i *Identity) learnLog(named string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case named == "" || named == i.log:
		return nil
	case i.log == "" && isLog(named):
		i.log = named
		return nil
	case i.log == "":
		return fmt.Errorf("the service names the log %q: %w", named, errNoLog)
	}
	i.otherLog = &OtherLogError{i.config.SPIFFEID, i.log, named}
	return i.otherLog
}

// adoptLog reports whether a log that was named at an earlier sign-in is the agent's, and makes it
// the agent's where that is unknown.
func (i *Identity) adoptLog(named string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.log == "" && isLog(named) {
		i.log = named
	}
	return i.log == named
}

// LearnLog signs in where the identity does not know its log yet, so that the next statement names
// it. Where that fails, the log is still unknown.
func (c *Client) LearnLog(ctx context.Context) {
	if i, is := c.credential.(*Identity); is && i.Log() == "" {
		_, _ = i.bearer(ctx, c, "")
	}
}
