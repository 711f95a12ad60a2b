package keysets

import (
	"context"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"attestd/internal/outbound/outboundtest"
)

// lying is a server with an answer at each path; at its name it is reached only as resolver says.
func lying(t *testing.T) (srv *httptest.Server, base string, roots *x509.CertPool) {
	mux := http.NewServeMux()
	srv = httptest.NewUnstartedServer(mux)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, _ := strings.Cut(srv.Listener.Addr().String(), ":")
	base = "https://example.com:" + port
	answer := func(path string, f http.HandlerFunc) { mux.HandleFunc(path, f) }
	answer("/good", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=120, must-revalidate")
		w.Write([]byte(r.Header.Get("User-Agent") + r.Header.Get("Accept-Encoding")))
	})
	answer("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, base+"/good", http.StatusFound) })
	answer("/absent", http.NotFound)
	answer("/created", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	answer("/grows", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	answer("/headers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	answer("/drips", func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	answer("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	answer("/breaks", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("{"))
		panic(http.ErrAbortHandler)
	})
	return srv, base, srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// Whatever a server does, the answer is its document, or a reason without addresses, in time.
func TestLyingServers(t *testing.T) {
	t.Parallel()
	_, base, roots := lying(t)
	c := NewClient(Options{AllowPrivate: true, UserAgent: "attestd/test", Resolver: outboundtest.Resolver(t, "127.0.0.1"), Roots: roots})
	for path, want := range map[string]string{
		"/redirect": "status 302", "/absent": "status 404", "/created": "status 201", "/grows": "longer than 65536",
		"/headers": "no whole answer", "/drips": "no whole answer", "/hangs": "no whole answer", "/breaks": "no whole answer",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if path == "/drips" || path == "/hangs" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		_, err := c.Get(ctx, base+path)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", path, err)
		}
	}
	d, err := c.Get(t.Context(), base+"/good")
	if err != nil || string(d.Body) != "attestd/test" || d.Fresh != 2*time.Minute {
		t.Errorf("%+v, %v", d, err)
	}
}

// A server that moves to an inner address is not asked there, whether its name or its number says
// so; nor is one without TLS, or with an untrusted certificate.
func TestInnerAddressesAreNotAsked(t *testing.T) {
	t.Parallel()
	srv, base, roots := lying(t)
	reached := 0
	inner := srv.Config.Handler
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached++; inner.ServeHTTP(w, r) })
	for _, address := range []string{"127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1"} {
		c := NewClient(Options{Resolver: outboundtest.Resolver(t, address), Roots: roots})
		if _, err := c.Get(t.Context(), base+"/good"); err == nil || !strings.Contains(err.Error(), "not public") {
			t.Errorf("%s: %v", address, err)
		}
		u := url.URL{Scheme: "https", Host: address}
		if strings.Contains(address, ":") {
			u.Host = "[" + address + "]"
		}
		if _, err := c.Get(t.Context(), u.String()); err == nil || !strings.Contains(err.Error(), "not public") {
			t.Errorf("%s: %v", u.String(), err)
		}
	}
	c := NewClient(Options{Resolver: outboundtest.Resolver(t, "127.0.0.1"), Roots: roots})
	if _, err := c.Get(t.Context(), "http://example.com/good"); err == nil || !strings.Contains(err.Error(), "https") {
		t.Error(err)
	}
	if reached != 0 {
		t.Errorf("%d requests within", reached)
	}
	c = NewClient(Options{AllowPrivate: true, Resolver: outboundtest.Resolver(t, "127.0.0.1"), Roots: x509.NewCertPool()})
	if _, err := c.Get(t.Context(), base+"/good"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	c = NewClient(Options{AllowPrivate: true, Resolver: outboundtest.Resolver(t, "127.0.0.1"), Roots: roots})
	if _, err := c.Get(t.Context(), base+"/good"); err != nil { // so the others show something
		t.Error(err)
	}
}

// How long an answer is fresh.
func TestFreshness(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": -time.Second, "max-age=60": time.Minute, "MAX-AGE=\"60\", public": time.Minute, "max-age=60, max-age=5": time.Minute,
		"max-age=60, no-store": 0, "no-cache": 0, "max-age=x": -time.Second, "max-age=-1": -time.Second, "max-age=99999999999": -time.Second,
		"s-maxage=60": -time.Second,
	} {
		if got := fresh(http.Header{"Cache-Control": {header}}); got != want {
			t.Errorf("%q: %s", header, got)
		}
	}
	if got := fresh(http.Header{"Cache-Control": {"max-age=60"}, "Age": {"50"}}); got != 10*time.Second {
		t.Errorf("with an age: %s", got)
	}
	if got := fresh(http.Header{"Cache-Control": {"max-age=60"}, "Age": {"70"}}); got != 0 {
		t.Errorf("beyond its age: %s", got)
	}
}
