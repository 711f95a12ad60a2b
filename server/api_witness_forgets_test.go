package server_test

import (
	"os"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// forgets demands that a witness signs neither history of the log, gives the reason, and shows it
// to its operator, while its companies go on.
func (s *service) forgets(t *testing.T, why string) {
	t.Helper()
	l, fork := newWatchedLog(t, "leaf", 20), newWatchedLog(t, "another", 20)
	for _, request := range []string{l.request(t, 0, 5), l.request(t, 5, 9), l.request(t, 9, 12), fork.request(t, 0, 9), fork.request(t, 5, 9)} {
		r := s.anyone().do(t, addCheckpoint, request).status(503)
		if r.str("code") != "ROLLED_BACK" || !strings.Contains(r.str("error"), why) || strings.Contains(string(r.raw), "—") {
			t.Errorf("%s", r.raw)
		}
	}
	s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"degraded","reasons":["COSIGNER_BEHIND"],"headFile":"<anything>","cosigner":"behind"}`)
}

// acceptWitness accepts that a closed database has forgotten cosigned trees.
func acceptWitness(t *testing.T, path string) []store.Behind {
	t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	accepted, err := admin.AcceptRollback(t.Context(), path, string(schema), admin.AcceptOptions{Heads: storetest.Heads(path), Reason: "a test", Master: master()})
	must.OK(t, err)
	return accepted
}

// A witness whose database went back signs nothing of any history, even if nothing else was lost,
// until the operator accepts that; the acceptance is recorded in the control log of the oldest
// company.
func TestWitnessThatForgotSignsNothing(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, cosigning(t, watchedLine()))
	path, l := s.path, newWatchedLog(t, "leaf", 20)
	acme := s.company(t, "acme")
	s.anyone().do(t, addCheckpoint, l.request(t, 0, 5)).status(200)
	s.stop()
	older := storetest.Copy(t, path)
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.anyone().do(t, addCheckpoint, l.request(t, 5, 9)).status(200)
	s.stop()
	storetest.Replace(t, path, older)

	for range 2 {
		s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
		s.forgets(t, "log log.example/watched was cosigned at size 9 with log root ")
		acme.on(s).attestMany(t, 1)
		s.stop()
	}
	if accepted := acceptWitness(t, path); len(accepted) != 1 || accepted[0].Log != db.Cosigned || accepted[0].Origin() != watchedOrigin {
		t.Errorf("accepted %+v", accepted)
	}
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.anyone().do(t, addCheckpoint, l.request(t, 5, 12)).status(200)
	s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written"}`)
	if r := acme.on(s).do(t, "GET /v1/chain?log=control", "").status(200); !strings.Contains(string(r.raw), `"rollback.accepted"`) || !strings.Contains(string(r.raw), watchedOrigin) {
		t.Errorf("the control log: %s", r.raw)
	}
}

// A database that goes back while it is served is detected at the next request, even without a head
// file.
func TestWitnessThatForgetsWhileItServes(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	s := start(t, cosigning(t, watchedLine()))
	l := newWatchedLog(t, "leaf", 20)
	s.anyone().do(t, addCheckpoint, l.request(t, 0, 9)).status(200)
	db := storetest.Stranger(t, s.path, "DROP TRIGGER witness_log_only_grows", "UPDATE witness_log SET size = 5")
	must.OK(t, db.Close())
	s.forgets(t, "log log.example/watched was cosigned at size 9 with log root ")
}

// A database from before the witness had a key does not get another key in its place.
func TestWitnessWhoseKeyIsGone(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	path, l := s.path, newWatchedLog(t, "leaf", 20)
	s.stop()
	older := storetest.Copy(t, path)
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.anyone().do(t, addCheckpoint, l.request(t, 0, 9)).status(200)
	s.stop()
	storetest.Replace(t, path, older)
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.forgets(t, "nothing was cosigned; this witness does not know any more what it has signed: log of the origin with SHA-256 ")
	s.anyone().do(t, "GET /v1/witness", "").status(503)
	s.stop()
	acceptWitness(t, path)
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.anyone().do(t, addCheckpoint, l.request(t, 0, 5)).status(200)
}

// While the head file cannot be written, no cosignature is made that it would not know; as soon as
// it can be, the log gets its cosignature.
func TestWitnessWithoutItsHeadFile(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	path, l := storetest.New(t), newWatchedLog(t, "leaf", 20)
	heads := storetest.Heads(path)
	must.OK(t, os.Mkdir(heads+".new", 0o700)) // the head file is created under this name
	s := startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.anyone().do(t, addCheckpoint, l.request(t, 0, 5)).gets(503, `{"error":"…","code":"NOT_DONE","requestId":"…"}`)
	must.OK(t, os.Remove(heads+".new"))
	s.anyone().do(t, addCheckpoint, l.request(t, 5, 5)).status(200)
	s.stop()
	must.OK(t, storetest.Stranger(t, path, "DROP TRIGGER witness_log_no_delete", "DELETE FROM witness_log").Close())
	s = startOn(t, path, cred.Domain{}, cosigning(t, watchedLine()))
	s.forgets(t, "log of the origin with SHA-256 ")
}
