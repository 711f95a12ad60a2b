package store_test

import (
	"errors"
	"slices"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// The policy of a company changes in the members that are named, each of which has a control record
// of its own; what changes nothing has none.
func TestCompanyPolicyChangesTheNamedMembers(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	who := by(c, now)
	before := tipOf(t, s, c.Control).Length
	for _, step := range []struct {
		change  store.CompanyChange
		attest  string
		named   []string
		records int64
	}{
		{store.CompanyChange{ExchangeAudiences: []string{}}, "any", nil, 0},
		{store.CompanyChange{Attest: "any"}, "any", nil, 0},
		{store.CompanyChange{ExchangeAudiences: []string{"vault", `a"b<\`}}, "any", []string{`a"b<\`, "vault"}, 1},
		{store.CompanyChange{ExchangeAudiences: []string{`a"b<\`, "vault"}}, "any", []string{`a"b<\`, "vault"}, 0},
		{store.CompanyChange{Attest: "key"}, "key", []string{`a"b<\`, "vault"}, 1},
		{store.CompanyChange{Attest: "any", ExchangeAudiences: []string{"vault"}}, "any", []string{"vault"}, 2},
		{store.CompanyChange{ExchangeAudiences: []string{}}, "any", nil, 1},
	} {
		found := got(s.Policies.SetCompany(ctx, who, step.change))(t)
		after := tipOf(t, s, c.Control).Length
		if found.Attest != step.attest || !slices.Equal(found.ExchangeAudiences, step.named) || after-before != step.records {
			t.Errorf("%+v: %+v with %d control records", step.change, found, after-before)
		}
		before = after
		for _, audience := range []string{"vault", `a"b<\`, "Vault", ""} {
			if may := got(s.Policies.MayExchange(ctx, who, audience))(t); may != slices.Contains(step.named, audience) {
				t.Errorf("%+v: %q is named: %t", step.change, audience, may)
			}
			if got(s.Policies.MayExchange(ctx, by(zoo, now), audience))(t) {
				t.Errorf("%q is named for another company", audience)
			}
		}
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// What an operator has accepted of the audiences holds, and says nothing of who may speak in the
// agents' names.
func TestAcceptedAudiencesAreNamed(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	path := filled(t)
	must.OK(t, other(t, path, obeyed["company_policy.exchange_audiences"]).Close())
	s := open(t, path)
	who := by(got(s.Companies.Get(ctx, "acme"))(t), now)
	if _, err := s.Policies.MayExchange(ctx, who, "vault"); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("before: %v", err)
	}
	found := got(admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme", Reason: "the owner asked for it"}))(t)
	if len(found) != 1 || found[0].Table != "company_policy" {
		t.Errorf("accepted: %v", found)
	}
	if !got(s.Policies.MayExchange(ctx, who, "sts.amazonaws.com"))(t) || !got(s.Policies.DemandsKey(ctx, who, "bot"))(t) {
		t.Error("the accepted row is not obeyed, or the other one is not")
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}
