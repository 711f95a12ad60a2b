package interop

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/internal/must"
)

// cosigner starts another attestd as a witness of the log with this key, and returns its URL for
// checkpoints, and its vkey.
func cosigner(t *testing.T, log string) (prefix, vkey string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "logs.txt")
	must.OK(t, os.WriteFile(policy, []byte("log "+log+"\n"), 0o600))
	c := company{client: &http.Client{Timeout: patience}}
	c.base, _ = serve(t, filepath.Join(dir, "witness.db"), "--cosign-for", policy, "--witness-name", "witness.example/attestd")
	var who struct{ VKey string }
	c.ask(t, "GET", "/v1/witness", "", &who)
	return c.base + "/v1/witness", who.VKey
}

// Our witness cosigns a Tessera log as it grows: Tessera publishes no checkpoint without the
// cosignature.
func TestCosignerAcceptsTessera(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	skey, vkey, err := note.GenerateKey(rand.Reader, "tessera.example/log")
	must.OK(t, err)
	prefix, witness := cosigner(t, vkey)
	policy := "log " + vkey + "\nwitness attestd " + witness + " " + prefix + "\nquorum attestd\n"
	for name, text := range map[string]string{"key": skey, "policy": policy} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	theirs, err := torchwood.ParsePolicy([]byte(policy))
	must.OK(t, err)
	size := int64(0)
	for round, more := range []int64{1, 2, 300} {
		for i := range more {
			must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("entry-%d-%d", round, i)), fmt.Appendf(nil, "entry %d of %d", i, round), 0o600))
		}
		size += more
		out, err := exec.Command(filepath.Join(bin, "posix-oneshot"), "-storage_dir", filepath.Join(dir, "log"), "-private_key", filepath.Join(dir, "key"),
			"-witness_policy_file", filepath.Join(dir, "policy"), "-entries", filepath.Join(dir, fmt.Sprintf("entry-%d-*", round))).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		signed, err := os.ReadFile(filepath.Join(dir, "log", "checkpoint"))
		must.OK(t, err)
		if seen, _, err := torchwood.VerifyCheckpoint(signed, theirs); err != nil || seen.N != size {
			t.Errorf("size %d: %+v, %v\n%s", size, seen, err, signed)
		}
	}
}

// litewitness and another attestd cosign our log, which requests that as it grows. torchwood
// accepts the published checkpoint as cosigned by both.
func TestWitnessesCosignOurLog(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	lite := newWitness(t, c)
	prefix, vkey := cosigner(t, c.log.VKeys[0])
	c.stop()
	c.base, c.stop = serve(t, c.path, "--witness", prefix+"="+vkey+",http://"+lite.address+"="+lite.verifier.(fmt.Stringer).String())
	policy, err := torchwood.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness a %s\nwitness b %s\ngroup both all a b\nquorum both\n", c.log.VKeys[0], vkey, lite.verifier))
	must.OK(t, err)
	for _, size := range []int64{0, 1, 2, 257, 300} {
		c.grow(t, size)
		for deadline := time.Now().Add(patience); ; {
			signed := []byte(c.checkpoint(t))
			_, _, err := torchwood.VerifyCheckpoint(signed, policy)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("size %d: %v\n%s", size, err, signed)
			}
		}
	}
	proof, err := c.do("GET", fmt.Sprintf("/v1/log/%s/proof/7", c.log.LogID), "")
	must.OK(t, err)
	if _, signed, _ := bytes.Cut(proof, []byte("\n\n")); err != nil {
		t.Error(err)
	} else if _, _, err := torchwood.VerifyCheckpoint(signed, policy); err != nil {
		t.Errorf("the checkpoint of a proof: %v", err)
	}
}
