package store_test

import (
	"testing"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/store"
)

func TestChangesOfAgentsAreRecorded(t *testing.T) {
	t.Parallel()
	k, _ := newClerk(t, "{}")
	s, c, who := k.s, k.c, by(k.c, now)
	k.read = tipOf(t, s, c.Control).Length
	register := func(id, metadata string, bounds store.AgentBounds) error {
		var text []byte
		if metadata != "" {
			text = []byte(metadata)
		}
		_, err := s.Agents.Register(ctx, who, id, text, bounds)
		return err
	}
	registered := func(metadataHash any) change {
		return did(c, store.AgentRegistered, "agent:bot", details{"agentId": "bot", "registeredAt": chain.FormatTime(now), "metadataHash": metadataHash})
	}
	must.OK(t, register("bot", "", many))
	k.writes("an agent registered", registered(nil))
	must.OK(t, register("bot", `{"of":"private words"}`, many))
	k.writes("an agent registered anew", registered(hashOf(`{"of":"private words"}`)))
	k.refuses("one that must be new", register("bot", "", store.AgentBounds{New: true, Most: 10}), store.ErrExists)
	k.refuses("one too many", register("other", "", store.AgentBounds{Most: 1}), store.ErrTooMany)
	for _, jti := range []string{"a", "b"} {
		must.OK(t, s.Passports.Record(ctx, who, passport(jti, now.Unix())))
	}
	k.read += 2

	_, err := s.Agents.Enable(ctx, who, "bot")
	k.refuses("enabling what is enabled", err, nil)
	disable := func(id string) error {
		_, _, err := s.Agents.Disable(ctx, who, id)
		return err
	}
	must.OK(t, disable("bot"))
	k.writes("an agent disabled", did(c, store.AgentDisabled, "agent:bot", details{"agentId": "bot", "disabledAt": chain.FormatTime(now), "passportsRevoked": 2}))
	k.refuses("disabling what is disabled", disable("bot"), nil)
	k.refuses("registering what is disabled", register("bot", "", many), store.ErrDisabled)
	k.refuses("a passport for what is disabled", s.Passports.Record(ctx, who, passport("c", 1)), store.ErrDisabled)
	k.refuses("disabling what is not there", disable("nobody"), store.ErrNotFound)
	_, err = s.Agents.Enable(ctx, who, "nobody")
	k.refuses("enabling what is not there", err, store.ErrNotFound)
	got(s.Agents.Enable(ctx, who, "bot"))(t)
	k.writes("an agent enabled", did(c, store.AgentEnabled, "agent:bot", details{"agentId": "bot"}))
}

func TestChangesOfPassportsAreRecorded(t *testing.T) {
	t.Parallel()
	k, _ := newClerk(t, "{}")
	s, c, who := k.s, k.c, by(k.c, now)
	zoo, _ := company(t, s, "zoo")
	k.read = tipOf(t, s, c.Control).Length
	issued := func(jti string, rotates ...string) change {
		p := passport(jti, 1)
		one := did(c, store.PassportIssued, "passport:"+jti,
			details{"jti": jti, "agentId": p.AgentID, "scopes": p.Scopes, "issuedAt": p.IssuedAt, "expiresAt": p.ExpiresAt})
		for _, old := range rotates {
			one.Payload["rotates"] = old
		}
		return one
	}
	revoked := func(jti string, reason any, replacedBy ...string) change {
		one := did(c, store.PassportRevoked, "passport:"+jti, details{"jti": jti, "agentId": "bot", "revokedAt": chain.FormatTime(now), "reason": reason})
		for _, next := range replacedBy {
			one.Payload["replacedBy"] = next
		}
		return one
	}
	must.OK(t, s.Passports.Record(ctx, who, passport("a", 1)))
	k.writes("a passport issued", issued("a"))
	if err := s.Passports.Record(ctx, who, passport("a", 1)); err == nil {
		t.Error("one jti was issued twice")
	}
	k.writes("a jti that there is")
	must.OK(t, s.Passports.Rotate(ctx, who, passport("a", 1), passport("b", 1)))
	k.writes("a passport rotated", revoked("a", nil, "b"), issued("b", "a"))
	k.refuses("rotating it again", s.Passports.Rotate(ctx, who, passport("a", 1), passport("c", 1)), store.ErrRevoked)
	k.refuses("rotating what is not there", s.Passports.Rotate(ctx, who, passport("x", 1), passport("c", 1)), store.ErrNotFound)
	// The old passport is revoked, so the new one cannot replace it.
	if err := s.Passports.Rotate(ctx, who, passport("b", 1), passport("a", 1)); err == nil {
		t.Error("one jti was issued twice, by rotation")
	}
	k.writes("a rotation that fails halfway")
	_, err := s.Passports.Revoke(ctx, by(zoo, now), "b", nil)
	k.refuses("revocation by another company", err, store.ErrNotFound)
	if p := got(s.Passports.Revoke(ctx, who, "b", ptr("lost")))(t); p.RevokedAt != chain.FormatTime(now) || *p.Reason != "lost" {
		t.Errorf("revoked: %+v", p)
	}
	k.writes("a passport revoked", revoked("b", "lost"))
	_, err = s.Passports.Revoke(ctx, who, "b", nil)
	k.refuses("revoking what is revoked", err, store.ErrRevoked)
	_, err = s.Passports.Revoke(ctx, who, "x", nil)
	k.refuses("revoking what is not there", err, store.ErrNotFound)
}
