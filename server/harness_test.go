package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/server"
	"attestd/server/limit"
	"attestd/store"
	"attestd/store/storetest"
)

// service is the server as its users meet it: a database in a temporary folder behind a listener on
// loopback. Rate limits are off. When the test ends it is stopped, and its log is searched for
// every secret that went over the wire.
type service struct {
	url  string
	path string // of the database
	// for what no answer shows: private keys, and tokens issued in the past
	store   *store.Store
	handler func() http.Handler // the same server without a socket, for callers from elsewhere
	reload  func(context.Context, server.Live)
	log     *journal
	client  *http.Client
	stop    func() // stops it before the end of the test
}

// master is the key under which new databases of these tests are sealed: they pass with one and
// without, and ATTESTD_MASTER_KEY_FILE names one.
var master = sync.OnceValue(func() *seal.Master {
	path := os.Getenv("ATTESTD_MASTER_KEY_FILE")
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	key, err := seal.ParseMaster(text)
	if err != nil {
		panic(err)
	}
	return &key
})

// start runs a service on a new database.
func start(t testing.TB, change ...func(*server.Config)) *service {
	t.Helper()
	return startOn(t, storetest.New(t), cred.Domain{}, change...)
}

// startOn runs a service on the database at path.
func startOn(t testing.TB, path string, domain cred.Domain, change ...func(*server.Config)) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	return startBehind(t, ln, nil, path, domain, change...)
}

// startBehind runs a service on the database at path, behind a listener that dial reaches; nil
// dials as always.
func startBehind(t testing.TB, ln net.Listener, dial func(ctx context.Context, network, address string) (net.Conn, error), path string, domain cred.Domain, change ...func(*server.Config)) *service {
	t.Helper()
	_, err := document()
	must.OK(t, err)
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	db, err := store.Open(t.Context(), path, string(schema), store.Options{Domain: domain, Master: master(), Heads: storetest.Heads(path)})
	must.OK(t, err)
	log := &journal{}
	cfg := server.Config{
		Store:           db,
		Version:         "1.2.3-test",
		MaxBody:         4 << 20,
		Budgets:         limit.Defaults(4 << 20),
		Live:            server.Live{Bounds: server.DefaultBounds},
		RecoverEndpoint: true,
		Log:             slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.Level(-100)})),
	}
	leave := differ(path, &cfg)
	for _, f := range change {
		f(&cfg)
	}
	srv := server.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Run(ctx, ln) }()

	transport := &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 32}
	s := &service{
		url:     "http://" + ln.Addr().String(),
		path:    path,
		store:   db,
		handler: sync.OnceValue(srv.Handler),
		reload:  srv.Reload,
		log:     log,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		leave()
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := db.Close(); err != nil && !errors.Is(err, store.ErrFileChanged) {
			t.Errorf("close the store: %v", err)
		}
		if leaked := log.leaks(); len(leaked) > 0 {
			t.Errorf("the log shows %d secrets, the first in this line:\n%s", len(leaked), leaked[0])
		}
	})
	t.Cleanup(s.stop)
	return s
}

// differ gives a service that shares its database another version, and other values of the recorded
// settings, as in a rolling upgrade. It changes nothing that the test sets itself. The service
// calls leave at its end.
func differ(path string, cfg *server.Config) (leave func()) {
	serving.Lock()
	defer serving.Unlock()
	if n := len(serving.on[path]); n > 0 {
		serving.started++
		k := serving.started
		cfg.Version = fmt.Sprintf("2.%d.0-test", k)
		cfg.CosignFor = fmt.Sprintf("policy-%d", k)
		cfg.Live.AllowedOrigins = []string{fmt.Sprintf("https://%d.example", k)}
		cfg.Live.Bounds.Keys += k
		cfg.Retention = store.DefaultRetention
		cfg.Retention.Passports += time.Duration(k) * time.Second
		cfg.TrustedProxies = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(k)}), 32)}
	}
	if serving.on[path] == nil {
		serving.on[path] = map[*server.Config]bool{}
	}
	serving.on[path][cfg] = true
	return func() {
		serving.Lock()
		defer serving.Unlock()
		delete(serving.on[path], cfg)
	}
}

// serving has the services that run, by their database.
var serving = struct {
	sync.Mutex
	started int
	on      map[string]map[*server.Config]bool
}{on: map[string]map[*server.Config]bool{}}

// caller is a client of a service: a company with its credential, or an unauthenticated client.
type caller struct {
	*service
	id         string // companyId
	credential string // "" sends none
}

// anyone has no credential.
func (s *service) anyone() caller { return caller{service: s} }

// company registers a company and speaks for it with its bootstrap key.
func (s *service) company(t testing.TB, id string) caller {
	t.Helper()
	r := s.anyone().do(t, "POST /v1/companies", `{"companyId":"`+id+`"}`).status(201)
	return caller{s, id, r.str("apiKey")}
}

// with is the same company with another credential.
func (c caller) with(credential string) caller { c.credential = credential; return c }

// agent registers an agent and returns its SVID.
func (c caller) agent(t testing.TB, id string) string {
	t.Helper()
	return c.do(t, "POST /v1/agents/register", `{"agentId":"`+id+`"}`).status(201).str("svid")
}

// passport issues a passport to a registered agent. body may be "".
func (c caller) passport(t testing.TB, agent, body string) string {
	t.Helper()
	return c.do(t, "POST /v1/agents/"+agent+"/passport", body).status(201).str("passport")
}

// do sends a request. call is "METHOD path", body is sent unchanged, and each header is "Name:
// value". The answer is validated against web/openapi.yaml before do returns it.
func (c caller) do(t testing.TB, call, body string, headers ...string) *reply {
	t.Helper()
	req := c.request(t, call, body, headers...)
	res, err := c.client.Do(req)
	must.OK(t, err)
	defer res.Body.Close()
	var raw []byte
	if res.StatusCode != http.StatusSwitchingProtocols {
		raw, err = io.ReadAll(res.Body)
		must.OK(t, err)
	}
	return c.reply(t, req, res.StatusCode, res.Header, raw)
}

func (c caller) request(t testing.TB, call, body string, headers ...string) *http.Request {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	must.OK(t, err)
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimPrefix(value, " ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	c.log.secretsOfRequest(req, body)
	return req
}

func (c caller) reply(t testing.TB, req *http.Request, status int, header http.Header, raw []byte) *reply {
	t.Helper()
	r := &reply{t: t, call: req.Method + " " + req.URL.Path, code: status, header: header, raw: raw}
	if strings.HasPrefix(header.Get("Content-Type"), "application/json") && req.Method != "HEAD" {
		if err := json.Unmarshal(raw, &r.json); err != nil {
			t.Fatalf("%s: %d with a body that is not JSON: %v\n%s", r.call, status, err, raw)
		}
		c.log.secretsOf(r.json)
	}
	if header.Get("X-Request-ID") == "" {
		t.Errorf("%s: %d without X-Request-ID", r.call, status)
	}
	if err := obeysDocument(req, status, header, raw); err != nil {
		t.Errorf("%s: the answer is not the one of web/openapi.yaml:\n%v\n%s", r.call, err, short(raw))
	}
	return r
}

func short(raw []byte) []byte {
	if len(raw) > 2000 {
		return append(bytes.Clone(raw[:2000]), "…"...)
	}
	return raw
}
