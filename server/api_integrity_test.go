package server_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/server"
	"attestd/store"
	"attestd/store/storetest"
	memory "attestd/store/verified"
)

const (
	doesNotVerify = "a log does not verify"
	passEnded     = "the background verification has reached every company"
	verifiedFully = "each log is verified in full once"
)

func verifyEvery(d time.Duration) func(*server.Config) {
	return func(c *server.Config) { c.VerifyEvery = d }
}

// recordMany appends records of a company.
func (c caller) recordMany(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		c.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a","payload":%d}`, i)).status(201)
	}
}

// changeRecord changes the payload of a record behind the server's back, and with true back again.
func changeRecord(t testing.TB, path string, company, index int64, back bool) {
	t.Helper()
	storetest.AboutFile(t)
	db := storetest.Stranger(t, path)
	defer db.Close()
	var guard string
	must.OK(t, db.QueryRow(`SELECT sql FROM sqlite_master WHERE name = 'record_no_update'`).Scan(&guard))
	from, to := "a", "b"
	if back {
		from, to = to, from
	}
	for _, statement := range []string{`DROP TRIGGER record_no_update`,
		fmt.Sprintf(`UPDATE record SET payload = replace(payload, '"actionType":"%s"', '"actionType":"%s"') WHERE id = %d`, from, to, company<<40|index), guard} {
		_, err := db.Exec(statement)
		must.OK(t, err)
	}
}

// verifiedFile is the file of what was verified of a database, whose service is stopped.
func verifiedFile(t testing.TB, path string) *memory.File {
	t.Helper()
	db := storetest.Stranger(t, path)
	defer db.Close()
	var text string
	must.OK(t, db.QueryRow(`SELECT value FROM setting WHERE name = 'database_id'`).Scan(&text))
	id, err := hex.DecodeString(text)
	must.OK(t, err)
	return memory.NewFile(store.VerifiedBeside(storetest.Heads(path)), master(), [16]byte(id), "attestd/1.2.3-test")
}

// The background verification finds a changed record that no request reads, reports it once in the
// log and in readyz, and stops nothing.
func TestBackgroundVerificationFindsAChangedRecord(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s := start(t, verifyEvery(time.Millisecond))
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.recordMany(t, 3)
	globex.recordMany(t, 3)
	passes := s.log.says(passEnded)
	eventually(t, "two passes", func() bool { return s.log.says(passEnded) > passes+1 })
	if s.log.says(doesNotVerify) > 0 {
		t.Error("a log fails that nobody has changed")
	}
	changeRecord(t, s.path, 2, 1, false)
	eventually(t, "the log says so", func() bool { return s.log.says(doesNotVerify) == 1 })
	if n := s.log.says(`"company":"globex","log":"actions","chain":2,"record":1`); n != 1 {
		t.Errorf("company, log and record are named %d times", n)
	}
	s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"degraded","reasons":["LOG_FAILED"],"headFile":"written","logsFailed":1}`)
	acme.do(t, "GET /v1/verify", "").status(200)
	globex.recordMany(t, 1)
	passes = s.log.says(passEnded)
	eventually(t, "two more passes", func() bool { return s.log.says(passEnded) > passes+1 })
	if n := s.log.says(doesNotVerify); n != 1 {
		t.Errorf("said %d times", n)
	}
	changeRecord(t, s.path, 2, 1, true)
	eventually(t, "the log says that it verifies again", func() bool { return s.log.says("a log verifies again") == 1 })
}

// A table that changes under the running server is found too.
func TestBackgroundVerificationFindsAChangedTable(t *testing.T) {
	t.Parallel()
	s := start(t, verifyEvery(time.Millisecond))
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	must.OK(t, storetest.Stranger(t, s.path, `UPDATE agent SET registered_at = '2020-01-01T00:00:00.000Z' WHERE agent_id = 'bot'`).Close())
	eventually(t, "the log says so", func() bool { return s.log.says("see attestd help accept-tables") == 1 })
	acme.do(t, "POST /v1/agents/register", `{"agentId":"new"}`).gets(503, tablesChanged)
}

// A pass that a stop interrupted continues from its position, and the next one comes when it is
// due.
func TestBackgroundVerificationGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s := start(t, verifyEvery(time.Hour))
	for _, id := range []string{"acme", "globex", "initech"} {
		s.company(t, id).recordMany(t, 2)
	}
	s.stop()
	file := verifiedFile(t, s.path)
	found, err := file.Read()
	must.OK(t, err)
	begun := time.Now().Add(-30 * time.Minute).Truncate(time.Millisecond)
	found.Current, found.Last = memory.Pass{Begun: begun, Reached: 2, Verified: 2}, memory.Pass{}
	must.OK(t, file.Write(found))
	changeRecord(t, s.path, 1, 0, false)
	changeRecord(t, s.path, 3, 0, false)

	again := startOn(t, s.path, cred.Domain{}, verifyEvery(time.Hour))
	eventually(t, "the pass ends", func() bool { return again.log.says(passEnded) == 1 })
	again.stop()
	if again.log.says(doesNotVerify) != 1 || again.log.says(`"company":"initech"`) == 0 {
		t.Error("the pass did not go on with the third company")
	}
	found, err = file.Read()
	must.OK(t, err)
	if p := found.Last; !p.Begun.Equal(begun) || p.Failed != 1 || p.Verified != 3 || !found.Current.Begun.IsZero() || !found.Since.Equal(begun) {
		t.Errorf("%+v", found)
	}
	third := startOn(t, s.path, cred.Domain{}, verifyEvery(time.Hour))
	third.company(t, "hooli")
	third.stop()
	if third.log.says(passEnded) > 0 {
		t.Error("a pass began half an hour after the one before")
	}
}

// What was verified survives a restart, and no file makes a bad record good: not the one of this
// database, an older or newer one, another database's, nor a damaged one.
func TestVerifiedFileNeverHidesAChange(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	build := func() (s *service, acme caller, name string, older []byte) {
		s = start(t)
		name = store.VerifiedBeside(storetest.Heads(s.path))
		acme = s.company(t, "acme")
		for i, n := range []int{2, 3} {
			if i > 0 {
				s = startOn(t, s.path, cred.Domain{})
			}
			acme.on(s).recordMany(t, n)
			acme.on(s).do(t, "GET /v1/verify", "").status(200)
			s.stop()
			if i == 0 {
				var err error
				older, err = os.ReadFile(name)
				must.OK(t, err)
			}
		}
		return s, acme, name, older
	}
	s, acme, name, older := build()
	_, _, other, _ := build()
	newest, err := os.ReadFile(name)
	must.OK(t, err)
	found, err := verifiedFile(t, s.path).Read()
	must.OK(t, err)
	if found.Known[1].Length != 5 {
		t.Fatalf("%+v", found)
	}
	put := func(from, to string) {
		b, err := os.ReadFile(from)
		if !os.IsNotExist(err) { // with a master key there is no key file
			must.OK(t, err)
			must.OK(t, os.WriteFile(to, b, 0o600))
		}
	}
	key, _ := os.ReadFile(name + ".key")
	for _, c := range []struct {
		name   string
		change func()
		full   int // how often the log reports a new verification of everything
	}{
		{"as it was", func() {}, 0},
		{"older", func() { must.OK(t, os.WriteFile(name, older, 0o600)) }, 0},
		{"missing", func() { must.OK(t, os.Remove(name)) }, 1},
		{"cut short", func() { must.OK(t, os.Truncate(name, int64(len(newest)-1))) }, 1},
		{"empty", func() { must.OK(t, os.Truncate(name, 0)) }, 1},
		{"of another database", func() { put(other, name) }, 1},
		{"of another database, with its key", func() { put(other, name); put(other+".key", name+".key") }, 1},
		{"forged without the key", func() {
			forged := found
			forged.Known = map[int64]chain.Prefix{1: found.Known[1]}
			forger := memory.NewFile(t.TempDir()+"/x", nil, [16]byte{}, "attestd/1.2.3-test")
			must.OK(t, forger.Write(forged))
			b, err := os.ReadFile(forger.Path())
			must.OK(t, err)
			must.OK(t, os.WriteFile(name, b, 0o600))
		}, 1},
	} {
		for _, isChanged := range []bool{true, false} {
			if key != nil {
				must.OK(t, os.WriteFile(name+".key", key, 0o600))
			}
			must.OK(t, os.WriteFile(name, newest, 0o600))
			c.change()
			if isChanged {
				changeRecord(t, s.path, 1, 3, false)
			}
			again := startOn(t, s.path, cred.Domain{})
			verdict := acme.on(again).do(t, "GET /v1/verify", "").status(200)
			if got := strings.Contains(string(verdict.raw), `"valid":true`); got == isChanged {
				t.Errorf("%s, a record changed: %v: %s", c.name, isChanged, verdict.raw)
			}
			if n := again.log.says(verifiedFully); n != c.full {
				t.Errorf("%s: the log says %d times that all is verified anew, want %d", c.name, n, c.full)
			}
			again.stop()
			if isChanged {
				changeRecord(t, s.path, 1, 3, true)
			}
		}
	}
}

// The file saves checks of signatures, which only its key can abuse: an attacker who has the key
// and writes the database and the file makes this server, and no other verifier, believe a wrong
// signature.
func TestVerifiedFileIsUsed(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s := start(t)
	acme := s.company(t, "acme")
	acme.recordMany(t, 5)
	acme.do(t, "GET /v1/verify", "").status(200)
	s.stop()
	db := storetest.Stranger(t, s.path, `DROP TRIGGER record_no_update`,
		`UPDATE record SET signature = zeroblob(64) WHERE id = 1 << 40 | 3`)
	digest := sha256.New()
	rows, err := db.Query(`SELECT id, timestamp, payload, delegation, hash, signature FROM record WHERE id >> 40 = 1 ORDER BY id`)
	must.OK(t, err)
	for rows.Next() { // as chain encodes a row
		var id uint64
		var timestamp, payload, delegation, hash, signature []byte
		must.OK(t, rows.Scan(&id, &timestamp, &payload, &delegation, &hash, &signature))
		for _, n := range []uint64{id & (1<<40 - 1), uint64(len(timestamp)), uint64(len(payload)), uint64(len(delegation))} {
			digest.Write(binary.BigEndian.AppendUint64(nil, n))
		}
		for _, b := range [][]byte{hash, signature, timestamp, payload, delegation} {
			digest.Write(b)
		}
	}
	must.OK(t, errors.Join(rows.Err(), db.Close()))
	verdict := func() string {
		again := startOn(t, s.path, cred.Domain{})
		defer again.stop()
		return string(acme.on(again).do(t, "GET /v1/verify", "").status(200).raw)
	}
	file := verifiedFile(t, s.path)
	found, err := file.Read()
	must.OK(t, err)
	if v := verdict(); !strings.Contains(v, `"failedAtIndex":3`) {
		t.Errorf("with the file as it was: %s", v)
	}
	forged := found.Known[1]
	forged.Digest = chain.Hash(digest.Sum(nil))
	found.Known[1] = forged
	must.OK(t, file.Write(found))
	if v := verdict(); !strings.Contains(v, `"valid":true`) {
		t.Errorf("with the file of who has its key: %s", v)
	}
	offline, err := store.OpenReadOnly(t.Context(), s.path)
	must.OK(t, err)
	defer offline.Close()
	var wrong *store.VerifyError
	if err := offline.VerifyAll(t.Context(), "acme", 1, nil, nil); !errors.As(err, &wrong) || wrong.Index != 3 {
		t.Errorf("attestd verify: %v", err)
	}
}

// Of the servers on a database one makes the passes; when it stops, another one does.
func TestOneServerMakesThePasses(t *testing.T) {
	t.Parallel()
	if !storetest.OnPostgres() {
		t.Skip("is about servers that share a database")
	}
	s := start(t, verifyEvery(time.Millisecond))
	s.company(t, "acme").recordMany(t, 2)
	eventually(t, "a pass", func() bool { return s.log.says(passEnded) > 0 })
	other := startOn(t, s.path, cred.Domain{}, verifyEvery(time.Millisecond))
	passes := s.log.says(passEnded)
	eventually(t, "more passes", func() bool { return s.log.says(passEnded) > passes+5 })
	if other.log.says(passEnded) > 0 {
		t.Error("two servers make passes")
	}
	s.stop()
	eventually(t, "a pass of the other server", func() bool { return other.log.says(passEnded) > 0 })
}
