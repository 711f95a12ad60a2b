package test

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server/local"
)

// For a witness that lies, a log that the export cannot read, or an older program, the test has its
// own server, over the same socket: each turns the line of its check.
func TestDoctorShowsWhatAServerSays(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		name   string
		change func(*local.State)
		found  [][3]string // check, state and text
	}{
		{"nothing wrong", func(*local.State) {}, [][3]string{{"server", "warn", "the server is attestd/0.9.0, and this program attestd/"}, {"readiness", "ok", "ready"},
			{"verification", "ok", "were last verified at"}, {"export", "ok", "last acknowledged at"}, {"witnesses", "ok", "cosigned by witness.example.com"}}},
		{"a clock apart", func(s *local.State) { s.Readiness, s.Reasons = "degraded", []string{"CLOCK_APART"} },
			[][3]string{{"readiness", "warn", "CLOCK_APART"}}},
		{"a code that is newer than the doctor", func(s *local.State) { s.Readiness = "SUN_DOWN" }, [][3]string{{"readiness", "fail", "the server says: SUN_DOWN"}}},
		{"degraded without a reason", func(s *local.State) { s.Readiness = "degraded" }, [][3]string{{"readiness", "warn", "degraded"}}},
		{"stopped logs", func(s *local.State) { s.Export.Stopped = 2 }, [][3]string{{"export", "fail", "2 logs cannot be exported"}}},
		{"a contested log", func(s *local.State) { s.Witnesses[0].Refused, s.Witnesses[0].Contested = 3, 1 },
			[][3]string{{"witnesses", "fail", "witness.example.com contests 1 logs"}}},
		{"logs that are not cosigned", func(s *local.State) { s.Witnesses[0].Refused = 3 }, [][3]string{{"witnesses", "warn", "does not cosign 3 logs"}}},
		{"companies that were not read", func(s *local.State) { s.Verification.Unread, s.Verification.Saved = 2, false },
			[][3]string{{"verification", "warn", "cannot be saved"}, {"verification", "warn", "2 companies could not be read"}}},
		{"no certificate yet", func(s *local.State) { s.Certificate = &local.Certificate{} }, [][3]string{{"tls", "warn", "no certificate yet"}}},
		{"a certificate that ends", func(s *local.State) { s.Certificate = &local.Certificate{NotAfter: time.Now(), Ends: true} },
			[][3]string{{"tls", "warn", "the certificate in use ends at"}}},
		// --json escapes it, and diagnose has undone that
		{"a lie", func(s *local.State) { s.Readiness, s.Witnesses[0].Name = "\x1b[31mready", "\x1b[2J" },
			[][3]string{{"readiness", "fail", "\x1b"}}},
	} {
		t.Run(answer.name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			state := local.State{Program: "attestd/0.9.0", Process: 1, Began: time.Now(), Address: "127.0.0.1:1", Readiness: "ready",
				Export:       &local.Export{To: "a receiver", Delivered: time.Now()},
				Verification: &local.Verification{Ended: time.Now(), Saved: true},
				Witnesses:    []local.Witness{{Name: "witness.example.com"}}}
			answer.change(&state)
			s := &local.Server{Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
				Operations: local.Operations{State: func(context.Context) local.State { return state }}}
			must.OK(t, s.Listen(i.db))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() { stop(); <-ended }()
			d := diagnose(t, i.flags("--quick")...)
			for _, want := range answer.found {
				d.finds(t, want[0], want[1], want[2])
			}
		})
	}
}

// A clock that is not that of PostgreSQL is found. A function of the test's own, which a search
// path puts in front of the database's clock, is an hour behind.
func TestDoctorComparesClocksWithPostgres(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	db, _ := postgres(t)
	s := serve(t, db)
	s.register(t, "acme")
	must.OK(t, s.interrupt())
	flags := []string{"--quick", "--skip", "database"}
	d := diagnose(t, append(flags, "--db", db)...)
	d.finds(t, "clock", "ok", "the clock says")
	execute(t, db, `CREATE SCHEMA shifted`, `CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS $$SELECT pg_catalog.clock_timestamp() - interval '1 hour'$$`)
	address, err := url.Parse(db)
	must.OK(t, err)
	query := address.Query()
	query.Set("search_path", "public,shifted,pg_catalog")
	address.RawQuery = query.Encode()
	d = diagnose(t, append(flags, "--db", address.String())...)
	d.finds(t, "clock", "warn", "ahead of the database's")
}
