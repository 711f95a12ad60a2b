package https

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/testenv"
)

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// drain returns what was written since the last time.
func (j *journal) drain() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// A pair is used once it is complete; while its two files differ, one read reports nothing. A bad
// pair is not used, is logged once, and is in the status until it is mended. The end of a
// certificate is logged once a day from 14 days before.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, ca := t.TempDir(), testenv.NewCA(t)
		certPath, keyPath := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
		write := func(path string, text []byte) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		until := func(end time.Duration) func(*x509.Certificate) {
			return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(end).Truncate(time.Second) }
		}
		cert, key := ca.Server(t, until(20*24*time.Hour))
		write(certPath, cert)
		write(keyPath, key)
		const every = 10 * time.Minute // as often as a test of days can read
		var leaked atomic.Bool
		var log journal
		f, err := OpenFiles(certPath, keyPath, func(path string) ([]byte, error) {
			if leaked.Load() {
				return nil, errors.New("others may read it")
			}
			return os.ReadFile(path)
		}, every, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		time.Sleep(time.Second) // between two reads
		first := f.Status()
		later := func(reads int) Status {
			time.Sleep(time.Duration(reads) * every)
			synctest.Wait()
			return f.Status()
		}
		cert, key = ca.Server(t, until(30*24*time.Hour))
		write(certPath, cert)
		if s := later(1); s.LastError != "" || !s.NotAfter.Equal(first.NotAfter) || log.drain() != "" {
			t.Errorf("half a pair: %+v", s)
		}
		write(keyPath, key)
		second := later(2)
		if !second.NotAfter.After(first.NotAfter) || !second.Loaded.After(first.Loaded) {
			t.Errorf("the new pair is not in use: %+v", second)
		}
		expired, expiredKey := ca.Server(t, until(-time.Minute))
		for name, bad := range map[string]func(){
			"expired":           func() { write(certPath, expired); write(keyPath, expiredKey) },
			"another's key":     func() { write(certPath, expired); write(keyPath, key) },
			"no certificate":    func() { write(certPath, nil) },
			"a key that leaked": func() { leaked.Store(true) },
			"gone":              func() { _ = os.Remove(certPath) },
		} {
			log.drain()
			bad()
			s, logged := later(10), log.drain()
			if s.LastError == "" || s.LastErrorAt.IsZero() || !s.NotAfter.Equal(second.NotAfter) || strings.Count(logged, "was not taken into use") != 1 {
				t.Errorf("%s: %+v\n%s", name, s, logged)
			}
			leaked.Store(false)
			write(certPath, cert)
			write(keyPath, key)
			if s := later(2); s.LastError != "" {
				t.Errorf("%s was mended: %+v", name, s)
			}
		}
		log.drain()
		time.Sleep(15 * 24 * time.Hour)
		if n := strings.Count(log.drain(), "expires soon"); n != 0 {
			t.Errorf("%d warnings 15 days before the end", n)
		}
		time.Sleep(3 * 24 * time.Hour)
		if n := strings.Count(log.drain(), "expires soon"); n != 2 && n != 3 {
			t.Errorf("%d warnings in 2 days", n)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A file of client CAs that its reader refuses is not used: not at the start, and not later, when
// the earlier CAs stay.
func TestClientCAsThatAreRefusedAreNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := testenv.NewCA(t).PEM(), testenv.NewCA(t).PEM()
		type file struct {
			text []byte
			err  error
		}
		refused := errors.New("others can write it")
		var now atomic.Pointer[file]
		now.Store(&file{first, refused})
		read := func(string) ([]byte, error) { f := now.Load(); return f.text, f.err }
		var log journal
		open := func() (*ClientCAs, error) {
			return OpenClientCAs("cas.pem", read, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
		}
		if _, err := open(); err == nil || !strings.Contains(err.Error(), "others can write it") {
			t.Error(err)
		}
		now.Store(&file{first, nil})
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		before := c.Fingerprint()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx, func() {}) }()
		now.Store(&file{second, refused})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if logged := log.drain(); c.Fingerprint() != before || strings.Count(logged, "was not taken into use") != 1 {
			t.Errorf("%s", logged)
		}
		now.Store(&file{second, nil})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if c.Fingerprint() == before {
			t.Error("other CAs are not taken into use")
		}
		stop()
		<-ended
	})
}
