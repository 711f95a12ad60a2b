package store_test

import (
	"fmt"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// Disabling an agent revokes its live passports and leaves expired ones alone, since there may be
// any number of them. A clock that has leapt ahead does not make a live passport count as expired.
func TestDisablingRevokesLivePassportsAlone(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	s := openWith(t, path, at.options())
	c, _ := company(t, s, "acme")
	for _, agent := range []string{"bot", "other"} {
		got(s.Agents.Register(ctx, by(c, now), agent, nil, many))(t)
	}
	issue := func(jti, agent string, expires time.Time) {
		t.Helper()
		must.OK(t, s.Passports.Record(ctx, by(c, at.now()), store.Passport{JTI: jti, AgentID: agent, Scopes: []string{"*"}, IssuedAt: now.Unix(), ExpiresAt: expires.Unix()}))
	}
	issue("others", "other", now.Add(time.Hour))
	disable := func(want int64) {
		t.Helper()
		_, revoked, err := s.Agents.Disable(ctx, by(c, at.now()), "bot")
		must.OK(t, err)
		if revoked != want {
			t.Errorf("%d passports were revoked, want %d", revoked, want)
		}
		got(s.Agents.Enable(ctx, by(c, at.now()), "bot"))(t)
	}
	for i := range 5 {
		issue(fmt.Sprint("expired ", i), "bot", now.Add(-2*time.Hour))
	}
	issue("live", "bot", now.Add(time.Second))
	disable(1)
	issue("next", "bot", now.Add(time.Hour))
	at.pass(400*24*time.Hour, time.Second) // the clock leaps ahead
	disable(1)
	at.pass(-400*24*time.Hour, 0)
	for _, jti := range []string{"live", "next"} {
		if p := got(s.Passport(ctx, by(c, at.now()), jti))(t); p.Status(at.now()) != store.PassportIsRevoked {
			t.Errorf("%s: %+v", jti, p)
		}
	}
	for _, jti := range []string{"expired 0", "others"} {
		if p := got(s.Passport(ctx, by(c, at.now()), jti))(t); p.RevokedAt != "" {
			t.Errorf("%s: %+v", jti, p)
		}
	}
}
