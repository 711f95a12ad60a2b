package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// An enrolment that was spent is not spent again, even if an external write has reset it in the
// table. If the key that it was spent on is hidden too, a verification finds both records.
func TestSpentEnrolmentStaysSpent(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	for _, hidden := range []bool{false, true} {
		t.Run(fmt.Sprint("key hidden ", hidden), func(t *testing.T) {
			t.Parallel()
			s, path := fresh(t)
			c, _ := company(t, s, "acme")
			who := by(c, now)
			got(s.Agents.Register(ctx, who, "bot", nil, many))(t)
			token := chain.Hash(keys.HashSecret(got(s.AgentKeys.CreateEnrolment(ctx, who, "bot", nil, now.Add(time.Hour)))(t)))
			enrol := func() error {
				private := got(jose.GenerateKey(jose.EdDSA))(t)
				_, err := s.AgentKeys.Enrol(ctx, who, store.AgentKey{Thumbprint: private.Key().Thumbprint, AgentID: "bot", JWK: raw(private.Key().JWK())}, &token, nil)
				return err
			}
			must.OK(t, enrol())
			if err := enrol(); !errors.Is(err, store.ErrBadEnrolment) {
				t.Fatalf("spent again: %v", err)
			}
			db := other(t, path, append(guards(t, path), "UPDATE enrolment SET key = NULL")...)
			defer db.Close()
			if !hidden {
				if changed := (*store.TablesChangedError)(nil); !errors.As(enrol(), &changed) {
					t.Fatal("a spent enrolment is spent again")
				}
				return
			}
			// moved out of sight, and back
			_, err := db.Exec("UPDATE agent_key SET agent_id = 'hidden'")
			must.OK(t, err)
			must.OK(t, enrol())
			_, err = db.Exec("UPDATE agent_key SET agent_id = 'bot'")
			must.OK(t, err)
			if invalid := (*store.VerifyError)(nil); !errors.As(s.VerifyAll(ctx, "", 2, nil, nil), &invalid) {
				t.Error("verify says nothing of an enrolment that two keys were enrolled with")
			}
		})
	}
}
