package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/ledger"
	"attestd/store/storetest"
)

// bounded opens a new database with quotas.
func bounded(t testing.TB, q ledger.Quotas) (*store.Store, string) {
	t.Helper()
	path := storetest.New(t)
	return openWith(t, path, store.RunOptions{Quotas: q}), path
}

// flood appends from many goroutines to companies, and returns how many appends succeeded.
func flood(t testing.TB, servers []*store.Store, companies ...*store.Company) int64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 20 {
				_, err := servers[i%len(servers)].Append(ctx, saying(companies[i%len(companies)], fmt.Sprintf(`{"n":%d}`, n)))
				switch {
				case err == nil:
					done.Add(1)
				case !errors.Is(err, store.ErrQuota):
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	all.Wait()
	return done.Load()
}

func TestRecordQuotaIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	s, _ := bounded(t, ledger.Quotas{Records: 100})
	c, _ := company(t, s, "acme")
	other, _ := company(t, s, "zoo")
	must.OK(t, s.Companies.SetQuota(ctx, operator(other), store.Quota{Records: ptr(int64(0))}, "ours"))
	if n := flood(t, []*store.Store{s}, c); n != 100 || length(t, s, c) != 100 {
		t.Errorf("%d appends, %d records", n, length(t, s, c))
	}
	attest(t, s, other, 200)
	// a batch that does not fit is refused as a whole, and a smaller one is not
	must.OK(t, s.Companies.SetQuota(ctx, operator(c), store.Quota{Records: ptr(int64(102))}, "two more"))
	if _, err := s.AppendAll(ctx, []chain.Draft{draft(c), draft(c), draft(c)}); !errors.Is(err, store.ErrQuota) {
		t.Error(err)
	}
	if _, err := s.AppendAll(ctx, []chain.Draft{draft(c), draft(c)}); err != nil {
		t.Error(err)
	}
	if status := s.QuotaStatus(); status.RefusedByQuota == 0 || status.Quotas.Records != 100 {
		t.Errorf("%+v", status)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

func TestByteQuotaIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	s, path := bounded(t, ledger.Quotas{Bytes: 5000})
	c, _ := company(t, s, "acme")
	flood(t, []*store.Store{s}, c)
	size := tip(t, s, c).Bytes
	if one := int64(len(draft(c).Payload)); size > 5000 || size < 5000-2*one {
		t.Errorf("%d bytes", size)
	}
	var counted int64
	for _, r := range read(t, s, c.Chain, 0, 1<<40) {
		counted += int64(len(r.Payload) + len(r.Delegation))
	}
	if counted != size {
		t.Errorf("%d bytes counted, %d are there", size, counted)
	}
	must.OK(t, s.Close())
	// what was counted holds after a start
	s = openWith(t, path, store.RunOptions{Quotas: ledger.Quotas{Bytes: 5000}})
	if _, err := s.Append(ctx, saying(c, `{"text":"`+strings.Repeat("x", 500)+`"}`)); !errors.Is(err, store.ErrQuota) {
		t.Error(err)
	}
}

// What ends a right is possible beyond a quota, and what gives one is not.
func TestRightsEndBeyondTheQuota(t *testing.T) {
	t.Parallel()
	s, _ := bounded(t, ledger.Quotas{})
	c, key := company(t, s, "acme")
	who := by(c, time.Now())
	got(s.Agents.Register(ctx, who, "bot", nil, many))(t)
	second := got(s.Credentials.CreateKey(ctx, who, nil, full, 10))(t)
	must.OK(t, s.Passports.Record(ctx, who, store.Passport{JTI: "p", AgentID: "bot", Scopes: []string{"*"},
		IssuedAt: now.Unix(), ExpiresAt: time.Now().Add(time.Hour).Unix()}))
	exchanging := func(audiences ...string) error {
		_, err := s.Policies.SetCompany(ctx, who, store.CompanyChange{ExchangeAudiences: audiences})
		return err
	}
	must.OK(t, exchanging("one", "two"))
	must.OK(t, s.Companies.SetQuota(ctx, operator(c), store.Quota{Records: ptr(int64(1))}, "full"))
	refused := map[string]error{"audience": exchanging("one", "three")}
	_, refused["register"] = s.Agents.Register(ctx, who, "more", nil, many)
	_, refused["key"] = s.Credentials.CreateKey(ctx, who, nil, full, 10)
	refused["passport"] = s.Passports.Record(ctx, who, store.Passport{JTI: "q", AgentID: "bot", Scopes: []string{"*"}, ExpiresAt: time.Now().Add(time.Hour).Unix()})
	for what, err := range refused {
		if !errors.Is(err, store.ErrQuota) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must.OK(t, exchanging("one"))
	got(s.Passports.Revoke(ctx, who, "p", nil))(t)
	_, _, err := s.Agents.Disable(ctx, who, "bot")
	must.OK(t, err)
	must.OK(t, s.Credentials.DeleteKey(ctx, who, second.Key))
	_, _, err = s.Companies.RotateKey(ctx, who, true)
	must.OK(t, err)
	if _, err := s.Agents.Enable(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), time.Now()), "bot"); !errors.Is(err, store.ErrQuota) {
		t.Errorf("enable: %v", err)
	}
	_ = key
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// The quota of all companies together is exact on a file, across restarts, and refused requests
// count for no company.
func TestQuotaOfAllCompanies(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := bounded(t, ledger.Quotas{AllRecords: 200})
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	before := got(s.Companies.Total(ctx))(t)
	if n := flood(t, []*store.Store{s}, c, zoo); n != 200-before.Records {
		t.Errorf("%d appends beside %d records", n, before.Records)
	}
	if total := got(s.Companies.Total(ctx))(t); total.Records != 200 || total.Companies != 2 || total.Bytes == 0 {
		t.Errorf("%+v", total)
	}
	if status := s.QuotaStatus(); status.Records != 200 {
		t.Errorf("%+v", status)
	}
	if _, _, err := s.Companies.Create(ctx, "more", nil, now); !errors.Is(err, store.ErrQuota) {
		t.Errorf("registration: %v", err)
	}
	must.OK(t, s.Close())
	s = openWith(t, path, store.RunOptions{Quotas: ledger.Quotas{AllRecords: 200}})
	if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrQuota) {
		t.Error(err)
	}
	got(s.Companies.Suspend(ctx, operator(c), "full"))(t) // an operator is never refused
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

func TestQuotaOfRegistrations(t *testing.T) {
	t.Parallel()
	s, _ := bounded(t, ledger.Quotas{Companies: 4, CompaniesPerDay: 2})
	register := func(n int, at time.Time) error {
		_, _, err := s.Companies.Create(ctx, fmt.Sprintf("company-%d", n), nil, at)
		return err
	}
	must.OK(t, register(1, now))
	must.OK(t, register(2, now.Add(time.Hour)))
	var refused *store.RegistrationQuotaError
	if err := register(3, now.Add(2*time.Hour)); !errors.As(err, &refused) || !refused.Again.Equal(now.Add(24*time.Hour)) {
		t.Errorf("third: %v", err)
	}
	must.OK(t, register(3, now.Add(24*time.Hour)))
	if err := register(4, now.Add(24*time.Hour)); !errors.As(err, &refused) {
		t.Errorf("fourth: %v", err)
	}
	must.OK(t, register(4, now.Add(25*time.Hour)))
	if err := register(5, now.Add(100*time.Hour)); !errors.As(err, &refused) || refused.Within != 0 {
		t.Errorf("fifth: %v", err)
	}
}

// Servers of one database share what is left of the quota of all companies: together they write at
// most a tenth more, and refuse no company before the last few records.
func TestServersShareTheQuotaOfAllCompanies(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	const most = 3000
	database := storetest.Shared(t)
	var servers []*store.Store
	var companies []*store.Company
	for i := range 3 {
		s := openWith(t, database, store.RunOptions{Quotas: ledger.Quotas{AllRecords: most}})
		c, _ := company(t, s, fmt.Sprintf("c%d", i))
		servers, companies = append(servers, s), append(companies, c)
	}
	var all sync.WaitGroup
	for i, s := range servers {
		for range 8 {
			all.Go(func() {
				for refused := 0; refused < 20; {
					_, err := s.Append(ctx, draft(companies[i]))
					if refused++; err == nil {
						refused = 0
					} else if !errors.Is(err, store.ErrQuota) {
						t.Errorf("append: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	if total := got(servers[0].Companies.Total(ctx))(t).Records; total < most*98/100 || total > most*110/100 {
		t.Errorf("%d records, and %d may be", total, most)
	}
}

// The quota of a company is exact on several servers.
func TestQuotaOnSeveralServers(t *testing.T) {
	t.Parallel()
	database := storetest.Shared(t)
	var servers []*store.Store
	for range 3 {
		servers = append(servers, openWith(t, database, store.RunOptions{Quotas: ledger.Quotas{Records: 50}}))
	}
	c, _ := company(t, servers[0], "acme")
	if n := flood(t, servers, c); n != 50 || length(t, servers[0], c) != 50 {
		t.Errorf("%d appends, %d records", n, length(t, servers[0], c))
	}
	must.OK(t, servers[1].Companies.SetQuota(ctx, operator(c), store.Quota{Records: ptr(int64(60))}, "more"))
	if n := flood(t, servers, c); n != 10 {
		t.Errorf("%d appends after the quota was raised", n)
	}
	must.OK(t, servers[2].VerifyAll(ctx, "", 2, nil, nil))
}
