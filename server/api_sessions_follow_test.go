package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// listed is a session in the list.
type listed struct {
	SID, State string
	Missing    [][2]int64
	Refused    int
	Records    int64
	Continues  *evidence.Continues
}

func (c caller) listed(t testing.TB, sid string) (l listed) {
	t.Helper()
	var page struct{ Sessions []listed }
	must.OK(t, json.Unmarshal(c.do(t, "GET /v1/sessions?sid="+sid, "").status(200).raw, &page))
	if len(page.Sessions) != 1 {
		t.Fatalf("%d sessions of the name %s", len(page.Sessions), sid)
	}
	return page.Sessions[0]
}

// Whatever statements a session has, and in whatever order they come, the list says of it what a
// checker says of its file: one that fails is broken, and only one that is complete is sealed.
func TestSessionListSaysWhatCheckersSay(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	trust := evidence.Trust{Fingerprint: acme.fingerprint(t), AgentKey: a.thumbprint()}
	random := rand.New(rand.NewPCG(7, 7))
	states := map[string]int{}
	for n := range 60 {
		sid := fmt.Sprint("run-", n)
		var hashes []string
		var sent []string
		for seq := range int64(3 + random.IntN(5)) {
			c := a.claims(t, "note", fmt.Sprint(seq))
			c.Session, c.Seq = sid, seq
			if seq == 0 && random.IntN(3) == 0 {
				c.Continues = &statement.Continues{Session: "run-before", KeyID: a.thumbprint(), Hash: strings.Repeat("0a", 32)}
			}
			if seq > 0 {
				if c.Previous = hashes[seq-1]; random.IntN(16) == 0 {
					c.Previous = strings.Repeat("1b", 32)
				}
			}
			for at := range seq {
				if random.IntN(4) == 0 {
					r := statement.Refused{Seq: at, Hash: hashes[at], Code: "HTTP_400"}
					if at == seq-1 {
						r.Hash = c.Previous
					} else if random.IntN(20) == 0 {
						r.Hash = strings.Repeat("2c", 32)
					}
					c.Refused = append(c.Refused, r)
				}
			}
			c.End = random.IntN(5) == 0
			text := a.states(t, c)
			hashes = append(hashes, text.Hash())
			if random.IntN(4) > 0 {
				sent = append(sent, attestBody("bot", fmt.Sprint(seq), text.Compact))
			}
		}
		random.Shuffle(len(sent), func(i, j int) {
			if random.IntN(3) == 0 {
				sent[i], sent[j] = sent[j], sent[i]
			}
		})
		for _, body := range sent {
			acme.do(t, "POST /v1/attest", body).status(201)
			got := acme.listed(t, sid)
			verdict := evidence.CheckSession(bytes.NewReader(acme.do(t, "GET /v1/sessions/bot/"+sid, "").status(200).raw), trust)
			want := map[string]string{"": "broken", evidence.Complete: "sealed", evidence.Open: "open", evidence.Missing: "gap"}
			if s := verdict.Session; s == nil {
				if verdict.Code != evidence.BadStatement || got.State != "broken" {
					t.Fatalf("%s: %+v, listed as %+v", sid, verdict, got)
				}
			} else if got.State != want[s.State] || fmt.Sprint(got.Missing) != fmt.Sprint(s.Missing) || got.Refused != s.Refused || got.Records != s.Records ||
				!reflect.DeepEqual(got.Continues, s.Continues) {
				t.Fatalf("%s: %+v, listed as %+v", sid, s, got)
			}
			states[got.State]++
		}
	}
	for _, state := range []string{"sealed", "open", "gap", "broken"} {
		if states[state] < 10 {
			t.Errorf("the sessions come to %v", states)
		}
	}
}

// A statement whose end is far from that of its payload is read all the same.
func TestSessionListReadsLongStatements(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.ES256)
	c := a.claims(t, "note", "0")
	c.Session, c.Seq, c.Previous, c.End = "run", 200, strings.Repeat("0a", 32), true
	for seq := range int64(100) {
		c.Refused = append(c.Refused, statement.Refused{Seq: 99 + seq, Hash: strings.Repeat("1b", 32), Code: strings.Repeat("C", 64)})
	}
	a.attests(t, "0", a.states(t, c).Compact).status(201)
	if got := acme.listed(t, "run"); got.State != "gap" || got.Refused != 100 || fmt.Sprint(got.Missing) != "[[0 98] [199 199]]" {
		t.Errorf("%+v", got)
	}
}
