package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// lines returns the body of a request that Request.Format cannot write.
func lines(head string, checkpoint []byte) []byte { return append([]byte(head), checkpoint...) }

// badLine returns a signature line that claims to be by a key of the log, and does not verify.
func badLine(private ed25519.PrivateKey) string {
	id := vkey(origin, tlog.TypeEd25519, private).ID()
	blob := append([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, make([]byte, 64)...)
	return "— " + origin + " " + base64.StdEncoding.EncodeToString(blob) + "\n"
}

// The conditions of the package comment, one by one, for a witness that has cosigned size 5. When a
// request meets several conditions, the first one decides.
func TestAddCheckpoint(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	h, fork := grow(t, "leaf", 12), grow(t, "another", 12)
	good := h.request(t, 5, 9)
	with := func(change func(r *witness.Request)) []byte {
		r := h.request(t, 5, 9)
		change(&r)
		return r.Format()
	}
	signed := func(c tlog.Checkpoint, private ed25519.PrivateKey) []byte {
		text, err := c.Sign(private)
		must.OK(t, err)
		return text
	}
	unknown := signed(tlog.Checkpoint{Origin: "unknown.example", Tree: h.tree(t, 9)}, logKey)
	stranger := h.checkpoint(t, 9, otherKey)
	checkpoint := h.checkpoint(t, 9, logKey)
	hash := good.Proof[0].String() + "\n"
	for _, test := range []struct {
		name   string
		body   []byte
		status int
	}{
		{"malformed: nothing", nil, 400},
		{"malformed: no old size", lines("\n", checkpoint), 400},
		{"malformed: no empty line", lines("old 5\n", checkpoint), 400},
		{"malformed: a size with a leading zero", lines("old 05\n\n", checkpoint), 400},
		{"malformed: a size with a sign", lines("old +5\n\n", checkpoint), 400},
		{"malformed: a negative size", lines("old -1\n\n", checkpoint), 400},
		{"malformed: a size beyond 63 bits", lines("old 9223372036854775808\n\n", checkpoint), 400},
		{"malformed: two spaces", lines("old  5\n\n", checkpoint), 400},
		{"malformed: a carriage return", lines("old 5\r\n\n", checkpoint), 400},
		{"malformed: a hash that is none", lines("old 5\nAAAA\n\n", checkpoint), 400},
		{"malformed: a hash with stray bits", lines("old 5\n"+strings.Repeat("A", 42)+"B=\n\n", checkpoint), 400},
		{"malformed: 64 hashes", lines("old 5\n"+strings.Repeat(hash, 64)+"\n", checkpoint), 400},
		{"malformed: no checkpoint", []byte("old 5\n\n"), 400},
		{"malformed: a checkpoint without signatures", lines("old 5\n\n", checkpoint[:bytes.Index(checkpoint, []byte("\n\n"))+2]), 400},
		{"malformed: an empty extension line", lines("old 5\n\n", extended(t, h.tree(t, 9), "x\n\ny\n")), 400},
		{"malformed: a control character in an extension line", lines("old 5\n\n", bytes.Replace(checkpoint, []byte("\n\n"), []byte("\n\x01\n\n"), 1)), 400},
		{"malformed: extension lines over the bound", lines("old 5\n\n", extended(t, h.tree(t, 9), strings.Repeat("0123456789abcde\n", 1024)+"x\n")), 400},
		{"malformed: longer than the bound", append(good.Format(), bytes.Repeat([]byte("x"), witness.MaxRequest)...), 400},
		{"malformed, and the origin is unknown", lines("old 05\n\n", unknown), 400},

		{"the origin is unknown", lines("old 0\n\n", unknown), 404},
		{"the origin is unknown, and the signature of nobody", lines("old 0\n\n", signed(tlog.Checkpoint{Origin: "unknown.example"}, otherKey)), 404},

		{"an extension line that the log has not signed", lines("old 5\n\n", bytes.Replace(checkpoint, []byte("\n\n"), []byte("\nx\n\n"), 1)), 403},
		{"only a stranger's signature", with(func(r *witness.Request) { r.Checkpoint = stranger }), 403},
		{"a trusted signature that fails", with(func(r *witness.Request) {
			r.Checkpoint = bytes.Replace(checkpoint, []byte("\n9\n"), []byte("\n8\n"), 1)
		}), 403},
		{"a trusted signature that fails beside a good one", with(func(r *witness.Request) { r.Checkpoint = lines(string(checkpoint)+badLine(nextKey), nil) }), 403},
		{"a trusted signature that fails behind a good one of the same key", with(func(r *witness.Request) { r.Checkpoint = lines(string(checkpoint)+badLine(logKey), nil) }), 403},
		{"no trusted signature, and old above the size", with(func(r *witness.Request) { r.Old, r.Checkpoint = 10, stranger }), 403},

		{"old above the size", with(func(r *witness.Request) { r.Old = 10 }), 400},
		{"old far above the size, of a first checkpoint", lines("old 9223372036854775807\n\n", h.checkpoint(t, 0, logKey)), 400},

		{"old below the latest", h.request(t, 4, 9).Format(), 409},
		{"old above the latest", h.request(t, 6, 9).Format(), 409},
		{"old 0", h.request(t, 0, 9).Format(), 409},
		{"old 0 with proof lines", with(func(r *witness.Request) { r.Old = 0 }), 409},
		{"old is not the latest, and the proof does not hold", with(func(r *witness.Request) { r.Old = 4 }), 409},
		{"smaller than the latest", h.request(t, 4, 4).Format(), 409},

		{"no proof", with(func(r *witness.Request) { r.Proof = nil }), 422},
		{"a flipped bit in the proof", with(func(r *witness.Request) { r.Proof[0][7] ^= 1 }), 422},
		{"a hash too many", with(func(r *witness.Request) { r.Proof = append(r.Proof, tlog.Hash{}) }), 422},
		{"another history", fork.request(t, 5, 9).Format(), 422},
		{"the same size with another root", fork.request(t, 5, 5).Format(), 422},
		{"the same size with proof lines", lines("old 5\n"+hash+"\n", h.checkpoint(t, 5, logKey)), 422},

		{"the same size again", h.request(t, 5, 5).Format(), 200},
		{"larger", good.Format(), 200},
		{"larger, signed by a stranger too", with(func(r *witness.Request) {
			r.Checkpoint = append(checkpoint, stranger[bytes.Index(stranger, []byte("\n\n"))+2:]...)
		}), 200},
		{"larger, signed with the log's other key", with(func(r *witness.Request) { r.Checkpoint = h.checkpoint(t, 9, nextKey) }), 200},
	} {
		state := newMemory()
		c := cosigner(t, state)
		first, err := c.AddCheckpoint(ctx, h.request(t, 0, 5).Format(), noon)
		if err != nil || first.Status != 200 {
			t.Fatalf("first: %+v, %v", first, err)
		}
		before := state.latest[origin]
		answer, err := c.AddCheckpoint(ctx, test.body, noon)
		if err != nil || answer.Status != test.status {
			t.Errorf("%s: %d %q, %v, want %d", test.name, answer.Status, answer.Body, err, test.status)
		}
		if answer.Status != 200 && (state.latest[origin] != before || strings.Contains(answer.Body, "—")) {
			t.Errorf("%s: %d, and the latest is %+v", test.name, answer.Status, state.latest[origin])
		}
		if answer.Status == 409 && (answer.ContentType != "text/x.tlog.size" || answer.Body != "5\n") {
			t.Errorf("%s: %+v", test.name, answer)
		}
	}
}

// The same conditions for a witness that has cosigned nothing.
func TestAddFirstCheckpoint(t *testing.T) {
	t.Parallel()
	h := grow(t, "leaf", 12)
	wrong, err := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Root: tlog.Hash{1}}}.Sign(logKey)
	must.OK(t, err)
	for _, test := range []struct {
		name   string
		body   []byte
		status int
		answer string
	}{
		{"size 0", h.request(t, 0, 0).Format(), 200, ""},
		{"size 9", h.request(t, 0, 9).Format(), 200, ""},
		{"size 0 with a wrong root", lines("old 0\n\n", wrong), 422, ""},
		{"proof lines with old 0", lines("old 0\n"+tlog.Hash{}.String()+"\n\n", h.checkpoint(t, 9, logKey)), 422, ""},
		{"proof lines with old 0 and size 0", lines("old 0\n"+tlog.Hash{}.String()+"\n\n", h.checkpoint(t, 0, logKey)), 422, ""},
		{"another old", h.request(t, 3, 9).Format(), 409, "0\n"},
	} {
		answer, err := cosigner(t, newMemory()).AddCheckpoint(ctx, test.body, noon)
		if err != nil || answer.Status != test.status || test.answer != "" && answer.Body != test.answer {
			t.Errorf("%s: %+v, %v", test.name, answer, err)
		}
	}
}

// torchwood accepts the cosignature. The state stores the checkpoint with the cosignature and the
// log's verified signatures.
func TestCosignatureVerifiesWithTorchwood(t *testing.T) {
	t.Parallel()
	h, state := grow(t, "leaf", 9), newMemory()
	c := cosigner(t, state)
	r := h.request(t, 0, 9)
	own := string(r.Checkpoint)
	stranger := string(h.checkpoint(t, 9, otherKey))
	r.Checkpoint = []byte(own + stranger[strings.Index(stranger, "\n\n")+2:])
	answer, err := c.AddCheckpoint(ctx, r.Format(), noon)
	if err != nil || answer.Status != 200 || !strings.HasPrefix(answer.ContentType, "text/plain") {
		t.Fatalf("%+v, %v", answer, err)
	}
	if signed := string(state.signed[origin]); signed != own+answer.Body {
		t.Errorf("%q is stored", signed)
	}
	policy, err := torchwood.ParsePolicy([]byte("log " + vkey(origin, tlog.TypeEd25519, logKey).String() + "\nwitness w " + c.VKey().String() + "\nquorum w\n"))
	must.OK(t, err)
	if seen, _, err := torchwood.VerifyCheckpoint(state.signed[origin], policy); err != nil || seen.N != 9 {
		t.Errorf("%+v, %v", seen, err)
	}
}

// extended signs a checkpoint of the log whose text goes on after the root.
func extended(t testing.TB, tree tlog.Tree, extension string) []byte {
	t.Helper()
	signer := signerOf(t, origin, logKey)
	signed, err := note.Sign(&note.Note{Text: tlog.Checkpoint{Origin: origin, Tree: tree}.Text() + extension}, signer)
	must.OK(t, err)
	return signed
}

// signerOf is the signer of package note with a key.
func signerOf(t testing.TB, name string, private ed25519.PrivateKey) note.Signer {
	t.Helper()
	blob := base64.StdEncoding.EncodeToString(append([]byte{tlog.TypeEd25519}, private.Seed()...))
	signer, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, vkey(name, tlog.TypeEd25519, private).ID(), blob))
	must.OK(t, err)
	return signer
}

// A checkpoint with extension lines is cosigned and stored as it is. The cosignature covers them:
// it verifies with torchwood, and no longer when a line is changed, added or taken away.
func TestExtensionLinesAreCosigned(t *testing.T) {
	t.Parallel()
	h := grow(t, "leaf", 9)
	for name, extension := range map[string]string{
		"one line": "x\n", "three lines": "a\n— no signature\n \n", "as many bytes as allowed": strings.Repeat("0123456789abcde\n", 1024),
	} {
		state := newMemory()
		c := cosigner(t, state)
		signed := extended(t, h.tree(t, 9), extension)
		answer, err := c.AddCheckpoint(ctx, witness.Request{Checkpoint: signed}.Format(), noon)
		if err != nil || answer.Status != 200 {
			t.Fatalf("%s: %+v, %v", name, answer, err)
		}
		stored := string(state.signed[origin])
		if stored != string(signed)+answer.Body {
			t.Errorf("%s: %q is stored", name, stored)
		}
		verifier, err := torchwood.NewCosignatureVerifier(c.VKey().String())
		must.OK(t, err)
		for change, text := range map[string]string{
			"": stored, "changed": strings.Replace(stored, extension, "y"+extension[1:], 1),
			"added": strings.Replace(stored, extension, extension+"y\n", 1), "taken away": strings.Replace(stored, extension, "", 1),
		} {
			if _, err := note.Open([]byte(text), note.VerifierList(verifier)); (err == nil) != (change == "") {
				t.Errorf("%s, %s: %v", name, change, err)
			}
		}
		// the next checkpoint of the log may have other lines
		next := witness.Request{Old: 9, Checkpoint: extended(t, h.tree(t, 9), "another\n")}
		if answer, err := c.AddCheckpoint(ctx, next.Format(), noon); err != nil || answer.Status != 200 {
			t.Errorf("%s, then another: %+v, %v", name, answer, err)
		}
	}
}

// A cosigner returns no cosignature if reading or writing its state fails.
func TestNoCosignatureWhenStateFails(t *testing.T) {
	t.Parallel()
	h, broken := grow(t, "leaf", 9), errors.New("disk full")
	state := newMemory()
	state.fail = broken
	if answer, err := cosigner(t, state).AddCheckpoint(ctx, h.request(t, 0, 9).Format(), noon); !errors.Is(err, broken) || answer != (witness.Answer{}) {
		t.Errorf("read: %+v, %v", answer, err)
	}
	if answer, err := cosigner(t, failsLate{newMemory(), broken}).AddCheckpoint(ctx, h.request(t, 0, 9).Format(), noon); !errors.Is(err, broken) || answer != (witness.Answer{}) {
		t.Errorf("written: %+v, %v", answer, err)
	}
}

// failsLate is a State whose Advance succeeds and returns an error, as after a failed fsync.
type failsLate struct {
	*memory
	err error
}

func (f failsLate) Advance(c context.Context, origin string, from, to tlog.Tree, checkpoint []byte) (bool, error) {
	_, _ = f.memory.Advance(c, origin, from, to, checkpoint)
	return true, f.err
}

// Of 100 concurrent requests, over two histories of the log, each is cosigned or answered with the
// latest size. The cosigned trees are one history that only grows.
func TestConcurrentAddCheckpoints(t *testing.T) {
	t.Parallel()
	histories := []*history{grow(t, "leaf", 300), grow(t, "another", 300)}
	state := newMemory()
	c := cosigner(t, state)
	var group sync.WaitGroup
	var mu sync.Mutex
	answered := map[int64]string{} // the root that was cosigned of each size
	for i := range 100 {
		group.Go(func() {
			h, size := histories[i%2], int64(0)
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for range 30 {
				to := min(300, size+random.Int64N(20))
				answer, err := c.AddCheckpoint(ctx, h.request(t, size, to).Format(), noon)
				if err != nil {
					t.Error(err)
					return
				}
				switch answer.Status {
				case 200:
					mu.Lock()
					root := h.tree(t, to).Root.String()
					if was, ok := answered[to]; ok && was != root {
						t.Errorf("size %d has two roots", to)
					}
					answered[to] = root
					mu.Unlock()
					size = to
				case 409:
					_, err = fmt.Sscanln(answer.Body, &size)
					must.OK(t, err)
				case 422: // of the other history
				default:
					t.Errorf("%+v", answer)
				}
			}
		})
	}
	group.Wait()
	for i, tree := range state.trees {
		if i > 0 && tree.Size < state.trees[i-1].Size || answered[tree.Size] != "" && answered[tree.Size] != tree.Root.String() {
			t.Errorf("tree %d is %+v", i, tree)
		}
	}
}

func TestNewCosignerRefusesInvalidName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "a+b", strings.Repeat("x", 256)} {
		if _, err := witness.NewCosigner(name, witnessKey, nil, newMemory()); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// Every request that parses is formatted as it was.
func FuzzRequest(f *testing.F) {
	h := grow(f, "leaf", 9)
	f.Add(h.request(f, 5, 9).Format())
	f.Add(h.request(f, 0, 9).Format())
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := witness.ParseRequest(body)
		if err == nil && !bytes.Equal(r.Format(), body) || err != nil && !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%q is read as %+v: %v", body, r, err)
		}
	})
}
