package server_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// watchedLog is a log of another operator, in memory. Of two with another name, the leaves differ.
type watchedLog []tlog.Hash

const watchedOrigin = "log.example/watched"

var watchedKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func newWatchedLog(t testing.TB, name string, size int64) (l watchedLog) {
	t.Helper()
	for i := range size {
		stored, err := modtlog.StoredHashes(i, []byte(name+strconv.FormatInt(i, 10)), l)
		must.OK(t, err)
		l = append(l, stored...)
	}
	return l
}

func (l watchedLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hashes[i] = l[index]
	}
	return hashes, nil
}

func (l watchedLog) checkpoint(t testing.TB, size int64) string {
	t.Helper()
	root, err := modtlog.TreeHash(size, l)
	must.OK(t, err)
	signed, err := tlog.Checkpoint{Origin: watchedOrigin, Tree: tlog.Tree{Size: size, Root: root}}.Sign(watchedKey)
	must.OK(t, err)
	return string(signed)
}

// request asks for a cosignature from one size to another.
func (l watchedLog) request(t testing.TB, from, to int64) string {
	t.Helper()
	r := witness.Request{Old: from, Checkpoint: []byte(l.checkpoint(t, to))}
	if from > 0 && from < to {
		var err error
		r.Proof, err = modtlog.ProveTree(to, from, l)
		must.OK(t, err)
	}
	return string(r.Format())
}

// cosigning makes a server a witness of the logs that policy lines name.
func cosigning(t testing.TB, lines ...string) func(*server.Config) {
	logs, err := tlog.ParseLogs([]byte(strings.Join(lines, "\n") + "\n"))
	must.OK(t, err)
	return func(cfg *server.Config) {
		name, private, err := cfg.Store.Cosigner.Key(t.Context(), "witness.example", time.Now())
		if errors.Is(err, store.ErrRolledBack) { // as attestd serve does it
			cfg.CosignerStopped = err
			return
		}
		must.OK(t, err)
		cfg.Cosigner, err = witness.NewCosigner(name, private, logs, cfg.Store.Cosigner.Logs())
		must.OK(t, err)
	}
}

func watchedLine() string {
	return "log " + tlog.VKey{Name: watchedOrigin, Type: tlog.TypeEd25519, Public: watchedKey.Public().(ed25519.PublicKey)}.String()
}

const addCheckpoint = "POST /v1/witness/add-checkpoint"

// vkey is the key of a server that is a witness.
func (s *service) vkey(t testing.TB) tlog.VKey {
	t.Helper()
	key, err := tlog.ParseVKey(s.anyone().do(t, "GET /v1/witness", "").status(200).str("vkey"))
	must.OK(t, err)
	return key
}

func monitored(origin string) string {
	hash := sha256.Sum256([]byte(origin))
	return "GET /v1/witness/" + hex.EncodeToString(hash[:]) + "/checkpoint"
}

// Every row of the witness table over HTTP, and what those who watch a log are shown.
func TestWitness(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, cosigning(t, watchedLine()))
	who, l, fork := s.anyone(), newWatchedLog(t, "leaf", 20), newWatchedLog(t, "another", 20)
	who.do(t, monitored(watchedOrigin), "").status(404)
	key := s.vkey(t)
	if name := who.do(t, "GET /v1/witness", "").str("name"); name != "witness.example" || key.Name != name || key.Type != tlog.TypeCosignature {
		t.Errorf("named %s, key %s", name, key)
	}
	cosigned := who.do(t, addCheckpoint, l.request(t, 0, 5)).status(200).sets("Content-Type: text/plain; charset=utf-8")
	unknown, err := tlog.Checkpoint{Origin: "unknown.example", Tree: tlog.Tree{Size: 1}}.Sign(watchedKey)
	must.OK(t, err)
	for _, row := range []struct {
		body   string
		status int
	}{
		{"", 400},
		{"old 05\n\n" + l.checkpoint(t, 9), 400},
		{"old 5\n\n" + string(unknown), 404},
		{strings.Replace(l.request(t, 5, 9), "\n9\n", "\n8\n", 1), 403},
		{"old 10\n\n" + l.checkpoint(t, 9), 400},
		{l.request(t, 0, 9), 409},
		{fork.request(t, 5, 9), 422},
		{fork.request(t, 5, 5), 422},
		{strings.Repeat("x", witness.MaxRequest+1), 413},
	} {
		r := who.do(t, addCheckpoint, row.body).status(row.status)
		if row.status == 409 {
			if r.sets("Content-Type: text/x.tlog.size"); string(r.raw) != "5\n" {
				t.Errorf("409 with %q", r.raw)
			}
		}
	}
	want := l.checkpoint(t, 5) + string(cosigned.raw)
	if shown := who.do(t, monitored(watchedOrigin), "").status(200).sets("Content-Type: text/plain; charset=utf-8", "Cache-Control: no-cache"); string(shown.raw) != want {
		t.Errorf("shown is %q", shown.raw)
	}
	checkpoint, err := tlog.ParseCheckpoint(l.checkpoint(t, 5)[:strings.Index(l.checkpoint(t, 5), "\n\n")+1])
	must.OK(t, err)
	if list, err := checkpoint.ParseCosignatures(cosigned.raw, key); err != nil || len(list) != 1 || time.Since(time.Unix(list[0].Time, 0)).Abs() > time.Minute {
		t.Errorf("cosigned: %+v, %v", list, err)
	}
	for _, path := range []string{"00", strings.Repeat("0", 64), strings.ToUpper(strings.Split(monitored(watchedOrigin), "/")[3]), strings.Repeat("0", 66)} {
		who.do(t, "GET /v1/witness/"+path+"/checkpoint", "").status(404)
	}
}

// A witness cosigns a checkpoint with extension lines as it is, and shows it so.
func TestWitnessCosignsExtensionLines(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, cosigning(t, watchedLine()))
	who, key := s.anyone(), s.vkey(t)
	plain, _, _ := strings.Cut(newWatchedLog(t, "leaf", 5).checkpoint(t, 5), "\n\n")
	text := plain + "\nanything the log likes\n"
	blob := binary.BigEndian.AppendUint32(nil, tlog.VKey{Name: watchedOrigin, Type: tlog.TypeEd25519, Public: watchedKey.Public().(ed25519.PublicKey)}.ID())
	blob = append(blob, ed25519.Sign(watchedKey, []byte(text))...)
	signed := text + "\n— " + watchedOrigin + " " + base64.StdEncoding.EncodeToString(blob) + "\n"
	// the signature covers the line
	who.do(t, addCheckpoint, "old 0\n\n"+plain+"\n"+signed[len(text):]).status(403)
	cosigned := who.do(t, addCheckpoint, "old 0\n\n"+signed).status(200)
	if shown := who.do(t, monitored(watchedOrigin), "").status(200); string(shown.raw) != signed+string(cosigned.raw) {
		t.Errorf("shown is %q", shown.raw)
	}
	verifier, err := torchwood.NewCosignatureVerifier(key.String())
	must.OK(t, err)
	if _, err := note.Open([]byte(signed+string(cosigned.raw)), note.VerifierList(verifier)); err != nil {
		t.Errorf("the cosignature does not cover the text: %v", err)
	}
	who.do(t, addCheckpoint, newWatchedLog(t, "leaf", 5).request(t, 5, 5)).status(200)
}

// A server is a witness only where it was started as one.
func TestWitnessOffByDefault(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	who := start(t).anyone()
	for _, call := range []string{addCheckpoint, "GET /v1/witness", monitored(watchedOrigin)} {
		who.do(t, call, newWatchedLog(t, "leaf", 1).request(t, 0, 1)).gets(404, `{"error":"Not Found: this server is no witness"}`)
	}
}

// A hundred callers at a time, with two histories of one log: whatever is cosigned is of one of
// them, and never of a smaller tree than one that was cosigned before it was asked for.
func TestConcurrentWitness(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, cosigning(t, watchedLine()))
	histories := []watchedLog{newWatchedLog(t, "leaf", 100), newWatchedLog(t, "another", 100)}
	var mu sync.Mutex
	cosigned := map[int64]int{} // by size: of which history
	var greatest int64
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			size := int64(0)
			for range 5 {
				mu.Lock()
				least := greatest
				mu.Unlock()
				to := min(size+1+int64(i%7), 100)
				r := s.anyone().do(t, addCheckpoint, histories[i%2].request(t, size, to))
				switch r.code {
				case 200:
					mu.Lock()
					if was, ok := cosigned[to]; to < least || ok && was != i%2 {
						t.Errorf("size %d of history %d after size %d, and of history %d", to, i%2, least, was)
					}
					cosigned[to], greatest = i%2, max(greatest, to)
					mu.Unlock()
					size = to
				case 409:
					if _, err := fmt.Sscanln(string(r.raw), &size); err != nil {
						t.Error(err)
					}
				case 422: // the other history was first
				default:
					t.Errorf("%d %s", r.code, r.raw)
				}
			}
		})
	}
	group.Wait()
	if len(cosigned) == 0 {
		t.Error("nothing was cosigned")
	}
}

// watchedCompany is a company whose server asks another one, a witness, to cosign its log. The
// server was started once before, for the witness must know the log.
func watchedCompany(t *testing.T) (acme caller, log logged, w *service) {
	t.Helper()
	path := storetest.New(t)
	first := startOn(t, path, cred.Domain{})
	acme = first.company(t, "acme")
	log = acme.actions(t)
	first.stop()
	w = start(t, cosigning(t, "log "+log.VKeys[0]))
	acme.service = startOn(t, path, cred.Domain{}, asking(t, w))
	return acme, log, w
}

// asking makes a server ask a witness.
func asking(t testing.TB, w *service) func(*server.Config) {
	client, err := witness.NewClient(w.url+"/v1/witness", w.vkey(t))
	must.OK(t, err)
	return func(cfg *server.Config) {
		cfg.Witnesses, cfg.PublishEvery = []*witness.Client{client}, time.Millisecond
	}
}

// eventually calls until ok says so. Each call is one over HTTP, and leaves the processors to what
// it waits for meanwhile.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// One server cosigns the log of another, which asks by itself whenever the log grows; the
// checkpoint carries the cosignature, and so does a proof.
func TestServersWatchEachOther(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	acme, log, w := watchedCompany(t)
	policy, err := tlog.ParsePolicy([]byte("log " + log.VKeys[0] + "\nwitness w " + w.vkey(t).String() + "\nquorum w\n"))
	must.OK(t, err)
	for _, size := range []int64{0, 3, 260} {
		acme.attestMany(t, int(size-acme.actions(t).Size))
		eventually(t, fmt.Sprintf("the witness has cosigned size %d, though nobody asked for a checkpoint", size), func() bool {
			r := w.anyone().do(t, monitored(log.Origin), "")
			return r.code == 200 && strings.Contains(string(r.raw), fmt.Sprintf("\n%d\n", size))
		})
		var seen tlog.Witnessed
		eventually(t, "the checkpoint carries the cosignature", func() bool {
			var err error
			seen, err = policy.Open(acme.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200).raw)
			return err == nil && seen.Quorum && seen.Size == size
		})
	}
	proof, err := tlog.ParseProof(acme.do(t, "GET /v1/log/"+log.LogID+"/proof/7", "").status(200).raw)
	must.OK(t, err)
	if seen, err := policy.Open(proof.Checkpoint); err != nil || !seen.Quorum {
		t.Errorf("the checkpoint of a proof: %+v, %v", seen, err)
	}
}

// A record is proven under the newest checkpoint that a witness has signed, if one covers it; else
// under the newest.
func TestProofPrefersAWitnessedCheckpoint(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	acme, log, w := watchedCompany(t)
	policy, err := tlog.ParsePolicy([]byte("log " + log.VKeys[0] + "\nwitness w " + w.vkey(t).String() + "\nquorum none\n"))
	must.OK(t, err)
	open := func(note []byte) tlog.Witnessed {
		seen, err := policy.Open(note)
		must.OK(t, err)
		return seen
	}
	checkpoint := "GET /v1/log/" + log.LogID + "/checkpoint"
	acme.attestMany(t, 5)
	eventually(t, "size 5 is cosigned", func() bool {
		seen := open(acme.do(t, checkpoint, "").raw)
		return seen.Size == 5 && len(seen.By) == 1
	})
	w.stop()
	acme.attestMany(t, 3)
	for index, cosigned := range map[int]bool{0: true, 4: true, 5: false, 7: false} {
		r := acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, index), "").status(200)
		proof, err := tlog.ParseProof(r.raw)
		must.OK(t, err)
		leaf := acme.leaves(t, "actions")[index]
		if _, err := proof.Check(leaf, policy.Logs[0].Key); err != nil {
			t.Errorf("the proof of %d: %v", index, err)
		}
		// Of the last three, a checkpoint may have been published after each.
		if seen := open(proof.Checkpoint); seen.Size <= int64(index) || (seen.Size == 5) != cosigned || (len(seen.By) == 1) != cosigned {
			t.Errorf("%d is proven at size %d, with %d cosignatures", index, seen.Size, len(seen.By))
		}
	}
	eventually(t, "the newest checkpoint is published without a cosignature", func() bool {
		seen := open(acme.do(t, checkpoint, "").raw)
		return seen.Size == 8 && len(seen.By) == 0
	})
}

// An older copy of a database was put in place, and its head file removed: the witness knows a
// larger tree, and nothing is written any more; reads continue.
func TestWitnessKnowsThatWeWereRolledBack(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme, log, w := watchedCompany(t)
	acme.attestMany(t, 2)
	acme.stop()
	older := storetest.Copy(t, acme.path)
	acme.service = startOn(t, acme.path, cred.Domain{}, asking(t, w))
	acme.attestMany(t, 3)
	eventually(t, "the witness has cosigned size 5", func() bool {
		return strings.Contains(string(w.anyone().do(t, monitored(log.Origin), "").raw), "\n5\n")
	})
	acme.stop()
	storetest.Replace(t, acme.path, older)
	must.OK(t, os.Remove(storetest.Heads(acme.path))) // which knows it, too

	acme.service = startOn(t, acme.path, cred.Domain{}, asking(t, w))
	eventually(t, "nothing of the company is written", func() bool { return acme.do(t, "GET /readyz", "").str("status") == "degraded" })
	r := acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"build","payload":1}`).status(503)
	if code := r.str("code"); code != "ROLLED_BACK" {
		t.Errorf("code %s", code)
	}
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(503)
	acme.do(t, "GET /v1/health", "").status(200)
	acme.do(t, "GET /v1/verify", "").status(200)
	if n := acme.actions(t).Size; n != 2 {
		t.Errorf("%d records", n)
	}
	if acme.log.says("nothing of a company is written any more: its log was rolled back") != 1 {
		t.Error("the log does not say why, once")
	}
	acme.stop()

	// So it stays without the witness, until an operator accepts it; then the witness refuses and
	// stops nothing.
	acme.service = startOn(t, acme.path, cred.Domain{})
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"build","payload":1}`).status(503)
	acme.stop()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	lost, err := admin.AcceptRollback(t.Context(), acme.path, string(schema), admin.AcceptOptions{Heads: storetest.Heads(acme.path), Reason: "a test", Master: master()})
	if err != nil || len(lost) == 0 || !strings.Contains(lost[0].Why, "was signed by a witness at size 5, and is at size 2") {
		t.Fatalf("accepted %+v, %v", lost, err)
	}
	acme.service = startOn(t, acme.path, cred.Domain{}, asking(t, w))
	acme.attestMany(t, 1)
	eventually(t, "the witness refuses", func() bool { return acme.log.says("which an accepted rollback gave up") > 0 })
	acme.attestMany(t, 5)
	acme.do(t, "GET /v1/verify", "").status(200)
}

// A witness that does not know a log is no reason not to publish it; the journal says so once for
// each log.
func TestWitnessThatDoesNotKnowTheLog(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	w := start(t, cosigning(t, watchedLine()))
	s := start(t, asking(t, w))
	acme := s.company(t, "acme")
	refusals := func() int { return s.log.says("the witness does not cosign a log") }
	for range 3 {
		acme.attestMany(t, 1)
		eventually(t, "the witness refuses", func() bool { acme.actions(t); return refusals() > 0 })
	}
	eventually(t, "the log says that this log is not cosigned; another one may be named before it", func() bool {
		return s.log.says(acme.actions(t).Origin) > 0
	})
	s.witnessesBehind(t, 1)
	eventually(t, "the checkpoint covers all", func() bool { return acme.checkpoint(t, acme.actions(t)).Size == 3 })
	if n := refusals(); n > 3 {
		t.Errorf("the log says %d times that the witness refuses, of two logs of a company and the log of the companies", n)
	}
}

// A witness that cannot be reached costs nothing but the cosignature: records and checkpoints go
// on, the log says once that it cannot be asked, and when it can be again it cosigns what it has
// missed.
func TestWitnessThatCannotBeReached(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	var down atomic.Bool
	w := start(t, cosigning(t, watchedLine()))
	behind := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		w.handler().ServeHTTP(rw, r)
	}))
	t.Cleanup(behind.Close)
	key := w.vkey(t)
	down.Store(true)
	client, err := witness.NewClient(behind.URL+"/v1/witness", key)
	must.OK(t, err)
	s := start(t, func(cfg *server.Config) {
		cfg.Witnesses, cfg.PublishEvery = []*witness.Client{client}, time.Millisecond
	})
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	eventually(t, "the log says that the witness cannot be asked", func() bool {
		acme.actions(t)
		return s.log.says("the witness cannot be asked") > 0
	})
	s.witnessesBehind(t, 1, "WITNESS_SILENT")
	if seen := acme.checkpoint(t, acme.actions(t)); seen.Size == 0 {
		t.Errorf("%+v", seen)
	}
	down.Store(false)
	eventually(t, "the witness is asked again, and refuses a log that it does not know", func() bool {
		acme.actions(t)
		return s.log.says("the witness can be asked again") > 0 && s.log.says("the witness does not cosign a log") > 0
	})
	if n := s.log.says("the witness cannot be asked"); n != 1 {
		t.Errorf("the log says %d times that the witness cannot be asked", n)
	}
}

// witnessesBehind waits until /readyz counts so many witnesses that do not cosign every log, which
// stops nothing.
func (s *service) witnessesBehind(t *testing.T, n int, reasons ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("readyz counts %d witnesses that are behind", n), func() bool {
		r := s.anyone().do(t, "GET /readyz", "").status(200)
		behind, _ := r.json.(map[string]any)["witnessesBehind"].(float64)
		if len(reasons) > 0 {
			return int(behind) == n && r.str("status") == "degraded" && fmt.Sprint(r.at("reasons")) == fmt.Sprint(reasons)
		}
		return int(behind) == n && r.str("status") == "ready"
	})
}
