package store_test

import (
	"fmt"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// issued returns all passports that match the filter, from all windows after a cursor.
func issued(t testing.TB, s *store.Store, c *store.Company, f store.PassportFilter, from string) (found []store.Passport) {
	t.Helper()
	for more := true; more; more = from != "" {
		items, rest, err := s.Passports.List(ctx, by(c, now), f, from)
		must.OK(t, err)
		found, from = append(found, all(t, items)...), rest
	}
	return found
}

// Agents are found, and counted, by a part of their ID in any case and by their state. The
// wildcards of SQL are ordinary characters.
func TestAgentSearch(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	for _, id := range []string{"Deploy-Bot", "deploy_bot", "deployXbot", "mailer", "off", "k"} {
		_, err := s.Agents.Register(ctx, by(acme, now), id, nil, store.AgentBounds{Most: 10})
		must.OK(t, err)
	}
	_, err := s.Agents.Register(ctx, by(zoo, now), "deploy_zoo", nil, store.AgentBounds{Most: 10})
	must.OK(t, err)
	for _, id := range []string{"off", "mailer"} {
		_, _, err := s.Agents.Disable(ctx, by(acme, now), id)
		must.OK(t, err)
	}
	_, err = s.Agents.Enable(ctx, by(acme, now), "mailer")
	must.OK(t, err)
	for f, want := range map[store.AgentFilter]string{
		{}:                                      "Deploy-Bot deployXbot deploy_bot k mailer off",
		{Text: "deploy"}:                        "Deploy-Bot deployXbot deploy_bot",
		{Text: "DEPLOY_"}:                       "deploy_bot",
		{Text: "y%b"}:                           "",
		{Text: `\`}:                             "",
		{Text: "'"}:                             "",
		{Text: "é\x00\xff"}:                     "",
		{Text: "\x00"}:                          "",
		{Text: "mailer\x00"}:                    "",
		{Text: "\u212a"}:                        "", // its lower case is k
		{Text: strings.Repeat("x", 60_000)}:     "",
		{Status: "active"}:                      "Deploy-Bot deployXbot deploy_bot k mailer",
		{Status: "disabled"}:                    "off",
		{Text: "f", Status: "disabled"}:         "off",
		{Text: "deploy", Status: "disabled"}:    "",
		{Text: "m", Status: store.AgentActive}:  "mailer",
		{Text: strings.Repeat("deploy-bot", 9)}: "",
	} {
		var ids []string
		for _, a := range all(t, s.Agents.List(ctx, by(acme, now), f, "")) {
			ids = append(ids, a.ID)
		}
		if found := strings.Join(ids, " "); found != want {
			t.Errorf("%+v: %s, want %s", f, found, want)
		}
		if n := got(s.Agents.Count(ctx, by(acme, now), f))(t); int(n) != len(ids) {
			t.Errorf("%+v: %d counted, %d found", f, n, len(ids))
		}
	}
	if list := all(t, s.Agents.List(ctx, by(acme, now), store.AgentFilter{Text: "deploy"}, "deployXbot")); len(list) != 1 || list[0].ID != "deploy_bot" {
		t.Errorf("after a cursor: %+v", list)
	}
}

// Passports are found by their agent and their state; a revoked passport counts as revoked even if
// it has expired.
func TestPassportSearch(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	record := func(c *store.Company, jti, agent string, age int64) {
		p := passport(jti, now.Unix()-age) // valid for a minute
		p.AgentID = agent
		must.OK(t, s.Passports.Record(ctx, by(c, now), p))
	}
	record(acme, "old", "bot", 100)
	record(acme, "over", "bot", 60)
	record(acme, "mine", "bot", 59)
	record(acme, "gone", "bot", 10)
	record(acme, "gone-old", "bot", 3000)
	record(acme, "other", "mailer", 1)
	record(zoo, "zoo's", "bot", 1)
	for _, jti := range []string{"gone", "gone-old"} {
		_, err := s.Passports.Revoke(ctx, by(acme, now), jti, nil)
		must.OK(t, err)
	}
	for f, want := range map[store.PassportFilter]string{
		{}:                  "other gone mine over old gone-old",
		{AgentID: "bot"}:    "gone mine over old gone-old",
		{AgentID: "BOT"}:    "",
		{Status: "valid"}:   "other mine",
		{Status: "expired"}: "over old",
		{Status: "revoked"}: "gone gone-old",
		{AgentID: "mailer", Status: store.PassportValid}:     "other",
		{AgentID: "mailer", Status: store.PassportIsRevoked}: "",
	} {
		var ids []string
		for _, p := range issued(t, s, acme, f, "") {
			ids = append(ids, p.JTI)
		}
		if found := strings.Join(ids, " "); found != want {
			t.Errorf("%+v: %s, want %s", f, found, want)
		}
	}
}

// A search for passports stops after 100,000 of them and returns where to continue; the parts
// together find what a single search would. Without a filter nothing needs to be skipped.
func TestPassportWindows(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	t.Parallel()
	s, path := fresh(t)
	acme, _ := company(t, s, "acme")
	const n = 200_001
	other(t, path, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at)
		SELECT %d, 'p' || i, CASE i WHEN 0 THEN 'first' WHEN 100000 THEN 'second' WHEN %d THEN 'second' ELSE 'bot' END, '["*"]', i / 3, i FROM n`, n-1, acme.Chain, n-1))
	look := func(f store.PassportFilter, from string) (jtis []string, rest string) {
		items, rest, err := s.Passports.List(ctx, by(acme, now), f, from)
		must.OK(t, err)
		for _, p := range all(t, items) {
			jtis = append(jtis, p.JTI)
		}
		return jtis, rest
	}
	second, rest := look(store.PassportFilter{AgentID: "second"}, "")
	if want := []string{"p200000"}; !same(second, want) || rest == "" {
		t.Errorf("the first window: %v, rest %q", second, rest)
	}
	second, rest = look(store.PassportFilter{AgentID: "second"}, rest)
	if want := []string{"p100000"}; !same(second, want) || rest == "" {
		t.Errorf("the second window: %v, rest %q", second, rest)
	}
	if second, rest = look(store.PassportFilter{AgentID: "second"}, rest); len(second) > 0 || rest != "" {
		t.Errorf("the last window: %v, rest %q", second, rest)
	}
	if first := issued(t, s, acme, store.PassportFilter{AgentID: "first", Status: "expired"}, ""); len(first) != 1 || first[0].JTI != "p0" {
		t.Errorf("the oldest: %v", first)
	}
	if _, rest, err := s.Passports.List(ctx, by(acme, now), store.PassportFilter{}, ""); err != nil || rest != "" {
		t.Errorf("all: rest %q, %v", rest, err)
	}
}
