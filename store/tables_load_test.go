package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// While permissions change all the time, neither a reader nor a comparison of the tables mistakes a
// change for tampering.
func TestChangesAreNoDifferences(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, _ := fresh(t)
	c, bootstrap := company(t, s, "acme")
	rounds := 60
	if testenv.Night() {
		rounds = 3000
	}
	var changing, looking sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		changing.Go(func() {
			agent := fmt.Sprint("agent-", i%2)
			for n := range rounds {
				who := by(c, time.Now())
				jti := fmt.Sprintf("%d-%d", i, n)
				_, err := s.Agents.Register(ctx, who, agent, raw(`{"n":1}`), store.AgentBounds{Most: 10})
				if err == nil {
					err = s.Passports.Record(ctx, who, store.Passport{JTI: jti, AgentID: agent, Scopes: []string{"*"}, IssuedAt: time.Now().Unix(), ExpiresAt: time.Now().Unix() + 60})
				}
				switch {
				case errors.Is(err, store.ErrDisabled):
					_, err = s.Agents.Enable(ctx, who, agent)
				case err == nil && n%5 == 0:
					_, _, err = s.Agents.Disable(ctx, who, agent)
				case err == nil && n%7 == 0:
					_, err = s.Passports.Revoke(ctx, who, jti, nil)
				}
				if err != nil && !errors.Is(err, store.ErrDisabled) && !errors.Is(err, store.ErrRevoked) && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	for i := range 3 {
		looking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				who := by(c, time.Now())
				for _, err := range []error{
					s.Agents.Check(ctx, who, fmt.Sprint("agent-", n%2)),
					func() error { _, err := s.Passport(ctx, who, fmt.Sprintf("%d-%d", n%4, n%rounds)); return err }(),
					s.Credentials.Recheck(ctx, keys.HashSecret(bootstrap.Key), who.At),
					func() error {
						if i > 0 {
							return nil
						}
						return s.Tables.Check(ctx, c.Chain)
					}(),
				} {
					if errors.Is(err, store.ErrTablesChanged) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	changing.Wait()
	close(done)
	looking.Wait()
	must.OK(t, s.Tables.Check(ctx, c.Chain))
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}
