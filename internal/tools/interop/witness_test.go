package interop

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"attestd/internal/must"
)

// torchwood's proof checker accepts the proof of every record, and refuses it for another record
// and with one flipped bit.
func TestTorchwoodAcceptsEveryProof(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.grow(t, 257)
	c.checkpoint(t)
	policy := c.policy(t)
	reader := c.tiles(t)
	tree := c.tree(t, policy)
	client, err := torchwood.NewClient(reader)
	must.OK(t, err)
	var previous tlog.Hash
	for i := range c.log.Size {
		// it checks the entry against the tree with the tiles
		entry, _, err := client.Entry(t.Context(), tree, i)
		must.OK(t, err)
		proof, err := c.do("GET", fmt.Sprintf("/v1/log/%s/proof/%d", c.log.LogID, i), "")
		must.OK(t, err)
		leaf := tlog.RecordHash(entry)
		if err := torchwood.VerifyProof(policy, leaf, proof); err != nil {
			t.Errorf("the proof of %d: %v", i, err)
		}
		if torchwood.VerifyProof(policy, previous, proof) == nil {
			t.Errorf("the proof of %d holds for another record", i)
		}
		previous = leaf
		leaf[i%32] ^= 1 << (i % 8)
		if torchwood.VerifyProof(policy, leaf, proof) == nil {
			t.Errorf("the proof of %d holds for a record with one bit flipped", i)
		}
	}
}

// litewitness cosigns our checkpoints as the log grows, but no tree that is inconsistent with what
// it has seen.
func TestWitnessCosigns(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	w := newWitness(t, c)
	old := int64(0)
	for _, size := range []int64{1, 2, 255, 256, 300} {
		c.grow(t, size)
		checkpoint := c.checkpoint(t)
		proof := tlog.TreeProof{}
		if old > 0 {
			proof = c.consistency(t, old, size)
			bad := append(tlog.TreeProof{}, proof...)
			bad[0][0] ^= 1
			if status, body := w.add(t, old, bad, checkpoint); status != http.StatusUnprocessableEntity {
				t.Errorf("%d to %d with one bit flipped: %d %s", old, size, status, body)
			}
		}
		status, cosignature := w.add(t, old, proof, checkpoint)
		if status != http.StatusOK {
			t.Fatalf("%d to %d: %d %s", old, size, status, cosignature)
		}
		seen, _, err := torchwood.VerifyCheckpoint([]byte(checkpoint+cosignature), c.policy(t, w.verifier))
		if err != nil || seen.N != size {
			t.Errorf("the cosigned checkpoint: %+v, %v", seen, err)
		}
		if status, body := w.add(t, old, proof, checkpoint); status != http.StatusConflict || body != fmt.Sprintf("%d\n", size) {
			t.Errorf("the same again: %d %q", status, body)
		}
		old = size
	}
}

// witness is a running litewitness that knows one log.
type witness struct {
	address, db string
	verifier    note.Verifier
}

// newWitness starts litewitness with a key in an SSH agent, as it requires.
func newWitness(t *testing.T, c *company) witness {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // the path of a socket must be short
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	keys := agent.NewKeyring()
	must.OK(t, keys.Add(agent.AddedKey{PrivateKey: private}))
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	must.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(keys, conn) // until the witness ends
			}()
		}
	}()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	w := witness{address: free.Addr().String()}
	must.OK(t, free.Close())
	key, err := ssh.NewPublicKey(public)
	must.OK(t, err)
	const name = "witness.example/interop"
	w.db = filepath.Join(dir, "witness.db")
	run(t, "msg=listening", "litewitness", "-ssh-agent", socket, "-name", name, "-db", w.db, "-listen", w.address, "-key", ssh.FingerprintSHA256(key))
	w.addLog(t, c.log.Origin)
	w.addKey(t, c.log.Origin, c.log.VKeys[0])
	signer, err := torchwood.NewCosignatureSigner(name, private)
	must.OK(t, err)
	w.verifier = signer.Verifier()
	for deadline := time.Now().Add(patience); ; { // it logs that it listens a moment before it does
		conn, err := net.Dial("tcp", w.address)
		if err == nil {
			must.OK(t, conn.Close())
			return w
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// operate changes the logs of a witness, like witnessctl. That command itself is not built here
// because of a module that it needs.
func (w witness) operate(t *testing.T, statement string, args ...any) {
	t.Helper()
	db, err := sqlite.OpenConn(w.db, sqlite.OpenReadWrite|sqlite.OpenWAL)
	must.OK(t, err)
	must.OK(t, sqlitex.Execute(db, statement, &sqlitex.ExecOptions{Args: args}))
	must.OK(t, db.Close())
}

func (w witness) addLog(t *testing.T, origin string) {
	t.Helper()
	empty, err := tlog.TreeHash(0, nil)
	must.OK(t, err)
	w.operate(t, "INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", origin, empty.String())
}

func (w witness) addKey(t *testing.T, origin, vkey string) {
	t.Helper()
	w.operate(t, "INSERT INTO key (origin, key) VALUES (?, ?)", origin, vkey)
}

func (w witness) deleteKey(t *testing.T, origin, vkey string) {
	t.Helper()
	w.operate(t, "DELETE FROM key WHERE origin = ? AND key = ?", origin, vkey)
}

// add requests a cosignature from the witness (c2sp.org/tlog-witness).
func (w witness) add(t *testing.T, old int64, proof tlog.TreeProof, checkpoint string) (status int, body string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", old)
	for _, hash := range proof {
		fmt.Fprintln(&b, hash)
	}
	b.WriteString("\n" + checkpoint)
	client := http.Client{Timeout: patience}
	answer, err := client.Post("http://"+w.address+"/add-checkpoint", "text/plain", strings.NewReader(b.String()))
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	return answer.StatusCode, string(text)
}

// tree returns the tree of the newest checkpoint, which the policy must accept.
func (c *company) tree(t *testing.T, policy torchwood.Policy) tlog.Tree {
	t.Helper()
	checkpoint, _, err := torchwood.VerifyCheckpoint([]byte(c.checkpoint(t)), policy)
	must.OK(t, err)
	return checkpoint.Tree
}

// consistency returns a consistency proof from the log's tiles.
func (c *company) consistency(t *testing.T, from, to int64) tlog.TreeProof {
	t.Helper()
	proof, err := tlog.ProveTree(to, from, torchwood.TileHashReaderWithContext(t.Context(), c.tree(t, c.policy(t)), c.tiles(t)))
	must.OK(t, err)
	return proof
}

// tiles returns a reader of the log's tiles over HTTP with the company's key.
func (c *company) tiles(t *testing.T) torchwood.TileReader {
	t.Helper()
	reader, err := torchwood.NewTileFetcher(c.url(), torchwood.WithHTTPClient(&http.Client{Timeout: patience, Transport: bearer{c.client.Transport, c.key}}))
	must.OK(t, err)
	return reader
}

// bearer adds a credential to each request.
type bearer struct {
	http.RoundTripper
	key string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.RoundTripper.RoundTrip(r)
}
