package jobs

import (
	"testing"

	"go.uber.org/goleak"

	"attestd/store/postgres/pgtest"
)

// TestMain fails the package when any test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(withServers{m}) }

// withServers are the tests with the PostgreSQL server of those that ask for one. It has ended
// before anybody looks for what is left.
type withServers struct{ *testing.M }

func (m withServers) Run() int { return pgtest.Run(m.M) }
