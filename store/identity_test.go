package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// Each control log has the identity of the database. An attacker who exchanges it in the table
// gains nothing: the next start records nothing, no company is changed, and verification names the
// setting.
func TestIdentityOfTheDatabaseIsFixed(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, start := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	company(t, s, "acme")
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	const set = "UPDATE setting SET value = '%s' WHERE name = '%s'"
	forget := fmt.Sprintf(set, "{}", "trust_settings")
	for what, statements := range map[string][]string{
		"trust domain":                 {fmt.Sprintf(set, "evil.example", "trust_domain")},
		"service name":                 {fmt.Sprintf(set, "evil", "service_name")},
		"database ID":                  {fmt.Sprintf(set, strings.Repeat("0", 32), "database_id")},
		"the key of HMACs":             {fmt.Sprintf(set, strings.Repeat("0", 64), "token_key")},
		"no key of HMACs":              {"DELETE FROM setting WHERE name = 'token_key'"},
		"a trust domain, never stated": {fmt.Sprintf(set, "evil.example", "trust_domain"), forget},
		"a trust domain, stated": {fmt.Sprintf(set, "evil.example", "trust_domain"),
			"UPDATE setting SET value = replace(value, 'attestd.local', 'evil.example') WHERE name = 'trust_settings'"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if sealed := master() != nil; sealed && strings.Contains(what, "key") {
				t.Skip("a key that is not sealed stops the start")
			}
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, statements...).Close())
			s := open(t, path)
			c := got(s.Companies.Get(ctx, "acme"))(t)
			err := s.Settings.RecordStart(ctx, nil)
			if what == "no key of HMACs" && err == nil {
				err = s.Tables.CheckIdentity(ctx) // a start makes one
			}
			if !errors.Is(err, store.ErrTablesChanged) {
				t.Errorf("the start: %v", err)
			}
			if err := s.Tables.Changeable(ctx, by(c, now)); !errors.Is(err, store.ErrTablesChanged) {
				t.Errorf("a change: %v", err)
			}
			if len(s.Tables.Changed()) == 0 {
				t.Error("nothing has changed")
			}
			err = s.VerifyAll(ctx, "acme", 2, nil, nil)
			if wrong := (*store.VerifyError)(nil); !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "setting") {
				t.Errorf("verify says %v", err)
			}
		})
	}
}

// A database of an older version records its identity at its first start, once.
func TestIdentityIsStatedAtTheFirstStart(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	path, companies := written(t, "20")
	s := open(t, path)
	for range 2 {
		must.OK(t, s.Settings.RecordStart(ctx, nil))
	}
	for id := range companies {
		c := got(s.Companies.Get(ctx, id))(t)
		if list := said(t, s, c, "settings.changed"); len(list) != 1 || !strings.Contains(list[0], `"trustDomain":{"from":null,"to":"`) || !strings.Contains(list[0], `"rowKey":{"from":null,"to":"`) {
			t.Errorf("%s: %q", id, list)
		}
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A pending control record is one of those that operations leave. An attacker who writes another
// one does not make the service sign a right.
func TestForgedPendingRecordsAreNotSigned(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, start := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	company(t, s, "acme")
	must.OK(t, s.Close())
	secret := "svc_forged"
	fingerprint := keys.Fingerprint(keys.HashSecret(secret))
	for what, pending := range map[string]string{
		"an accepted key":      fmt.Sprintf(`{"action":"row.accepted","subject":"api-key:%s","details":{"table":"api_key","name":"%s","row":{"fingerprint":"%s","role":"admin","expiresAt":"","madeBy":""}}}`, fingerprint, fingerprint, fingerprint),
		"an enabled agent":     `{"action":"agent.enabled","subject":"agent:bot","details":{"agentId":"bot"}}`,
		"a subject":            `{"action":"database.moved","subject":"agent:bot","details":{}}`,
		"a subject in details": `{"action":"database.moved","subject":"database","details":{"subject":"agent:bot"}}`,
		"a detail":             `{"action":"database.moved","subject":"database","details":{"disabledAt":""}}`,
		"a recovered row":      `{"action":"api-key.recovered","subject":"api-key:x","details":{}}`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, `INSERT INTO setting (name, value) VALUES ('unrecorded', '[`+pending+`]')`).Close())
			s := open(t, path)
			c := got(s.Companies.Get(ctx, "acme"))(t)
			before := tipOf(t, s, c.Control).Length
			for _, looks := range []func() error{func() error { return s.Settings.RecordStart(ctx, nil) }, func() error { return s.Tables.CheckIdentity(ctx) }} {
				if err := looks(); !errors.Is(err, store.ErrTablesChanged) {
					t.Errorf("%v", err)
				}
			}
			if n := tipOf(t, s, c.Control).Length; n != before {
				t.Errorf("%d records were signed", n-before)
			}
			// the remedy that the error names
			must.OK(t, other(t, path, `DELETE FROM setting WHERE name = 'unrecorded'`).Close())
			must.OK(t, s.Settings.RecordStart(ctx, nil))
			must.OK(t, s.Tables.Changeable(ctx, by(c, now)))
		})
	}
}
