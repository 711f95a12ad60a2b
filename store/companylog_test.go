package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// deletion returns the statements with which an attacker deletes a company and all its rows.
func deletion(number int) (statements []string) {
	for _, guard := range []string{
		"record_no_delete", "node_no_delete", "head_no_delete", "log_no_delete", "log_key_no_delete",
		"company_key_no_delete", "checkpoint_no_delete", "company_no_delete",
	} {
		statements = append(statements, "DROP TRIGGER "+guard)
	}
	for _, from := range []string{
		"record WHERE id >> 40 IN (%[1]d, -%[1]d)", "node WHERE chain IN (%[1]d, -%[1]d)", "head WHERE chain IN (%[1]d, -%[1]d)",
		"log_key WHERE chain IN (%[1]d, -%[1]d)", "log WHERE company = %[1]d", "company_key WHERE company = %[1]d",
		"api_key WHERE company = %[1]d", "company WHERE id = %[1]d",
	} {
		statements = append(statements, fmt.Sprintf("DELETE FROM "+from, number))
	}
	return statements
}

// verdicts verifies a database and returns the checks that failed.
func verdicts(t *testing.T, path string) (failed []string) {
	t.Helper()
	s, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	defer s.Close()
	err = s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
		if !v.Valid {
			failed = append(failed, fmt.Sprintf("%s at %d: %s", v.Title(), v.FailedAt, v.Reason))
		}
	}, nil)
	if (err != nil) != (len(failed) > 0) {
		t.Errorf("%v, and %q", err, failed)
	}
	return failed
}

// twoCompanies returns a closed database with two companies.
func twoCompanies(t *testing.T) string {
	t.Helper()
	s, path := fresh(t)
	for _, id := range []string{"acme", "zoo"} {
		c, _ := company(t, s, id)
		attest(t, s, c, 3)
	}
	must.OK(t, s.Close())
	return path
}

// Deleting the newest company with all its rows leaves no gap in the numbers. The log of the
// companies still names it, so verify reports it, and the server registers no company until that is
// put right.
func TestRemovedLastCompanyIsDetected(t *testing.T) {
	t.Parallel()
	path := twoCompanies(t)
	if failed := verdicts(t, path); len(failed) > 0 {
		t.Fatalf("before: %q", failed)
	}
	must.OK(t, other(t, path, deletion(2)...).Close())
	const missing = `table company, row "zoo": is missing, and the log of the companies tells of it`
	if failed := verdicts(t, path); len(failed) != 1 || failed[0] != "log of the companies at 2: "+missing {
		t.Errorf("%q", failed)
	}
	s := open(t, path)
	err := s.Tables.Check(ctx, db.Installation)
	if differs := (*store.TablesChangedError)(nil); !errors.As(err, &differs) || differs.Difference.Error() != missing {
		t.Errorf("the server's check: %v", err)
	}
	if _, _, err := s.Companies.Create(ctx, "newcomer", nil, now); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("a registration: %v", err)
	}
	acme := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, acme, 1)
	got(s.Agents.Register(ctx, by(acme, now), "bot", nil, many))(t)
	if _, err := admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: db.InstallationID, Reason: "a test"}); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "put a backup in place") {
		t.Errorf("accepted: %v", err)
	}
}

// The test deletes all companies but not their log, and then the log but not the companies.
func TestCompaniesWithoutTheirLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statements []string
		want       string
	}{
		"no company":  {append(deletion(1), deletion(2)[8:]...), `log of the companies at 1: table company, row "acme": is missing, and the log of the companies tells of it`},
		"no log":      {deletion(db.Installation), "log of the companies at 0: there are companies, and the log of the companies is missing"},
		"added":       {[]string{`INSERT INTO company (id, company_id, registered_at) VALUES (3, 'new', '')`, `INSERT INTO log (chain, company, name, log_id, origin) VALUES (3, 3, 'actions', 'x', 'x'), (-3, 3, 'control', 'y', 'y')`}, `table company, row "new": no record of the log of the companies tells of it`},
		"other key":   {[]string{"DROP TRIGGER company_key_only_ends", "UPDATE company_key SET public_key = (SELECT public_key FROM company_key WHERE company = 1) WHERE company = 2"}, `table company, row "zoo": its first signing key is "`},
		"other names": {[]string{"DROP TRIGGER log_no_update", "UPDATE log SET origin = 'x' WHERE chain = 2"}, `table company, row "zoo": the origin of its actions is "x"`},
		"renamed":     {[]string{"DROP TRIGGER company_no_update", "UPDATE company SET company_id = 'zo' WHERE id = 2"}, `table company, row "zoo": its ID is "zo", and the log of the companies says "zoo"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := twoCompanies(t)
			must.OK(t, other(t, path, c.statements...).Close())
			if failed := verdicts(t, path); !slices.ContainsFunc(failed, func(f string) bool {
				return strings.HasPrefix(f, "log of the companies at ") && strings.Contains(f, c.want)
			}) {
				t.Errorf("%q", failed)
			}
			if s := open(t, path); name == "no log" {
				if _, err := s.Companies.HasLog(ctx); !errors.Is(err, store.ErrTablesChanged) || len(s.Tables.Changed()) != 1 {
					t.Errorf("the server's check: %v", err)
				}
				if _, _, err := s.Companies.Create(ctx, "newcomer", nil, now); !errors.Is(err, store.ErrTablesChanged) {
					t.Errorf("a registration: %v", err)
				}
			}
		})
	}
}

// An attacker with the companies' keys can rename a company, or swap two names, in all its records
// too. Its own logs then show nothing, but the log of the companies does.
func TestRenamedCompaniesAreDetected(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for name, names := range map[string][2]string{"renamed": {"acme", "oz"}, "swapped": {"zoo", "acme"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := twoCompanies(t)
			for i, id := range []string{"acme", "zoo"} {
				for _, log := range []store.LogName{store.Actions, store.Control} {
					for index := range int64(3) {
						if log == store.Control && index == 2 {
							break
						}
						got(rewrite.Record(ctx, path, schema(t), store.Options{Master: master()}, id, log, index, func(payload []byte) []byte {
							text := strings.ReplaceAll(string(payload), `"companyId":"`+id+`"`, `"companyId":"`+names[i]+`"`)
							return []byte(strings.ReplaceAll(text, `"company:`+id+`"`, `"company:`+names[i]+`"`))
						}))(t)
					}
				}
			}
			must.OK(t, other(t, path, "DROP TRIGGER company_no_update", "UPDATE company SET company_id = 'x' WHERE id = 1",
				"UPDATE company SET company_id = '"+names[1]+"' WHERE id = 2", "UPDATE company SET company_id = '"+names[0]+"' WHERE id = 1").Close())
			number, listed := 2, "zoo"
			if name == "swapped" {
				number, listed = 1, "acme"
			}
			want := fmt.Sprintf("log of the companies at %d: table company, row %q: its ID is %q, and the log of the companies says %q", number, listed, names[number-1], listed)
			if failed := verdicts(t, path); len(failed) != 1 || failed[0] != want {
				t.Errorf("%q, want %q", failed, want)
			}
		})
	}
}

// If the newest company is deleted together with its record in the log of the companies, the head
// file detects it.
func TestHeadFileDetectsRemovedLastCompany(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	s := kept(t, path)
	company(t, s, "acme")
	must.OK(t, s.Close())
	older := storetest.Copy(t, path)
	s = kept(t, path)
	company(t, s, "zoo")
	must.OK(t, s.Close())
	storetest.Replace(t, path, older)
	if failed := verdicts(t, path); len(failed) > 0 {
		t.Errorf("inside the database: %q", failed)
	}
	found := behind(t, path)
	if !slices.ContainsFunc(found, func(b string) bool {
		return strings.HasPrefix(b, "@installation control was known at size 3 with log root ")
	}) {
		t.Errorf("%q", found)
	}
	read := got(store.OpenReadOnly(ctx, path))(t)
	defer read.Close()
	if err := read.Rollback.Check(ctx, storetest.Heads(path)); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("verify --heads: %v", err)
	}
	accept(t, path)
	fine(t, path)
	s = kept(t, path)
	company(t, s, "newcomer")
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A database from before the log of the companies gets that log at the next start: one record for
// each company, in the order of their registrations. Until then the database is valid.
func TestCompaniesBeforeControlLogAreListed(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for version := range older {
		if len(version) == 2 && version >= "12" { // it has the log
			continue
		}
		path, companies := written(t, version)
		s := open(t, path)
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		if _, err := s.Companies.Installation(ctx); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("schema %s: %v", version, err)
		}
		must.OK(t, s.Settings.RecordStart(ctx, nil))
		must.OK(t, s.Settings.RecordStart(ctx, nil))
		company(t, s, "newcomer")
		if n := tipOf(t, s, got(s.Companies.Installation(ctx))(t).Control).Length; n != int64(len(companies))+2 {
			t.Errorf("schema %s: the log of the companies has %d records", version, n)
		}
		must.OK(t, s.Close())
		if failed := verdicts(t, path); len(failed) > 0 {
			t.Errorf("schema %s: %q", version, failed)
		}
		must.OK(t, other(t, path, deletion(len(companies)+1)...).Close())
		if failed := verdicts(t, path); len(failed) != 1 || !strings.Contains(failed[0], `row "newcomer": is missing`) {
			t.Errorf("schema %s: %q", version, failed)
		}
	}
}

// If no server has started since the upgrade, a registration creates the log.
func TestRegistrationListsTheCompaniesBeforeIt(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, companies := written(t, "10")
	s := open(t, path)
	company(t, s, "newcomer")
	if n := tipOf(t, s, got(s.Companies.Installation(ctx))(t).Control).Length; n != int64(len(companies))+2 {
		t.Errorf("the log of the companies has %d records", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// Concurrent registrations on several servers of one PostgreSQL database are all listed, in the
// order of their numbers.
func TestConcurrentRegistrationsAreListed(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	first, path := fresh(t)
	servers := []*store.Store{first}
	if storetest.OnPostgres() {
		servers = append(servers, open(t, path), open(t, path))
	}
	const each = 20
	var callers sync.WaitGroup
	for i, s := range servers {
		for n := range each {
			callers.Go(func() {
				if _, _, err := s.Companies.Create(ctx, fmt.Sprintf("c-%d-%d", i, n), nil, now); err != nil {
					t.Error(err)
				}
			})
		}
	}
	callers.Wait()
	c := got(first.Companies.Installation(ctx))(t)
	if n := tipOf(t, first, c.Control).Length; n != int64(len(servers)*each)+1 {
		t.Errorf("the log of the companies has %d records", n)
	}
	must.OK(t, first.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, first.Tables.Check(ctx, db.Installation))
}

// The installation is not a company: it has no credential, its ID finds nothing and cannot be
// registered, and nothing of it is published.
func TestInstallationIsNotACompany(t *testing.T) {
	t.Parallel()
	var published []int64
	path := storetest.New(t)
	s := openWith(t, path, store.RunOptions{
		Publish: func(batch []chain.Extension, _ bool) {
			for _, e := range batch {
				published = append(published, e.Chain)
			}
		},
		// what is read from the database before it is published counts as another server's
		Others: func(number, _, _ int64) { published = append(published, number) },
	})
	c, _ := company(t, s, "acme")
	attest(t, s, c, 1)
	for _, err := range []error{
		errOf(s.Companies.Get(ctx, db.InstallationID)), errOf(s.Credentials.FirstKey(ctx, db.InstallationID)),
		errOf(s.Credentials.RecoverKey(ctx, db.InstallationID, store.RecoveredByCommand, now)),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("found: %v", err)
		}
	}
	if _, _, err := s.Companies.Create(ctx, db.InstallationID, nil, now); !errors.Is(err, store.ErrExists) {
		t.Errorf("registered: %v", err)
	}
	if chains := got(s.Chains(ctx))(t); slices.Contains(chains, db.Installation) || !slices.Contains(chains, store.CompanyLogChain) {
		t.Errorf("witnesses are asked about %v", chains)
	}
	of := got(s.Companies.Installation(ctx))(t)
	_, next, err := s.Companies.RotateKey(ctx, by(of, now), true)
	must.OK(t, err)
	company(t, s, "zoo")
	if again := got(s.Companies.Installation(ctx))(t); !again.Issuer.Public.Key.Equal(next.Public) {
		t.Error("its key was not changed")
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	if !slices.Equal(slices.Compact(published), []int64{c.Chain}) {
		t.Errorf("published of chains %v", published)
	}
}

func errOf[T any](_ T, err error) error { return err }
