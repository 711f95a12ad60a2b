package chain_test

import (
	"strings"
	"testing"

	"attestd/chain"
)

// A log that is closed says that nothing was written, and what to do.
func TestClosedLogSaysWhatToDo(t *testing.T) {
	t.Parallel()
	if said := chain.ErrClosed.Error(); !strings.Contains(said, "nothing was written") || !strings.Contains(said, "try again") {
		t.Error(said)
	}
}
