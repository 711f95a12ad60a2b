// Package attack tests what attestd must withstand: each test attacks a built server on loopback.
// The short form is what -long runs, and in part each run; -night runs the whole form.
package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/testenv"
)

// Forged SVIDs, delegation tokens and passports are refused at every entry point that accepts one.
func TestForgedTokens(t *testing.T) { attack(t, tokens, testenv.Slow) }

// An agent, a writer, and who writes the database cannot speak for another agent.
func TestAgentCannotImpersonateAnother(t *testing.T) { attack(t, agentKeys) }

// Assertions, proofs and issuers of other servers count nowhere, under whatever name they come,
// where --base-url is not set.
func TestOtherServersNames(t *testing.T) { attack(t, unknownHost) }

// An issuer exchanges its key under one kid, while other parties sign under it.
func TestIssuerExchangesItsKey(t *testing.T) { attack(t, exchangedKey) }

// An operator with every key of a company makes files that speak for an agent: none passes one of
// the four checkers.
func TestOperatorSpeaksForNoAgent(t *testing.T) {
	attack(t, operator, testenv.Slow, testenv.Node, testenv.Program("python3"))
}

// Nothing acknowledged is lost, however a loss of power leaves the file, in the log and in a
// checkpoint.
func TestPowerLoss(t *testing.T) { attack(t, powerLoss) }

// A body counts for nothing that ends after its credential or its passport.
func TestLateBodies(t *testing.T) { attack(t, lateBodies, testenv.Slow) }

// 1,800 connections promise a body and send none.
func TestEmptyBodies(t *testing.T) { besieged(t, emptyBodies) }

// Connections send all of a large body but its last byte.
func TestLongBodies(t *testing.T) { besieged(t, longBodies) }

// Bodies cost many times their bytes when they are decoded, many at once.
func TestCostlyBodies(t *testing.T) { besieged(t, manyMembers) }

// 300 connections have 40 pipelined requests each, whose answers are not read.
func TestUnreadAnswers(t *testing.T) { besieged(t, unreadAnswers) }

// Each call has a fresh key.
func TestFreshKeys(t *testing.T) { besieged(t, freshKeys) }

// Each call has a fresh company, from one address.
func TestFreshCompanies(t *testing.T) { besieged(t, freshCompanies) }

// One address takes every place at the stream.
func TestPlacesAtTheStream(t *testing.T) { besieged(t, streamPlaces) }

// Metadata and reasons have 1 MiB, and many have as much as is allowed.
func TestLargeMetadata(t *testing.T) { besieged(t, metadata) }

// A company makes keys and clients without end.
func TestKeysWithoutEnd(t *testing.T) { besieged(t, rows) }

// Six slow readers read a long list of revoked passports.
func TestSlowReaders(t *testing.T) { besieged(t, lists) }

// One company has its chain verified by 100 at once.
func TestVerifiedByMany(t *testing.T) { besieged(t, verifies) }

// Many endpoints of many companies answer late, and delay those of others no more than they may.
func TestManySlowWebhooks(t *testing.T) { besieged(t, slowWebhooks) }

// A writer takes the idempotency keys of hooks, proxy and runs beforehand.
func TestClaimedKeys(t *testing.T) { attack(t, claimedKeys, testenv.Slow) }

// A client and a server hide calls and answers from attestd mcp.
func TestCallsHiddenFromTheProxy(t *testing.T) { attack(t, mcp, testenv.Slow) }

// A history is rewritten while nothing runs, and rows are while a server does: the tables of
// docs/security/rewriting.md say what finds each.
func TestRewrites(t *testing.T) { attack(t, rewrites, testenv.Slow) }

// run is one attack in progress.
type run struct {
	testing.TB
	Lab    *harness.Lab
	Chance *rand.Rand // only for the goroutine of the test
}

// Count logs a figure.
func (r *run) Count(n int, what string) { r.Logf("%d %s", n, what) }

// short reports whether attacks take their short form.
func short() bool { return !testenv.Night() }

// lab has the binary that all tests attack. The first one builds it.
var lab = sync.OnceValues(func() (*harness.Lab, error) {
	made, err := harness.NewLab(context.Background())
	if err == nil {
		atEnd = made.Close
	}
	return made, err
})

// atEnd removes what lab has made.
var atEnd = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := atEnd(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// attack carries out an attack, which returns an error if it could not.
func attack(t *testing.T, carryOut func(context.Context, *run) error, needs ...testenv.Need) {
	t.Helper()
	testenv.Needs(t, append(needs, testenv.Plain, testenv.NotRaced)...)
	t.Parallel()
	carry(t, carryOut)
}

// besieged carries out an attack on a server's memory and patience. Its bounds are those of a
// server that has the machine for itself, so it runs alone.
func besieged(t *testing.T, carryOut func(context.Context, *run) error) {
	t.Helper()
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	carry(t, carryOut)
}

func carry(t *testing.T, carryOut func(context.Context, *run) error) {
	t.Helper()
	l, err := lab()
	if err == nil {
		seed := uint64(time.Now().UnixNano())
		t.Logf("the seed is %d", seed)
		err = carryOut(t.Context(), &run{TB: t, Lab: l, Chance: rand.New(rand.NewPCG(seed, 0))})
	}
	if err != nil {
		t.Fatal(err)
	}
}
