package postgres_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/store/postgres"
	"attestd/store/postgres/pgtest"
)

// A faulty address is refused with the reason, and its password appears in no error, wherever it is
// in the address.
func TestInvalidURLErrorHidesPassword(t *testing.T) {
	const secret = "Tr0ub4dor"
	for address, want := range map[string]string{
		"attestd.db":                       "begins with postgres://",
		"host=h user=u password=" + secret: "begins with postgres://",
		"postgres://u:" + secret + "@h/d?target_session_attrs=best":                       "unknown target_session_attrs value: best",
		"postgres://u:" + secret + "@h/d?sslmode=perhaps":                                 "sslmode",
		"postgres://u:" + secret + "@h/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem": "/nowhere/ca.pem",
		"postgres://u:" + secret + "@h1:1,h2:2,h3/d?connect_timeout=soon":                 "connect_timeout",
		"postgres://u@h:port/d?password=" + secret:                                        "invalid port",
		"postgres://u@h:port/d?pass%77ord=" + secret:                                      "invalid port",
		"postgres://u@h:port/d?sslpassword=" + secret:                                     "invalid port",
		"postgres://u:" + secret + "/x@h/d":                                               "percent-encode",
		"postgres://u:" + secret + "?x=y@h/d":                                             "percent-encode",
		"postgres://u:" + secret:                                                          "invalid port",
		"postgres://" + secret + ":x/d":                                                   "invalid port",
		"postgres://u:12/" + secret + "@h/d":                                              "percent-encode",
		"postgres://u:12?x=" + secret + "@h/d":                                            "percent-encode",
		"postgres://u:12#" + secret + "@h/d":                                              "percent-encode",
		"postgres://u:%zz" + secret + "@h/d":                                              "percent-encode",
		"postgres://u:a@" + secret + ":b@h/d":                                             "percent-encode",
		"postgres://u:" + secret + "%@h/d?pass%zz=" + secret:                              "percent-encode",
		"postgres://u:" + secret + " @h:port/d":                                           "invalid port",
	} {
		_, err := postgres.Open(address, new(atomic.Int64))
		if !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the password is in %v", address, err)
		}
		if strings.Contains(postgres.Name(address), secret) {
			t.Errorf("the password is in the name %s", postgres.Name(address))
		}
	}
}

// A server that refuses the password, or that cannot be reached, causes an error without the
// password.
func TestConnectionErrorHidesPassword(t *testing.T) {
	t.Parallel()
	const secret = "Tr0ub4dor"
	address := pgtest.Database(t)
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	for address, want := range map[string]error{
		with(t, address, "pgtest", secret, nil):                        postgres.ErrRefused,
		"postgres://u:" + secret + "@" + nobody + "/d?sslmode=disable": postgres.ErrUnavailable,
		"postgres://u:" + secret + "@" + nobody + "," + nobody + "/d":  postgres.ErrUnavailable,
		// There is no such database.
		strings.Replace(address, "/test_", "/test_0", 1) + "&application_name=no": postgres.ErrRefused,
		address + "&no_such_setting=x":                                            postgres.ErrRefused,
	} {
		_, err := postgres.Identify(t.Context(), open(t, address))
		if !errors.Is(err, want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, not %v", address, err, want)
		}
	}
}

// Every connection begins with the same settings, whatever the role, the database and the server
// have set; other settings of the URL stay.
func TestEveryConnectionHasItsSettings(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	address := pgtest.Database(t)
	execute(t, open(t, address), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET client_encoding = LATIN1', current_database());
		EXECUTE format('ALTER DATABASE %I SET quote_all_identifiers = on', current_database());
		EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database()); END $$`)
	const ignoring = "ignore_startup_parameters = search_path,options,default_transaction_isolation,idle_in_transaction_session_timeout"
	for way, address := range map[string]string{
		"at once": address, "through a pooler": pgtest.NewPooler(t, address, "session", "").URL(), "through one that ignores": pgtest.NewPooler(t, address, "session", ignoring).URL(),
	} {
		for by, parameters := range map[string]url.Values{
			"name": {"search_path": {"mine, yours"}, "work_mem": {"5MB"}}, "options": {"options": {"-c search_path=mine,yours --work-mem=5MB"}},
		} {
			db := open(t, with(t, address, "", "", parameters))
			for setting, want := range map[string]string{
				"transaction_isolation": "read committed", "idle_in_transaction_session_timeout": "3s", "client_encoding": "UTF8", "application_name": "attestd",
				"search_path": "mine,yours", "work_mem": "5MB", "synchronous_commit": "on", "quote_all_identifiers": "off", "standard_conforming_strings": "on",
			} {
				var value string
				if scan(t, db, &value, "SELECT replace(current_setting($1), ', ', ',')", setting); value != want {
					t.Errorf("%s, by %s: %s is %s, not %s", way, by, setting, value, want)
				}
			}
		}
	}
	var name string
	if scan(t, open(t, with(t, address, "", "", url.Values{"application_name": {"of the URL"}})), &name, "SELECT current_setting('application_name')"); name != "of the URL" {
		t.Errorf("application_name is %s", name)
	}
}

// Warnings of a server are counted, and notices are not.
func TestWarningsAreCounted(t *testing.T) {
	t.Parallel()
	var warnings atomic.Int64
	db, err := postgres.Open(pgtest.Database(t), &warnings)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	execute(t, db, "DO $$ BEGIN RAISE NOTICE 'n'; RAISE WARNING 'w'; RAISE WARNING 'w'; END $$")
	if n := warnings.Load(); n != 2 {
		t.Fatalf("%d warnings", n)
	}
}

// The URL's connect_timeout and target_session_attrs take precedence over attestd's.
func TestURLSettingsOverrideDefaults(t *testing.T) {
	for address, want := range map[string]struct {
		timeout  time.Duration
		validate bool
	}{
		"postgres://h/d":                                {3 * time.Second, true},
		"postgresql://h/d?connect_timeout=7":            {7 * time.Second, true},
		"postgres://h1:1,h2/d?target_session_attrs=any": {3 * time.Second, false},
	} {
		c, err := postgres.DialConfig(address)
		if err != nil || c.ConnectTimeout != want.timeout || (c.ValidateConnect != nil) != want.validate {
			t.Errorf("%s: %v, %v, %v", address, c.ConnectTimeout, c.ValidateConnect != nil, err)
		}
	}
}

// The display name of a database contains its hosts and nothing of its user.
func TestDisplayNameHidesUser(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://u:p@h1:5433,h2/d?sslmode=require": "postgres://h1:5433,h2:5432/d",
		"postgres://u:p@[::1]/d%20e":                  "postgres://[::1]:5432/d%20e",
		"postgres://u:p@h:x/d":                        "postgres://",
	} {
		if name := postgres.Name(address); name != want {
			t.Errorf("%s, not %s", name, want)
		}
	}
}

// Of several hosts, the one that can be reached and written is used.
func TestWritableHostIsSelected(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	c := pgtest.NewCluster(t)
	hosts := c.Addresses()
	for _, address := range []string{c.URL(), c.URL(hosts[1], hosts[0])} {
		var readOnly bool
		if scan(t, open(t, strings.Replace(address, "&target_session_attrs=read-write", "", 1)), &readOnly, "SELECT pg_is_in_recovery()"); readOnly {
			t.Errorf("%s led to the standby", address)
		}
	}
	standby := strings.Replace(c.URL(hosts[1]), "&target_session_attrs=read-write", "", 1)
	for address, want := range map[string]string{standby: "it is a standby", standby + "&target_session_attrs=any": "pg_is_in_recovery"} {
		_, err := postgres.Identify(t.Context(), open(t, address))
		if !errors.Is(err, postgres.ErrRefused) || !errors.Is(err, postgres.ErrReadOnly) || !strings.Contains(err.Error(), want) {
			t.Errorf("a standby: %v", err)
		}
	}
}
