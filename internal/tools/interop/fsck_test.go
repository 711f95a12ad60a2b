package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// fsck runs Tessera's check of a whole log with one of its vkeys and returns the faults. It exits
// with 0 in any case.
func (c *company) fsck(t *testing.T, at, key string) string {
	t.Helper()
	vkey := filepath.Join(t.TempDir(), "log.vkey")
	must.OK(t, os.WriteFile(vkey, []byte(key), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// A worker that has found a fault ends, and with a single one fsck 1.0.4 would wait forever for
	// it to take the next tile, so use more.
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "fsck"), "-N=16", "-ui=false", "-v=1", "-storage_url", at, "-public_key", vkey,
		"-bearer_token", c.key).CombinedOutput()
	if err != nil {
		t.Fatalf("fsck: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("Completed ranges")) {
		t.Fatalf("fsck says nothing of what it did: %s", out)
	}
	if _, fault, ok := strings.Cut(string(out), "fsck failed: "); ok {
		return fault
	}
	return ""
}

// Tessera's fsck accepts a log over HTTP at sizes around the borders of tiles, before and after a
// rotation of the company's key: with the vkey of the signing key, and with no former one.
func TestFsckAgrees(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	for _, size := range []int64{0, 1, 255, 256, 257, 65_536, 70_000} {
		if !testenv.Long() && size > 1000 {
			break
		}
		c.grow(t, size)
		if size == 256 {
			c.rotate(t, false)
		}
		c.checkpoint(t)
		if fault := c.fsck(t, c.url()+"/", c.log.VKeys[0]); fault != "" {
			t.Errorf("size %d: %s", size, fault)
		}
		for _, former := range c.log.VKeys[1:] {
			if fault := c.fsck(t, c.url()+"/", former); !strings.Contains(fault, "no verifiable signatures") {
				t.Errorf("size %d, with the vkey of a key that has ended: %q", size, fault)
			}
		}
	}
}

// fsck finds one flipped byte in anything that it reads of a log.
func TestFsckFindsOneFlippedByte(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.grow(t, 600)
	c.checkpoint(t)
	server, err := url.Parse(c.url())
	must.OK(t, err)
	for _, path := range []string{"/checkpoint", "/tile/0/000", "/tile/0/002.p/88", "/tile/1/000.p/2", "/tile/entries/000", "/tile/entries/002.p/88"} {
		seen := false
		proxy := httputil.NewSingleHostReverseProxy(server)
		proxy.ModifyResponse = func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, path) {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s, %w", path, r.Status, err)
			}
			body[len(body)/2] ^= 1
			r.Body, seen = io.NopCloser(bytes.NewReader(body)), true
			return nil
		}
		between := httptest.NewServer(proxy)
		fault := c.fsck(t, between.URL+"/", c.log.VKeys[0])
		between.Close() // after this, nothing writes seen
		if !seen || fault == "" {
			t.Errorf("a flipped byte in %s is not found (asked for it: %v)", path, seen)
		}
	}
}
