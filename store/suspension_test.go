package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// operator is who suspends and resumes.
func operator(c *store.Company) store.Caller {
	return store.Caller{Company: c, Operator: true, At: now}
}

// suspended fails unless nothing can be appended or changed for a company that can be read.
func suspended(t testing.TB, s *store.Store, c *store.Company) {
	t.Helper()
	who := by(c, time.Now())
	before := length(t, s, c)
	_, err := s.Append(ctx, draft(c))
	if !errors.Is(err, store.ErrSuspended) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Agents.Register(ctx, who, "more", nil, many); !errors.Is(err, store.ErrSuspended) {
		t.Errorf("register: %v", err)
	}
	if err := s.Tables.Changeable(ctx, who); !errors.Is(err, store.ErrSuspended) {
		t.Errorf("issue: %v", err)
	}
	if length(t, s, c) != before {
		t.Error("something was appended")
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

func TestSuspendedCompanyWritesNothing(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	other, _ := company(t, s, "zoo")
	attest(t, s, c, 3)
	if !got(s.Companies.Suspend(ctx, operator(c), "unpaid"))(t) || got(s.Companies.Suspend(ctx, operator(c), "again"))(t) {
		t.Error("a company is suspended once")
	}
	suspended(t, s, c)
	attest(t, s, other, 3)
	if found := got(s.Companies.Suspension(ctx, c))(t); found.Reason != "unpaid" || found.At == "" {
		t.Errorf("%+v", found)
	}
	// the operator may still end its rights
	if _, _, err := s.Companies.RotateKey(ctx, operator(c), true); err != nil {
		t.Error(err)
	}
	if !got(s.Companies.Resume(ctx, operator(c), "paid"))(t) || got(s.Companies.Resume(ctx, operator(c), "again"))(t) {
		t.Error("a company is resumed once")
	}
	c = got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, c, 3)
	got(s.Agents.Register(ctx, by(c, now), "more", nil, many))(t)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if list := said(t, s, c, "company.suspended"); len(list) != 1 || !strings.Contains(list[0], `"reason":"unpaid"`) {
		t.Errorf("%q", list)
	}
	if list := said(t, s, c, "company.resumed"); len(list) != 1 || !strings.Contains(list[0], `"reason":"paid"`) {
		t.Errorf("%q", list)
	}
}

// An attacker who clears the suspension in the database gains nothing but TABLES_CHANGED, and
// verify names the table.
func TestClearedSuspensionIsFound(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	for _, change := range []string{"DELETE FROM company_suspension", "UPDATE company_suspension SET suspended_at = NULL"} {
		s, path := fresh(t)
		c, _ := company(t, s, "acme")
		got(s.Companies.Suspend(ctx, operator(c), "unpaid"))(t)
		must.OK(t, s.Close())
		must.OK(t, other(t, path, change).Close())
		s = open(t, path)
		c = got(s.Companies.Get(ctx, "acme"))(t)
		if err := s.Companies.Active(ctx, by(c, now)); !errors.Is(err, store.ErrTablesChanged) {
			t.Errorf("%s: %v", change, err)
		}
		err := s.VerifyAll(ctx, "", 2, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "company_suspension") {
			t.Errorf("%s: verify says %v", change, err)
		}
	}
}

// A suspension by one server holds on all others when Suspend returns, and so does its end. What
// they append meanwhile comes before its record.
func TestSuspensionHoldsOnAllServers(t *testing.T) {
	t.Parallel()
	database := storetest.Shared(t)
	var servers []*store.Store
	for range 3 {
		servers = append(servers, openWith(t, database, store.RunOptions{}))
	}
	c, _ := company(t, servers[0], "acme")
	for _, s := range servers { // each remembers that the company is active
		attest(t, s, c, 3)
		must.OK(t, s.Companies.Active(ctx, by(c, time.Now())))
	}
	for range 3 {
		got(servers[0].Companies.Suspend(ctx, operator(c), "unpaid"))(t)
		for _, s := range servers {
			suspended(t, s, c)
		}
		got(servers[1].Companies.Resume(ctx, operator(c), "paid"))(t)
		for _, s := range servers {
			attest(t, s, c, 3)
			must.OK(t, s.Companies.Active(ctx, by(c, time.Now())))
		}
	}
}

// The log's writer obeys the limits in the control log, despite external writes into their rows
// while a server runs.
func TestForgedLimitsAreNotObeyed(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	for what, c := range map[string]struct {
		change string
		want   error
	}{
		"a quota raised":         {"UPDATE company_quota SET max_records = 1000", store.ErrQuota},
		"a quota deleted":        {"DELETE FROM company_quota", store.ErrQuota},
		"a suspension cleared":   {"UPDATE company_suspension SET suspended_at = NULL WHERE company = 2", store.ErrSuspended},
		"a suspension deleted":   {"DELETE FROM company_suspension", store.ErrSuspended},
		"a quota of nobody":      {"INSERT INTO company_quota (company, max_records) VALUES (3, 1)", nil},
		"a suspension by nobody": {"INSERT INTO company_suspension (company, suspended_at) VALUES (3, '2026-03-04T05:06:07.008Z')", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, path := fresh(t)
			companies := map[error]*store.Company{}
			for _, of := range []struct {
				id  string
				why error
			}{{"acme", store.ErrQuota}, {"zoo", store.ErrSuspended}, {"inn", nil}} {
				companies[of.why], _ = company(t, s, of.id)
			}
			attest(t, s, companies[store.ErrQuota], 3)
			must.OK(t, s.Companies.SetQuota(ctx, operator(companies[store.ErrQuota]), store.Quota{Records: ptr(int64(3))}, "small"))
			got(s.Companies.Suspend(ctx, operator(companies[store.ErrSuspended]), "unpaid"))(t)
			must.OK(t, other(t, path, c.change).Close())
			if _, err := s.Append(ctx, draft(companies[c.want])); !errors.Is(err, c.want) {
				t.Errorf("an append: %v", err)
			}
			if len(s.Tables.Changed()) != 1 {
				t.Errorf("changed: %v", s.Tables.Changed())
			}
			if c.want == nil {
				return
			}
			if _, err := s.Append(ctx, draft(companies[nil])); err != nil {
				t.Errorf("of another company: %v", err)
			}
		})
	}
}
