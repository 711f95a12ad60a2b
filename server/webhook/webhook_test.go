package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/outbound/outboundtest"
)

// The vector of the specification's own libraries: secret, ID, timestamp and body give this
// signature.
func TestPublishedVector(t *testing.T) {
	t.Parallel()
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	k := NewKeys()
	k.secret = secret
	m := Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Body: []byte(`{"test": 2432232314}`)}
	timestamp, signatures := m.sign(time.Unix(1614265330, 0), []Keys{k})
	if !strings.HasPrefix(signatures, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1a,") || timestamp != "1614265330" {
		t.Errorf("%s at %s", signatures, timestamp)
	}
}

// Messages verify with the secret and with the public key as an endpoint is given them: with one
// pair of keys, and while there are two, with either. That the libraries of the specification agree
// is shown in test and internal/tools/interop.
func TestSignaturesVerify(t *testing.T) {
	t.Parallel()
	pair, other := []Keys{NewKeys(), NewKeys()}, NewKeys()
	var sent []*http.Request
	var bodies [][]byte
	c, url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, bodies = append(sent, r), append(bodies, body)
	})
	m := Message{ID: "msg_1", Body: []byte(`{"type":"record.appended"}`)}
	for _, by := range [][]Keys{pair[:1], pair} {
		if o := c.Send(t.Context(), url, m, by...); !o.Delivered() {
			t.Fatalf("%+v", o)
		}
	}
	for i, r := range sent {
		if r.Header.Get("Webhook-Id") != "msg_1" || r.Header.Get("User-Agent") != "attestd/test" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		for n, k := range []Keys{pair[0], pair[1], other} {
			signed := n == 0 || n == 1 && i == 1
			content := []byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(bodies[i]))
			symmetric, asymmetric := verifies(t, k, content, r.Header.Get("Webhook-Signature"))
			if symmetric != signed || asymmetric != signed {
				t.Errorf("request %d, keys %d: v1 %v, v1a %v", i, n, symmetric, asymmetric)
			}
		}
	}
}

// verifies says whether a header has a good signature of either kind.
func verifies(t *testing.T, k Keys, content []byte, header string) (symmetric, asymmetric bool) {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k.Secret(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(FormatPublic(k.Public()), "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(content)
	for s := range strings.SplitSeq(header, " ") {
		version, text, _ := strings.Cut(s, ",")
		signature, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Errorf("signature %q: %v", s, err)
		}
		symmetric = symmetric || version == "v1" && hmac.Equal(signature, mac.Sum(nil))
		asymmetric = asymmetric || version == "v1a" && ed25519.Verify(public, content, signature)
	}
	return symmetric, asymmetric
}

// receiver is an endpoint on this machine, and a client that may send to it.
func receiver(t *testing.T, answer http.HandlerFunc) (*Client, string) {
	t.Helper()
	srv := httptest.NewServer(answer)
	c := NewClient(Options{AllowPrivate: true, UserAgent: "attestd/test"})
	t.Cleanup(func() {
		c.Close()
		srv.Close()
	})
	return c, srv.URL
}

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	again, err := ParseKeys(k.Bytes())
	if err != nil || again.Secret() != k.Secret() || !again.Public().Equal(k.Public()) || again.Fingerprint() != k.Fingerprint() {
		t.Errorf("read again: %v", err)
	}
	if other := NewKeys(); other.Secret() == k.Secret() || other.Public().Equal(k.Public()) {
		t.Error("two pairs are the same")
	}
	if _, err := ParseKeys(k.Bytes()[1:]); err == nil {
		t.Error("keys that are cut short are read")
	}
}

// Only a status of 2xx is a success; a redirect is not followed; 410 wants no more; Retry-After is
// read in both its forms.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	var header string
	status := 200
	c, url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Error("a redirect was followed")
		}
		w.Header().Set("Location", "/elsewhere")
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(status)
	})
	for _, c := range []struct {
		client          *Client
		status          int
		delivered, gone bool
	}{{c, 200, true, false}, {c, 204, true, false}, {c, 301, false, false}, {c, 307, false, false}, {c, 400, false, false}, {c, 410, false, true}, {c, 500, false, false}} {
		status = c.status
		if o := c.client.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); o.Status != c.status || o.Delivered() != c.delivered || o.Gone() != c.gone || o.Failure != "" {
			t.Errorf("%d: %+v", c.status, o)
		}
	}
	status = 503
	for text, want := range map[string]time.Duration{"": 0, "120": 2 * time.Minute, "-1": 0, "soon": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0, "99999999999": 0} {
		header = text
		if o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); o.RetryAfter != want {
			t.Errorf("Retry-After %q: %v", text, o.RetryAfter)
		}
	}
	header = time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); o.RetryAfter < 59*time.Minute || o.RetryAfter > time.Hour {
		t.Errorf("Retry-After in an hour: %v", o.RetryAfter)
	}
}

// Of an answer without an end no more is read than a little, and an endpoint that never answers is
// given up.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	c, url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		for piece := make([]byte, 64<<10); ; n += len(piece) {
			if _, err := w.Write(piece); err != nil {
				written <- n
				return
			}
		}
	})
	if o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); !o.Delivered() {
		t.Errorf("%+v", o)
	}
	if n := <-written; n > 32<<20 { // what the buffers of the system hold
		t.Errorf("the endpoint could write %d bytes", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent, url := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if o := silent.Send(ctx, url, Message{ID: "msg_1"}, NewKeys()); o.Status != 0 || o.Failure != "the attempt was broken off" {
		t.Errorf("%+v", o)
	}
}

// An endpoint that accepts a connection and sends nothing has 15 seconds.
func TestDeliveryAttemptTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(Options{})
		c.http.Transport = silent{}
		start := time.Now()
		if o := c.Send(t.Context(), "https://hooks.example.com/", Message{ID: "msg_1"}); o.Failure != "no answer in 15s" || time.Since(start) != timeout {
			t.Errorf("%+v after %v", o, time.Since(start))
		}
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// The delays are those of the specification's example, each with up to a tenth more; Retry-After
// makes them longer, to a day at most.
func TestDelay(t *testing.T) {
	t.Parallel()
	want := []string{"0s", "5s", "5m0s", "30m0s", "2h0m0s", "5h0m0s", "10h0m0s", "14h0m0s", "20h0m0s", "24h0m0s"}
	for failed, text := range want {
		least, ok := Delay(failed, 0, 0)
		most, _ := Delay(failed, 0, 1)
		if least.String() != text || !ok || most != least+least/10 {
			t.Errorf("after %s failures: %v to %v", strconv.Itoa(failed), least, most)
		}
	}
	if _, ok := Delay(len(want), 0, 0); ok {
		t.Error("there is one attempt more")
	}
	for asked, want := range map[time.Duration]time.Duration{time.Second: 5 * time.Second, time.Minute: time.Minute, 48 * time.Hour: 24 * time.Hour} {
		if d, _ := Delay(1, asked, 0); d != want {
			t.Errorf("asked for %v: %v", asked, d)
		}
	}
}

// Proxy settings of the environment are ignored: a proxy would make the connection, and its address
// would not be checked.
func TestProxyEnvironmentIsIgnored(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a message went to a proxy") }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	c := NewClient(Options{AllowPrivate: true, Resolver: outboundtest.Resolver(t, "0.0.0.0")})
	defer c.Close()
	for _, url := range []string{"http://hooks.example/", "https://hooks.example/"} {
		if o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); o.Failure != "the address is not public" {
			t.Errorf("%s: %+v", url, o)
		}
	}
}
