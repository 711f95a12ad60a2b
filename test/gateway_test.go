package test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// gatewayPage is an answer of something between a client and the service. None has both marks of
// the service: the member error of a JSON object, and the header X-Request-ID.
type gatewayPage struct {
	name   string
	status int
	header http.Header
	body   string
}

const jsonType = "application/json"

func page(name string, status int, body string, header ...string) gatewayPage {
	p := gatewayPage{name, status, http.Header{}, body}
	for i := 0; i < len(header); i += 2 {
		p.header.Set(header[i], header[i+1])
	}
	return p
}

func htmlPage(status int) gatewayPage {
	text := fmt.Sprint(status, " ", http.StatusText(status))
	return page(text, status, "<html>"+text+"</html>\n", "Content-Type", "text/html")
}

// gatewayPages are twelve answers of gateways, captive portals and firewalls.
var gatewayPages = []gatewayPage{
	htmlPage(400), htmlPage(401), htmlPage(403), htmlPage(404), htmlPage(413), htmlPage(422), htmlPage(429), htmlPage(502),
	page("a refusal of ours without X-Request-ID", 422, `{"error":"refused","code":"STATEMENT_REUSED","pointer":"/records/0"}`, "Content-Type", jsonType),
	page("503 in JSON of another program", 503, `{"error":{"message":"upstream"},"code":"NOT_DONE"}`, "Content-Type", jsonType, "X-Request-ID", "edge-1"),
	page("a sign-in page", 200, "<!DOCTYPE html>\n<html><title>Sign in</title></html>\n", "Content-Type", "text/html"),
	page("a redirect to a sign-in page", 302, "", "Location", "/v1/health"),
}

// emptyAnswers are those that say nothing: a receiver's own may look the same, so that only clients
// of the service can tell them from an answer.
var emptyAnswers = []gatewayPage{page("an empty 200", 200, ""), page("an empty 204", 204, ""), page("an empty 201", 201, "")}

// gateway is between clients and a server, and answers some of the requests itself.
type gateway struct {
	*httptest.Server
	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	requests int                            // since the round began
	answers  func(request int) *gatewayPage // nil hands the request on
}

// newGateway returns a gateway, whose server is set later.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// before has the gateway hand on requests to a server, which is asked under the gateway's name.
func (g *gateway) before(t *testing.T, server string) {
	t.Helper()
	to, err := url.Parse(server)
	must.OK(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	g.proxy = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := g.next()
	if p == nil {
		g.proxy.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.status)
	_, _ = io.WriteString(w, p.body)
}

func (g *gateway) next() *gatewayPage {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if g.answers == nil {
		return nil
	}
	return g.answers(g.requests - 1)
}

// seen returns how many requests have come in the round.
func (g *gateway) seen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// begin begins a round. Without answers all requests are handed on.
func (g *gateway) begin(answers func(request int) *gatewayPage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests, g.answers = 0, answers
}

const (
	gatewayRequests = 50 // of a round: each of them is answered by each page in one of the rounds
	gatewayPeriod   = 10 // a round has a page at each tenth of its requests
)

// every answers each tenth request of a round with a page, from the first one on.
func every(p gatewayPage, first int) func(int) *gatewayPage {
	return func(n int) *gatewayPage {
		if n < gatewayRequests && n%gatewayPeriod == first {
			return &p
		}
		return nil
	}
}

// gatewayRounds calls do for each page, and each of the requests where it can come first: with
// -night for all of them, and else for one. The third of a client that signs is the list of its
// keys, which it asks for while other requests wait for its token.
func gatewayRounds(pages []gatewayPage, do func(p gatewayPage, first int, name string)) {
	for i, p := range pages {
		for first := range gatewayPeriod {
			if testenv.Night() || first == i%gatewayPeriod || first == 2 && p.status == http.StatusUnauthorized {
				do(p, first, fmt.Sprintf("%d-%d", i, first))
			}
		}
	}
}

// behindGateway starts a server that knows itself by the name of a gateway before it, with a
// machine on which an agent has a key, and another company, which signs nothing.
func behindGateway(t *testing.T, flags ...string) (*gateway, *signing, *client) {
	t.Helper()
	g := newGateway(t)
	s := serve(t, storetest.New(t), append([]string{"--rate-limits", "off", "--base-url", g.URL}, flags...)...)
	g.before(t, s.URL)
	return g, signingMachine(t, &service{URL: g.URL}, s.register(t, "acme")), s.register(t, "plain")
}

// recordedOnce requires that the log has each payload once and nothing else of these agents, and
// that the sessions are without a hole.
func recordedOnce(t *testing.T, c *client, want map[string]bool) {
	t.Helper()
	own, err := api.New(api.Config{URL: c.url, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer own.Close()
	times := map[string]int{}
	for r, err := range own.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		var id string
		must.OK(t, json.Unmarshal(r.Payload.Payload, &id))
		times[id]++
		if !want[id] {
			t.Errorf("%s is in the log, and nobody has attested it", id)
		}
	}
	for id := range want {
		if times[id] != 1 {
			t.Errorf("%s is in the log %d times", id, times[id])
		}
	}
}

// What a gateway answers in place of the service decides nothing for the Go client's spool: each
// record, signed in a session or not, is in the log once, and nothing is set apart.
func TestGatewayDecidesNothingForGoClient(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	g, m, plain := behindGateway(t)
	file, err := api.ReadAgentFile(m.keyFile)
	must.OK(t, err)
	want := map[string]bool{}
	gatewayRounds(append(gatewayPages, emptyAnswers...), func(p gatewayPage, first int, name string) {
		who := file.Identity()
		who.DPoP = first%2 == 0
		identity, err := api.NewIdentity(who)
		must.OK(t, err)
		open := func(credential api.Credential, folder string) *spool.Spool {
			c, err := api.New(api.Config{URL: g.URL, Credential: credential, Retry: &api.Retry{Times: first % 3, Min: time.Microsecond}})
			must.OK(t, err)
			t.Cleanup(c.Close)
			s, err := spool.Open(folder, c)
			must.OK(t, err)
			return s
		}
		unsigned := open(api.Key(plain.key), filepath.Join(m.folder, "attestd", name+"-unsigned", "spool"))
		signed := open(identity, filepath.Join(m.folder, "attestd", name, "spool"))
		session, err := signed.Session(identity, name)
		must.OK(t, err)
		undecided := func(err error) {
			t.Helper()
			if apart := (*spool.RefusedError)(nil); errors.As(err, new(*spool.ApartError)) || errors.As(err, &apart) {
				t.Errorf("%s at %d: %v", p.name, first, err)
			}
		}
		a := func(kind string, n int) api.Attestation {
			id := fmt.Sprint(name, " ", kind, " ", n)
			if kind[0] == 'u' {
				want[id] = true
			}
			return api.Attestation{AgentID: "bot", ActionType: "a.b", Payload: id}
		}
		g.begin(every(p, first))
		for n := 0; g.seen() < gatewayRequests; n++ {
			_, _, err := unsigned.Attest(t.Context(), a("u-sent", n))
			must.OK(t, err)
			must.OK(t, unsigned.Add(t.Context(), a("u-added", n)))
			_, _, err = session.Attest(t.Context(), a("sent", n))
			must.OK(t, err)
			must.OK(t, session.Add(t.Context(), a("added", n)))
			undecided(unsigned.Flush(t.Context()))
			undecided(signed.Flush(t.Context()))
		}
		g.begin(nil)
		_, _, err = session.End(t.Context(), a("end", 0))
		must.OK(t, err)
		must.OK(t, unsigned.Flush(t.Context()))
		must.OK(t, signed.Flush(t.Context()))
		if n := unsigned.Pending(); n > 0 {
			t.Errorf("%s at %d: %d records wait", p.name, first, n)
		}
	})
	recordedOnce(t, plain, want)
	if sessions, records, _ := m.check(t, false); sessions == 0 || records == 0 {
		t.Errorf("%d records of %d sessions", records, sessions)
	}
}

// Nor does it for the spools of the TypeScript and Python clients.
func TestGatewayDecidesNothingForOtherClients(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	othersRun(t)
	for _, script := range []string{"gateway.mjs", "gateway.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			g, m, plain := behindGateway(t)
			want := map[string]bool{}
			gatewayRounds(append(gatewayPages, emptyAnswers...), func(p gatewayPage, first int, name string) {
				for _, mode := range []string{"go", "end"} {
					g.begin(nil)
					if mode == "go" {
						g.begin(every(p, first))
					}
					var came struct {
						Pending int
						Refused []string
					}
					printed(t, clientScript(t, script, m.keyFile, g.URL, plain.key, filepath.Join(m.folder, "other"), name, mode), &came)
					if len(came.Refused) > 0 || mode == "end" && came.Pending > 0 || mode == "go" && g.seen() < gatewayRequests {
						t.Errorf("%s at %d, %s: %+v after %d requests", p.name, first, mode, came, g.seen())
					}
				}
				for n := range 18 {
					want[fmt.Sprint(name, " u-sent ", n)], want[fmt.Sprint(name, " u-added ", n)] = true, true
				}
			})
			recordedOnce(t, plain, want)
			if sessions, records, _ := m.check(t, false); sessions < len(want)/36 || records < len(want) {
				t.Errorf("%d records of %d sessions", records, sessions)
			}
		})
	}
}

// Nor does it for what runs next to an agent: hooks, commands, and the proxies of MCP servers over
// standard input and over HTTP, with a key of the agent and without.
func TestGatewayDecidesNothingForHooksAndProxies(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(answerTool))
	t.Cleanup(upstream.Close)
	gatewayRounds(gatewayPages, func(p gatewayPage, first int, name string) {
		t.Run(fmt.Sprint(p.name, " at ", first), func(t *testing.T) {
			t.Parallel()
			g, m, plain := behindGateway(t)
			unsigned := *m
			unsigned.env = append(slices.Clone(m.env), "ATTESTD_KEY="+plain.key, "ATTESTD_URL="+g.URL, "XDG_CONFIG_HOME="+t.TempDir())
			g.begin(every(p, first))
			calls := 0
			for g.seen() < gatewayRequests {
				for _, machine := range []*signing{m, &unsigned} {
					for _, event := range []string{"PreToolUse", "PostToolUse"} {
						if out, err := machine.attestd(t, hookEvent(event, calls), "hook", "--agent", "bot").CombinedOutput(); err != nil {
							t.Fatalf("%v\n%s", err, out)
						}
					}
					must.OK(t, machine.attestd(t, "", "run", "--agent", "bot", "--", "true").Run())
					finishMCP(t, machine)
					overHTTP(t, machine, upstream.URL)
				}
				calls++
			}
			g.begin(nil)
			for _, machine := range []*signing{m, &unsigned} {
				finishHook(t, machine)
				finishRun(t, machine)
				finishMCP(t, machine)
			}
			m.check(t, false)
			for _, c := range []*client{m.company, plain} {
				want := map[string]int{"tool.requested": calls*(1+3+2) + 1 + 3, "run.started": calls + 1, "run.ended": calls + 1}
				want["tool.completed"] = want["tool.requested"]
				got := actionsOnce(t, c)
				for action, n := range want {
					if got[action] != n {
						t.Errorf("%d records of %s, want %d", got[action], action, n)
					}
				}
			}
		})
	})
}

// actionsOnce counts the records of each action, and requires that none has the payload of another
// one.
func actionsOnce(t *testing.T, c *client) map[string]int {
	t.Helper()
	own, err := api.New(api.Config{URL: c.url, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer own.Close()
	seen, count := map[string]bool{}, map[string]int{}
	for r, err := range own.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		if id := r.Payload.ActionType + string(r.Payload.Payload); seen[id] {
			t.Errorf("recorded twice: %s", id)
		} else {
			seen[id] = true
		}
		count[r.Payload.ActionType]++
	}
	return count
}

// answerTool is an MCP server over HTTP that answers each request.
func answerTool(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil || asked.ID == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, asked.ID)
}

// overHTTP has attestd mcp --listen hand on two calls.
func overHTTP(t *testing.T, m *signing, upstream string) {
	t.Helper()
	cmd := m.attestd(t, "", "mcp", "--agent", "bot", "--listen", "127.0.0.1:0", "--upstream", upstream)
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	defer cmd.Process.Kill() //nolint:errcheck // it has ended
	address := ""
	lines := bufio.NewScanner(stderr)
	for address == "" && lines.Scan() {
		if at := regexp.MustCompile(`http://127\.0\.0\.1:\d+\S*`).FindString(lines.Text()); at != "" && !strings.HasPrefix(at, upstream) {
			address = at
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	for n := range 2 {
		request, err := http.NewRequest("POST", address, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":%d}}}`, n, n)))
		must.OK(t, err)
		request.Header = http.Header{"Content-Type": {jsonType}, "Accept": {"application/json, text/event-stream"}}
		answer, err := http.DefaultClient.Do(request)
		must.OK(t, err)
		text, err := io.ReadAll(answer.Body)
		must.OK(t, err)
		answer.Body.Close()
		if answer.StatusCode != 200 || !strings.Contains(string(text), `"content":[]`) {
			t.Fatalf("%d %s", answer.StatusCode, text)
		}
	}
	must.OK(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
}

// What a gateway answers in place of a receiver acknowledges nothing either: the receiver of an
// export has every record, and so has the endpoint of a webhook.
func TestGatewayAcknowledgesNothingForReceivers(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for i, p := range gatewayPages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			exported := map[string]bool{}
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				for lines := bufio.NewScanner(r.Body); lines.Scan(); {
					exported[lines.Text()] = true
				}
			}))
			t.Cleanup(receiver.Close)
			endpoint := newInbox(t)
			toReceiver, toEndpoint := newGateway(t), newGateway(t)
			toReceiver.before(t, receiver.URL)
			toEndpoint.before(t, endpoint.URL)
			first := func(n int) *gatewayPage {
				if n == 0 {
					return &p
				}
				return nil
			}
			s := serve(t, storetest.New(t), "--rate-limits", "off", "--webhooks-allow-private", "--export-to", "https", "--export-address", toReceiver.URL)
			c := s.register(t, "acme")
			hook := c.webhook(t, toEndpoint.URL)
			toReceiver.begin(first)
			for n := range int64(3) {
				toEndpoint.begin(first)
				c.call(t, 201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a.b","payload":%d}`, n), nil)
				for end := time.Now().Add(patience); toEndpoint.seen() == 0; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the endpoint is sent nothing")
					}
				}
				// so that the test does not wait for the next attempt
				for _, step := range []string{"disable", "enable"} {
					c.call(t, 200, "POST", "/v1/webhooks/"+hook.WebhookID+"/"+step, "", nil)
				}
				endpoint.complete(t, n+1)
			}
			wanted := func(n int) bool {
				mu.Lock()
				defer mu.Unlock()
				for line := range exported {
					if strings.Contains(line, `"log":"actions"`) && strings.Contains(line, fmt.Sprintf(`"index":%d,`, n)) {
						return true
					}
				}
				return false
			}
			for end, n := time.Now().Add(patience), 0; n < 3; time.Sleep(5 * time.Millisecond) {
				if wanted(n) {
					n++
				} else if time.Now().After(end) {
					t.Fatalf("the receiver has no record %d, after page %d", n, i)
				}
			}
		})
	}
}
