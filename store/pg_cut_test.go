package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"

	"attestd/crypto/keyring"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/names"
	"attestd/store/storetest"
)

// A write is one change of a company, and a function that counts how often it is found in the
// database.
type write struct {
	name string
	do   func(s *store.Store, c *store.Company, n int) error
	done func(t testing.TB, s *store.Store, c *store.Company, n int) int
}

// payload returns the text of a record; recorded counts its occurrences in a chain.
func recorded(t testing.TB, s *store.Store, number int64, text string) (times int) {
	t.Helper()
	for _, r := range read(t, s, number, 0, 1<<40) {
		if strings.Contains(string(r.Payload), text) {
			times++
		}
	}
	return times
}

func numbered(c *store.Company, n int) chain.Draft {
	return saying(c, fmt.Sprintf(`{"n":"#%d."}`, n))
}

// both fails the test if a row exists without its control record, or the record without the row.
func both(t testing.TB, rows, records int) int {
	t.Helper()
	if rows != records {
		t.Errorf("%d rows have changed, of which %d control records tell", rows, records)
	}
	return records
}

// writes are the changes whose connections are cut.
var writes = []write{
	{"append", func(s *store.Store, c *store.Company, n int) error {
		_, err := s.Append(ctx, numbered(c, n))
		return err
	}, func(t testing.TB, s *store.Store, c *store.Company, n int) int {
		return recorded(t, s, c.Chain, fmt.Sprintf("#%d.", n))
	}},
	{"append with a key", func(s *store.Store, c *store.Company, n int) error {
		d := numbered(c, n)
		d.Keys = []chain.Key{{Name: chain.Hash{byte(n), byte(n >> 8)}, Request: names.Request(d.Canonical, "", "")}}
		_, err := s.AppendAll(ctx, []chain.Draft{d})
		return err
	}, func(t testing.TB, s *store.Store, c *store.Company, n int) int {
		return recorded(t, s, c.Chain, fmt.Sprintf("#%d.", n))
	}},
	{"agent", func(s *store.Store, c *store.Company, n int) error {
		_, err := s.Agents.Register(ctx, by(c, now), fmt.Sprintf("bot%d.", n), nil, many)
		return err
	}, func(t testing.TB, s *store.Store, c *store.Company, n int) int {
		rows := 0
		if _, err := s.Agents.Get(ctx, by(c, now), fmt.Sprintf("bot%d.", n)); err == nil {
			rows = 1
		}
		return both(t, rows, recorded(t, s, c.Control.Chain, fmt.Sprintf(`"agent:bot%d."`, n)))
	}},
	{"passport", func(s *store.Store, c *store.Company, n int) error {
		return s.Passports.Record(ctx, by(c, now), numberedPassport(n))
	}, func(t testing.TB, s *store.Store, c *store.Company, n int) int {
		rows := 0
		if _, err := s.Passport(ctx, by(c, now), numberedPassport(n).JTI); err == nil {
			rows = 1
		}
		return both(t, rows, recorded(t, s, c.Control.Chain, `"passport:`+numberedPassport(n).JTI+`"`))
	}},
	{"key rotation", func(s *store.Store, c *store.Company, n int) error {
		_, _, err := s.Companies.RotateKey(ctx, by(c, now), false)
		return err
	}, func(t testing.TB, s *store.Store, c *store.Company, n int) int {
		origin, ring, err := s.KeyRing(ctx, c.Chain)
		must.OK(t, err)
		if flaws := strings.Join(keyring.Flaws(origin, ring), ""); flaws != "" {
			t.Error(flaws)
		}
		return both(t, len(ring)-1, recorded(t, s, c.Control.Chain, string(store.SigningKeyRotated))) - n
	}},
}

func numberedPassport(n int) store.Passport {
	return store.Passport{JTI: fmt.Sprintf("jti%d.", n), AgentID: "bot", Scopes: []string{"*"}, IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Hour).Unix()}
}

// A write is carried out exactly once and its caller learns that it succeeded, even if its
// connection ends after any byte in either direction: the outcome is looked up on a second
// connection. If that connection ends too, after any byte, a third one is used.
func TestConnectionCutAtEveryByte(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for _, w := range writes {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			up, down := f.length(t, w, f.all, 0)
			t.Logf("%d bytes to the server, %d from it", up, down)
			for _, n := range points(up) {
				f.try(t, w, fmt.Sprintf("cut after byte %d to the server", n), func() { f.cut(toServer, n) })
			}
			for _, n := range points(down) {
				f.try(t, w, fmt.Sprintf("cut after byte %d from the server", n), func() { f.cut(fromServer, n) })
			}
			lost := down - 14 // in the middle of the last answer
			up, down = f.length(t, w, func() (up, down *cut) { return f.cut(toServer), f.cut(fromServer, lost) }, 1)
			t.Logf("%d and %d bytes of the second connection", up, down)
			for _, n := range points(up) {
				f.try(t, w, fmt.Sprintf("the second connection is cut after byte %d to the server", n), func() { f.cut(fromServer, lost); f.cut(toServer, never, n) })
			}
			for _, n := range points(down) {
				f.try(t, w, fmt.Sprintf("the second connection is cut after byte %d from the server", n), func() { f.cut(fromServer, lost, n) })
			}
			must.OK(t, f.near.VerifyAll(ctx, "", 2, nil, nil))
		})
	}
}

const never = -1 // no connection is cut

// far is a server whose network fails, and near is one that observes the database.
type far struct {
	*network
	far, near *store.Store
	company   *store.Company
	writes    int
}

func newFar(t testing.TB) *far {
	t.Helper()
	database := storetest.Shared(t)
	n, url := through(t, database)
	f := &far{network: n, near: openWith(t, database, store.RunOptions{})}
	f.far = openWith(t, url, store.RunOptions{})
	return f
}

// length returns the number of bytes of a write, in both directions, on one of its connections.
func (f *far) length(t testing.TB, w write, arm func() (up, down *cut), connection int) (toServer, fromServer int64) {
	t.Helper()
	var up, down *cut
	f.try(t, w, "to learn the length", func() { up, down = arm() })
	return up.passed[connection].Load(), down.passed[connection].Load()
}

// all lets everything pass.
func (f *far) all() (up, down *cut) { return f.cut(toServer), f.cut(fromServer) }

// fail runs a write in a failing network and returns how often it was carried out and its answer.
func (f *far) fail(t testing.TB, w write, fail func()) (times int, err error) {
	t.Helper()
	if f.writes%200 == 0 {
		f.company, _ = company(t, f.near, fmt.Sprint("acme", f.writes))
	}
	f.writes++
	must.OK(t, w.do(f.far, f.company, f.writes)) // makes sure that the connection has worked before
	f.writes++
	before := w.done(t, f.near, f.company, f.writes)
	fail()
	err = w.do(f.far, f.company, f.writes)
	f.heal()
	return w.done(t, f.near, f.company, f.writes) - before, err
}

// try is fail for writes that must be carried out exactly once.
func (f *far) try(t testing.TB, w write, what string, fail func()) {
	t.Helper()
	if n, err := f.fail(t, w, fail); n != 1 || err != nil {
		t.Errorf("%s: written %d times, and the answer is %v", what, n, err)
	}
}

// points are the positions of cuts; in the long form all of them.
func points(length int64) (list []int64) {
	step := int64(1)
	if !testenv.Night() {
		step = max(1, length/5)
	}
	for n := int64(0); n < length; n += step {
		list = append(list, n)
	}
	return append(list, length-1)
}
