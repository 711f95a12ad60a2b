package server_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

var liarKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{66}, ed25519.SeedSize))

func liarVKey() tlog.VKey {
	return tlog.VKey{Name: "liar.example", Type: tlog.TypeCosignature, Public: liarKey.Public().(ed25519.PublicKey)}
}

// lie is a witness's answer to a request for a cosignature, and its answer to a request for its
// last checkpoint of the actions of acme; it shows none of other logs.
type lie struct {
	status      int
	contentType string
	body        string
	hangs       string                                          // "post", "get"
	show        string                                          // "" for 404
	handle      func(rw http.ResponseWriter, r *http.Request)   // in place of what is shown
	cosigns     func(asked tlog.Checkpoint, asks []byte) string // in place of the body
}

// liar is a witness that lies.
type liar struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int // the number of requests to cosign, by origin
}

func newLiar(t testing.TB, tells lie, about string) *liar {
	t.Helper()
	l := &liar{asked: make(map[string]int)}
	hash := sha256.Sum256([]byte(about))
	shown := "/" + hex.EncodeToString(hash[:]) + "/checkpoint"
	ended := make(chan struct{})
	l.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			l.cosign(rw, r, tells, ended)
			return
		}
		switch {
		case tells.hangs == "get":
			<-ended
		case tells.handle != nil && r.URL.Path == shown:
			tells.handle(rw, r)
		case tells.show == "" || r.URL.Path != shown:
			rw.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(rw, tells.show)
		}
	}))
	t.Cleanup(func() {
		close(ended)
		l.Close()
	})
	return l
}

func (l *liar) cosign(rw http.ResponseWriter, r *http.Request, tells lie, ended chan struct{}) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request, err := witness.ParseRequest(body)
	checkpoint, _, err2 := tlog.ParseSignedCheckpoint(request.Checkpoint)
	if err != nil || err2 != nil {
		panic(fmt.Sprint(err, err2))
	}
	l.mu.Lock()
	l.asked[checkpoint.Origin]++
	l.mu.Unlock()
	if tells.hangs == "post" {
		<-ended
		return
	}
	answer := tells.body
	if tells.cosigns != nil {
		answer = tells.cosigns(checkpoint, request.Checkpoint)
	}
	if tells.contentType != "" {
		rw.Header().Set("Content-Type", tells.contentType)
	}
	if tells.status == http.StatusFound {
		rw.Header().Set("Location", "/elsewhere")
	}
	if tells.status == 0 {
		panic(http.ErrAbortHandler)
	}
	rw.WriteHeader(tells.status)
	_, _ = io.WriteString(rw, answer)
}

func (l *liar) times(origin string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[origin]
}

func (l *liar) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked) > 0
}

func (l *liar) asking(t testing.TB) func(*server.Config) {
	t.Helper()
	client, err := witness.NewClient(l.URL, liarVKey())
	must.OK(t, err)
	return func(cfg *server.Config) {
		cfg.Witnesses, cfg.PublishEvery = []*witness.Client{client}, time.Millisecond
	}
}

// twoCompanies is a closed database with two companies of three records each, and what their keys
// have signed.
type twoCompanies struct {
	path         string
	acme, globex caller
	log, other   logged // the actions of both
	// checkpoints: of acme at size 3; of globex; of acme with another history, of size 8
	prefix, elsewhere, fork string
}

func newTwoCompanies(t testing.TB) (c twoCompanies) {
	t.Helper()
	c.path = storetest.New(t)
	s := startOn(t, c.path, cred.Domain{})
	c.acme, c.globex = s.company(t, "acme"), s.company(t, "globex")
	c.acme.agent(t, "bot")
	c.acme.attestMany(t, 3)
	c.globex.attestMany(t, 3)
	c.log, c.other = c.acme.actions(t), c.globex.actions(t)
	c.prefix, c.elsewhere = c.published(t, c.acme, c.log), c.published(t, c.globex, c.other)
	s.stop()
	again := startOn(t, storetest.Copy(t, c.path), cred.Domain{})
	c.acme.on(again).attestMany(t, 5)
	c.fork = c.published(t, c.acme.on(again), c.log)
	again.stop()
	return c
}

func (twoCompanies) published(t testing.TB, who caller, l logged) string {
	t.Helper()
	return string(who.do(t, "GET /v1/log/"+l.LogID+"/checkpoint", "").status(200).raw)
}

// sign signs a tree of acme's actions with acme's key, as only its holder can.
func sign(t testing.TB, s *service, tree tlog.Tree) string {
	t.Helper()
	acme, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	signed, err := acme.SignCheckpoint(acme.Actions, tree)
	must.OK(t, err)
	return string(signed)
}

// load attests for a company once, and until it is stopped; then it returns the first answer other
// than 201, and how many were 201.
func load(t testing.TB, who caller) (stop func() (failed *reply, done int)) {
	ended, result := make(chan struct{}), make(chan *reply, 1)
	n := 0
	go func() {
		var failed *reply
		for failed == nil {
			select {
			case <-ended:
				if n > 0 {
					result <- nil
					return
				}
			default:
			}
			if r := who.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`); r.code != 201 {
				failed = r
			} else {
				n++
			}
		}
		result <- failed
		<-ended
	}()
	return func() (*reply, int) {
		close(ended)
		return <-result, n
	}
}

// Whatever false answer a witness gives, nothing stops for either of two companies under load; if
// it contests a log, that raises an alarm.
func TestFalseWitnessClaimsStopNothing(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	base := newTwoCompanies(t)
	text, signature, _ := strings.Cut(base.fork, "\n\n")
	_, ofPrefix, _ := strings.Cut(base.prefix, "\n\n")
	forged := strings.Replace(signature, signature[len(signature)-12:len(signature)-8], "AAAA", 1)
	size, err := tlog.ParseCheckpoint(text + "\n")
	must.OK(t, err)
	stranger, err := size.Sign(watchedKey)
	must.OK(t, err)
	byItself, err := size.Cosign("liar.example", liarKey, time.Now())
	must.OK(t, err)
	replayed := func(asked tlog.Checkpoint, _ []byte) string {
		asked.Tree = tlog.Tree{Size: 1, Root: tlog.Hash{1}}
		c, err := asked.Cosign("liar.example", liarKey, time.Now())
		must.OK(t, err)
		return c.Line
	}
	byStranger := func(asked tlog.Checkpoint, _ []byte) string {
		c, err := asked.Cosign("liar.example", watchedKey, time.Now())
		must.OK(t, err)
		return c.Line
	}
	echoed := func(_ tlog.Checkpoint, signed []byte) string { return string(signed) }
	redirect := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("there") {
			_, _ = io.WriteString(rw, base.fork)
			return
		}
		http.Redirect(rw, r, r.URL.Path+"?there", http.StatusFound)
	}
	endless := func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, base.fork)
		for range 1 << 10 {
			if _, err := rw.Write(bytes.Repeat([]byte("— x y\n"), 1<<10)); err != nil {
				return
			}
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, base.fork)
		}
	}
	const tlogSize = "text/x.tlog.size"
	for _, test := range []struct {
		name  string
		tells lie
		alarm bool
	}{
		{"the largest number", lie{status: 409, contentType: tlogSize, body: "9223372036854775807\n"}, true},
		{"beyond all numbers", lie{status: 409, contentType: tlogSize, body: "99999999999999999999999\n"}, true},
		{"10^15", lie{status: 409, contentType: tlogSize, body: "1000000000000000\n"}, true},
		{"2^53", lie{status: 409, contentType: tlogSize, body: "9007199254740992\n"}, true},
		{"2^53-1", lie{status: 409, contentType: tlogSize, body: "9007199254740991\n"}, true},
		{"a negative number", lie{status: 409, contentType: tlogSize, body: "-1\n"}, true},
		{"no number", lie{status: 409, contentType: tlogSize, body: "many\n"}, true},
		{"another spelling of a number", lie{status: 409, contentType: tlogSize, body: "0099\n"}, true},
		{"no body", lie{status: 409, contentType: tlogSize}, true},
		{"a long body", lie{status: 409, contentType: tlogSize, body: strings.Repeat("9", 1<<20)}, false},
		{"another content type", lie{status: 409, contentType: "application/json", body: "1000000000000000"}, true},
		{"a smaller size, again and again", lie{status: 409, contentType: tlogSize, body: "0\n"}, true},
		{"a size that the log has, again and again", lie{status: 409, contentType: tlogSize, body: "2\n"}, true},
		{"422, and nothing to show", lie{status: 422}, true},
		{"422, and a checkpoint that never comes", lie{status: 422, hangs: "get"}, false},
		{"422, and a proof elsewhere", lie{status: 422, handle: redirect}, true},
		{"422, and a proof with a status of failure", lie{status: 422, handle: status(500)}, true},
		{"422, and a proof that does not end", lie{status: 422, handle: endless}, true},
		{"422, and no checkpoint", lie{status: 422, show: "<html>"}, true},
		{"422, and another log's checkpoint", lie{status: 422, show: base.elsewhere}, true},
		{"422, and a checkpoint without a signature", lie{status: 422, show: text + "\n\n"}, true},
		{"422, and a checkpoint that a stranger has signed in our name", lie{status: 422, show: string(stranger)}, true},
		{"422, and a checkpoint that it has signed itself", lie{status: 422, show: text + "\n\n" + byItself.Line}, true},
		{"422, and our signature of another tree", lie{status: 422, show: text + "\n\n" + ofPrefix}, true},
		{"422, and a forged signature", lie{status: 422, show: text + "\n\n" + forged}, true},
		{"422, and a forged signature beside a good one", lie{status: 422, show: text + "\n\n" + forged + signature}, true},
		{"422, and a prefix of ours", lie{status: 422, show: base.prefix}, true},
		{"409, and a prefix of ours", lie{status: 409, contentType: tlogSize, body: "1000000000000000\n", show: base.prefix}, true},
		{"a cosignature that is none", lie{status: 200, body: "— liar.example AAAA\n"}, true},
		{"an empty cosignature", lie{status: 200}, true},
		{"a cosignature of another tree", lie{status: 200, cosigns: replayed}, true},
		{"a cosignature of a stranger in its name", lie{status: 200, cosigns: byStranger}, true},
		{"the checkpoint that it was sent", lie{status: 200, cosigns: echoed}, true},
		{"a proof in place of a cosignature", lie{status: 200, body: base.fork}, true},
		{"a failure", lie{status: 500, show: base.fork}, false},
		{"that it does not know the log", lie{status: 404, show: base.fork}, false},
		{"that it does not know the key", lie{status: 403, show: base.fork}, false},
		{"that it is busy", lie{status: 429, show: base.fork}, false},
		{"a redirect", lie{status: 302, show: base.fork}, false},
		{"nothing, for ever", lie{hangs: "post", show: base.fork}, false},
		{"a broken connection", lie{show: base.fork}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			liar := newLiar(t, test.tells, base.log.Origin)
			s := startOn(t, storetest.Copy(t, base.path), cred.Domain{}, liar.asking(t))
			acme, globex := base.acme.on(s), base.globex.on(s)
			first, second := load(t, acme), load(t, globex)
			eventually(t, "the witness is asked about a log of each, or, where it cannot be, about one", func() bool {
				return liar.times(base.log.Origin) > 0 && liar.times(base.other.Origin) > 0 || !test.alarm && liar.any()
			})
			if test.alarm {
				eventually(t, "readyz is degraded", func() bool {
					r := s.anyone().do(t, "GET /readyz", "").status(200)
					return r.str("status") == "degraded" && r.at("witnessAlarms").(float64) > 0
				})
				again := liar.times(base.log.Origin)
				eventually(t, "the witness is asked again", func() bool { return liar.times(base.log.Origin) > again })
			}
			for _, who := range []func() (*reply, int){first, second} {
				if failed, n := who(); failed != nil || n == 0 {
					t.Errorf("after %d records: %+v", n, failed)
				}
			}
			for _, who := range []caller{acme, globex} {
				who.do(t, "POST /v1/agents/register", `{"agentId":"more"}`).status(201)
				who.attestMany(t, 1)
			}
			ready := s.anyone().do(t, "GET /readyz", "").status(200)
			if _, halted := ready.json.(map[string]any)["rolledBack"]; halted || !test.alarm && ready.str("status") != "ready" && fmt.Sprint(ready.at("reasons")) != "[WITNESS_SILENT]" {
				t.Errorf("readyz: %s", ready.raw)
			}
			if test.alarm && s.log.says("asked what it knows") == 0 {
				t.Error("the log says nothing of the alarm")
			}
		})
	}
}

// A checkpoint that the company's own key has signed, of a tree that the log does not have, halts
// that company at the first answer, and no other company.
func TestWitnessProofHaltsOneCompany(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	base := newTwoCompanies(t)
	text, signature, _ := strings.Cut(base.fork, "\n\n")
	checkpoint, err := tlog.ParseCheckpoint(text + "\n")
	must.OK(t, err)
	cosignature, err := checkpoint.Cosign("liar.example", liarKey, time.Now())
	must.OK(t, err)
	stranger, err := checkpoint.Sign(watchedKey)
	must.OK(t, err)
	_, byStranger, _ := strings.Cut(string(stranger), "\n\n")
	for _, test := range []struct {
		name   string
		tells  lie
		signs  *tlog.Tree // signed with our key, in place of the shown one
		former bool       // the key that has signed it has ended
	}{
		{"422, and another history", lie{status: 422, show: base.fork}, nil, false},
		{"422, and another history with a cosignature", lie{status: 422, show: base.fork + cosignature.Line}, nil, false},
		{"422, and another history with a stranger's signature beside ours", lie{status: 422, show: text + "\n\n" + byStranger + signature}, nil, false},
		{"409 with a huge number, and another history", lie{status: 409, body: "9223372036854775807\n", show: base.fork}, nil, false},
		{"409 with no number, and another history", lie{status: 409, body: "many\n", show: base.fork}, nil, false},
		{"409 with a smaller size, and another history", lie{status: 409, body: "1\n", show: base.fork}, nil, false},
		{"no cosignature, and another history", lie{status: 200, body: "x", show: base.fork}, nil, false},
		{"422, and a larger tree", lie{status: 422}, &tlog.Tree{Size: 1 << 20, Root: tlog.Hash{1}}, false},
		{"409, and a larger tree", lie{status: 409, body: "1048576\n"}, &tlog.Tree{Size: 1 << 20, Root: tlog.Hash{1}}, false},
		{"422, and another root of the first record", lie{status: 422}, &tlog.Tree{Size: 1, Root: tlog.Hash{1}}, false},
		{"422, and another history that a former key has signed", lie{status: 422, show: base.fork}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, base.path)
			before := startOn(t, path, cred.Domain{})
			if test.signs != nil {
				test.tells.show = sign(t, before, *test.signs)
			}
			if test.former {
				base.acme.on(before).do(t, "POST /v1/companies/rotate-keys", `{}`).status(200)
			}
			before.stop()
			liar := newLiar(t, test.tells, base.log.Origin)
			s := startOn(t, path, cred.Domain{}, liar.asking(t))
			acme, globex := base.acme.on(s), base.globex.on(s)
			first, second := load(t, acme), load(t, globex)
			eventually(t, "the company is halted", func() bool {
				_, halted := s.anyone().do(t, "GET /readyz", "").status(200).json.(map[string]any)["rolledBack"]
				return halted
			})
			// If it names a smaller size, it is asked again from there.
			if n := liar.times(base.log.Origin); n < 1 || n > 2 {
				t.Errorf("the witness was asked %d times", n)
			}
			acme.halted(t)
			acme.do(t, "GET /v1/log/"+base.log.LogID+"/proof/0", "").status(200)
			acme.do(t, "POST /v1/companies/rotate-keys", `{}`).status(503)
			acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
			acme.halted(t)
			if failed, _ := first(); failed != nil && failed.str("code") != "ROLLED_BACK" {
				t.Errorf("the other answers: %s", failed.raw)
			}
			if failed, n := second(); failed != nil || n == 0 {
				t.Errorf("another company: %d records, then %+v", n, failed)
			}
			globex.do(t, "POST /v1/agents/register", `{"agentId":"more"}`).status(201)
			if s.log.says("nothing of a company is written any more") != 1 {
				t.Error("the log does not say it once")
			}
		})
	}
}

// halted demands that nothing of a company is written and no token is issued, and that reads and
// proofs go on.
func (c caller) halted(t testing.TB) {
	t.Helper()
	for _, call := range [][2]string{
		{"POST /v1/attest", `{"agentId":"bot","actionType":"b","payload":1}`}, {"POST /v1/agents/register", `{"agentId":"other"}`},
		{"POST /v1/agents/bot/passport", ""}, {"GET /v1/agents/bot/svid", ""}, {"POST /v1/keys", ""},
	} {
		if r := c.do(t, call[0], call[1]).status(503); r.str("code") != "ROLLED_BACK" || !strings.Contains(r.str("error"), "was signed by a witness at size ") {
			t.Errorf("%s: %s", call[0], r.raw)
		}
	}
	c.do(t, "GET /v1/company", "").status(200)
	c.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	c.do(t, "GET /v1/proof/0", "").status(200)
}

// A checkpoint that a compromised key has signed proves nothing, because the thief could have
// signed it.
func TestCheckpointOfCompromisedKeyProvesNothing(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	base := newTwoCompanies(t)
	s := startOn(t, base.path, cred.Domain{})
	base.acme.on(s).do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
	s.stop()
	liar := newLiar(t, lie{status: 422, show: base.fork}, base.log.Origin)
	s = startOn(t, base.path, cred.Domain{}, liar.asking(t))
	eventually(t, "readyz is degraded", func() bool { return s.anyone().do(t, "GET /readyz", "").str("status") == "degraded" })
	eventually(t, "the log says why", func() bool { return s.log.says("does not bear the log's signature") > 0 })
	base.acme.on(s).attestMany(t, 1)
}

// A history is rewritten in the file with all keys and without becoming shorter. The witness proves
// that and the other company goes on; the company stays halted, even without the witness, until the
// rollback is accepted. The acceptance covers that witness and that tree, and no other.
func TestWitnessProvesARewrittenHistory(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	acme, log, w := watchedCompany(t)
	globex := acme.service.company(t, "globex")
	acme.agent(t, "bot")
	acme.attestMany(t, 5)
	eventually(t, "the witness has cosigned size 5", func() bool {
		return strings.Contains(string(w.anyone().do(t, monitored(log.Origin), "").raw), "\n5\n")
	})
	acme.stop()
	_, err = rewrite.Record(t.Context(), acme.path, string(schema), store.Options{Master: master()}, "acme", store.Actions, 2, func(payload []byte) []byte {
		return bytes.Replace(payload, []byte(`"n":2`), []byte(`"n":9`), 1)
	})
	must.OK(t, err)
	must.OK(t, os.Remove(storetest.Heads(acme.path)))
	again := startOn(t, acme.path, cred.Domain{}, asking(t, w))
	eventually(t, "the company is halted", func() bool { return again.anyone().do(t, "GET /readyz", "").str("status") == "degraded" })
	globex.on(again).attestMany(t, 1)
	acme.on(again).halted(t)
	again.stop()

	alone := startOn(t, acme.path, cred.Domain{})
	acme.on(alone).halted(t)
	globex.on(alone).attestMany(t, 1)
	alone.stop()
	accept := func() []store.Behind {
		accepted, err := admin.AcceptRollback(t.Context(), acme.path, string(schema), admin.AcceptOptions{Heads: storetest.Heads(acme.path), Reason: "a test", Master: master()})
		must.OK(t, err)
		return accepted
	}
	if accepted := accept(); len(accepted) != 1 || accepted[0].Kept.Witness != w.vkey(t).String() || !strings.Contains(accepted[0].Why, "was signed by a witness at size 5 with log root ") {
		t.Fatalf("accepted %+v", accepted)
	}
	after := startOn(t, acme.path, cred.Domain{}, asking(t, w))
	acme.on(after).attestMany(t, 3)
	eventually(t, "the witness refuses", func() bool { return after.log.says("which an accepted rollback gave up") > 0 })
	acme.on(after).attestMany(t, 3)
	after.witnessesBehind(t, 1)
	after.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written","witnessesBehind":1}`)
	other := newLiar(t, lie{status: 422, show: string(w.anyone().do(t, monitored(log.Origin), "").raw)}, log.Origin)
	after.stop()
	third := startOn(t, acme.path, cred.Domain{}, other.asking(t))
	eventually(t, "another witness with the same tree halts it", func() bool { return third.anyone().do(t, "GET /readyz", "").str("status") == "degraded" })
}

// If the log does not lead to a stored checkpoint, its company is halted after the start and at the
// next check of the log. This holds for the last published checkpoint and for one that a witness
// has cosigned, although no witness shows anything.
func TestStoredCheckpointsAreCompared(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	for table, again := range map[string]string{
		"checkpoint":  `INSERT INTO checkpoint (log_id, size, note) SELECT ?, 5, ?`,
		"cosignature": `INSERT INTO cosignature (log_id, witness, size, note, line) SELECT ?1, 'liar.example+00000000+AAAA', 5, ?2, 'line'`,
	} {
		for _, more := range []int{0, 3} { // the number of records after the rewriting
			t.Run(fmt.Sprintf("%s, then %d records", table, more), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				acme, globex := s.company(t, "acme"), s.company(t, "globex")
				acme.agent(t, "bot")
				acme.attestMany(t, 5)
				log := acme.actions(t)
				published := string(acme.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200).raw)
				s.stop()
				_, err := rewrite.Record(t.Context(), s.path, string(schema), store.Options{Master: master()}, "acme", store.Actions, 2, func(payload []byte) []byte {
					return bytes.Replace(payload, []byte(`"n":2`), []byte(`"n":9`), 1)
				})
				must.OK(t, err)
				must.OK(t, os.Remove(storetest.Heads(s.path)))
				grown := startOn(t, s.path, cred.Domain{})
				acme.on(grown).attestMany(t, more)
				grown.stop()
				db := storetest.Stranger(t, s.path)
				_, err = db.Exec(again, log.LogID, published)
				must.OK(t, err)
				must.OK(t, db.Close())

				s = startOn(t, s.path, cred.Domain{})
				eventually(t, "the company is halted", func() bool { return s.anyone().do(t, "GET /readyz", "").str("status") == "degraded" })
				r := acme.on(s).do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"b","payload":1}`).status(503)
				if !strings.Contains(r.str("error"), " at size 5 with log root ") {
					t.Errorf("%s", r.raw)
				}
				globex.on(s).attestMany(t, 1)
				s.stop()
				accepted, err := admin.AcceptRollback(t.Context(), s.path, string(schema), admin.AcceptOptions{Heads: storetest.Heads(s.path), Reason: "a test", Master: master()})
				if err != nil || len(accepted) != 1 {
					t.Fatalf("%+v, %v", accepted, err)
				}
				s = startOn(t, s.path, cred.Domain{})
				acme.on(s).attestMany(t, 2)
				fresh := acme.on(s).checkpoint(t, log)
				if fresh.Size < int64(5+more) {
					t.Errorf("the checkpoint is of size %d", fresh.Size)
				}
				s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"ready","headFile":"written"}`)
			})
		}
	}
}
