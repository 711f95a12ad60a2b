package chain_test

import (
	"strings"
	"testing"

	"attestd/chain"
)

// A log that is closed says that nothing was written, and what to do.
func TestClosedLogSaysWhatToDo(t *testing.T) {
	t.Parallel()
	if message := chain.ErrClosed.Error(); !strings.Contains(message, "nothing was written") || !strings.Contains(message, "try again") {
		t.Error(message)
	}
}
