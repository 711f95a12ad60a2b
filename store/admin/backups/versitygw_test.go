package backups_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"filippo.io/age"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/admin/backups"
)

// gateway is a versitygw, which is killed with the test.
type gateway struct {
	address, dir string
	cmd          *exec.Cmd
}

func (g *gateway) start(t *testing.T) {
	t.Helper()
	g.cmd = exec.Command(testenv.Tool(t, "versitygw"), "--port", g.address, "--access", "root-access", "--secret", "root-secret", "--quiet",
		"posix", "--versioning-dir", filepath.Join(g.dir, "versions"), filepath.Join(g.dir, "buckets"))
	must.OK(t, g.cmd.Start())
	started := g.cmd
	t.Cleanup(func() {
		_ = started.Process.Kill() // it may have been killed in the test
		_ = started.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", g.address, time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("versitygw does not listen: %v", err)
		}
	}
}

func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// A real service with versions and object lock accepts backups in several parts, returns what it
// got, refuses to remove what is locked, and when it is killed in an upload, costs no backup.
func TestVersityGateway(t *testing.T) {
	testenv.Needs(t, testenv.Hours)
	t.Parallel()
	g := &gateway{dir: t.TempDir()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	g.address = ln.Addr().String()
	must.OK(t, ln.Close())
	for _, dir := range []string{"versions", "buckets"} {
		must.OK(t, os.Mkdir(filepath.Join(g.dir, dir), 0o700))
	}
	g.start(t)
	client, err := minio.New(g.address, &minio.Options{Creds: credentials.NewStaticV4("root-access", "root-secret", ""), Region: "us-east-1"})
	must.OK(t, err)
	must.OK(t, client.MakeBucket(t.Context(), "plain", minio.MakeBucketOptions{}))
	must.OK(t, client.MakeBucket(t.Context(), "locked", minio.MakeBucketOptions{ObjectLocking: true}))
	open := func(bucket string) *backups.Bucket {
		b, err := backups.OpenBucket("s3://"+bucket+"/of/attestd", backups.BucketOptions{Endpoint: "http://" + g.address, Region: "us-east-1", PathStyle: true,
			AccessKey: "root-access", SecretKey: "root-secret", Lock: backups.LockAuto, LockFor: time.Hour, Now: time.Now})
		must.OK(t, err)
		return b
	}
	l, k := serve(t), key(t)
	for range 4 {
		l.attestText(t, 750, strings.Repeat("a long text ", 700))
	}
	for _, bucket := range []string{"plain", "locked"} {
		place := open(bucket)
		var made []backups.Made
		for i := range 3 {
			o := l.options(t, 0)
			o.At, o.Keep = time.Now(), 2
			if i > 0 {
				encryptTo(&o, k)
				o.Identities = []age.Identity{k}
			}
			m, err := backups.Make(t.Context(), l.path, place, o)
			must.OK(t, err)
			if m.Size < 20<<20 || m.Records < 3000 || len(m.Left) != 0 || (m.Lock == "governance") != (bucket == "locked") {
				t.Errorf("%s: %d bytes, lock %q, left %v", bucket, m.Size, m.Lock, m.Left)
			}
			made = append(made, m)
		}
		if n := restored(t, place, made[2].Name, k); n != 3000 {
			t.Errorf("%s: %d records", bucket, n)
		}
		want := []string{made[0].Name, made[1].Name, made[2].Name}
		if bucket == "plain" {
			want = want[1:]
		} else if err := place.Remove(t.Context(), made[0].Name, made[0].Version); err == nil {
			t.Error("a locked backup was removed")
		}
		if names := done(t, place); !slices.Equal(names, want) {
			t.Errorf("%s: done: %v", bucket, names)
		}
		o := l.options(t, 0)
		o.At, o.Keep, o.Rate = time.Now(), 1, 16<<20
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var once bool
		o.Progress = func(stage string, done, _ int64) {
			if stage == "write" && done > 17<<20 && !once {
				once = true
				g.kill()
			}
		}
		if m, err := backups.Make(ctx, l.path, place, o); err == nil {
			t.Errorf("%s: done although the service was killed: %v", bucket, m)
		}
		g.start(t)
		if names := done(t, place); !slices.Equal(names, want) {
			t.Errorf("%s: done after the kill: %v", bucket, names)
		}
	}
	// replacing an object leaves the version that was locked
	place := open("locked")
	names := done(t, place)
	_, err = client.PutObject(t.Context(), "locked", "of/attestd/"+names[0], bytes.NewReader([]byte("exchanged")), 9,
		minio.PutObjectOptions{SendContentMd5: true})
	must.OK(t, err)
	list, err := backups.List(t.Context(), place)
	must.OK(t, err)
	must.OK(t, backups.Verify(t.Context(), place, list[0], t.TempDir(), l.options(t, 0)))
}
