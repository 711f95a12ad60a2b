package pgtest

import (
	"strings"
	"testing"
)

// A server that does not start is not waited for, and its error has what the server said.
func TestFailedServerStartReportsReason(t *testing.T) {
	s, err := newServer(installed(t), "none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	// there is no data
	if err := s.start(); err == nil || !strings.Contains(err.Error(), "could not access directory") {
		t.Fatal(err)
	}
}
