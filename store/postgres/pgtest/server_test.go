package pgtest

import (
	"strings"
	"testing"
)

// A server that fails to start is not waited for, and the error contains its output.
func TestFailedServerStartReportsReason(t *testing.T) {
	s, err := newServer(installed(t), "none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	// There is no data.
	if err := s.start(); err == nil || !strings.Contains(err.Error(), "could not access directory") {
		t.Fatal(err)
	}
}
