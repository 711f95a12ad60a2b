//go:build unix

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/ledger"
	"attestd/store/storetest"
)

// suspend and resume do what an operator does in another process.
func (c caller) suspend(t testing.TB) { c.decide(t, store.Companies.Suspend) }
func (c caller) resume(t testing.TB)  { c.decide(t, store.Companies.Resume) }

func (c caller) decide(t testing.TB, what func(store.Companies, context.Context, store.Caller, string) (bool, error)) {
	t.Helper()
	company, err := c.store.Companies.Get(t.Context(), c.id)
	must.OK(t, err)
	changed, err := what(c.store.Companies, t.Context(), store.Caller{Company: company, Operator: true, At: time.Now()}, "a test")
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
}

const isSuspended = `{"error":"Forbidden: the operator of this service has suspended the company; …","code":"COMPANY_SUSPENDED"}`

// Every operation of the document is requested by an admin of a suspended company. What writes or
// issues something is COMPANY_SUSPENDED and changes no row; what reads goes on.
func TestEveryRouteOfASuspendedCompany(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	p := s.populate(t, "acme")
	p.suspend(t)
	before := s.digest(t)
	refused, read := 0, 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			// a key does not call what is for a person who has signed in
			if role := op.Extensions["x-role"]; role == "public" || role == "person" {
				continue
			}
			call, body, headers := p.ask(method+" "+path, op)
			answer := p.do(t, call, body, headers...)
			if strings.HasPrefix(op.OperationID, "evaluateAccess") { // which denies
				read++
				if answer.status(200); !strings.Contains(string(answer.raw), `"decision":false,"context":{"verdict":"deny","code":"COMPANY_SUSPENDED"`) {
					t.Errorf("%s: %s", op.OperationID, answer.raw)
				}
				continue
			}
			writes := method != "GET" && op.OperationID != "verifyPassport" && op.OperationID != "introspectToken" || op.OperationID == "getAgentSVID"
			switch {
			case op.OperationID == "introspectToken": // which expects a form
			case writes && op.OperationID != "getEnrolment":
				refused++
				answer.gets(403, isSuspended)
			default:
				if read++; strings.Contains(string(answer.raw), "COMPANY_SUSPENDED") {
					t.Errorf("%s: %d %s", op.OperationID, answer.code, answer.raw)
				}
			}
		}
	}
	if refused < 30 || read < 25 {
		t.Errorf("%d operations were refused, %d were not", refused, read)
	}
	compareDigests(t, "suspended company", before, s.digest(t))
	for role, holders := range p.holders {
		for _, who := range holders {
			if role == "writer" || role == "agent" || role == "admin" {
				who.do(t, "POST /v1/attest", `{"agentId":"deploy-bot","actionType":"x","payload":1}`).gets(403, isSuspended)
			}
		}
	}
	p.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
	p.do(t, "GET /v1/company", "").gets(200, `{"companyId":"acme","spiffeId":"…","registeredAt":"…","suspended":{"since":"…","reason":"a test"}}`)
	p.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").status(200)
	p.resume(t)
	p.do(t, "POST /v1/attest", `{"agentId":"git-bot","actionType":"x","payload":1}`).status(201)
}

// A suspended company's clients get no token, by no way to authenticate.
func TestSuspendedCompanyGetsNoToken(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	token := func(c caller) func() *reply {
		client := c.do(t, "POST /v1/oauth/clients", "").status(201)
		body := `{"grant_type":"client_credentials","client_id":"` + client.str("clientId") + `","client_secret":"` + client.str("clientSecret") + `"}`
		return func() *reply { return c.anyone().do(t, "POST /v1/oauth/token", body, jsonType) }
	}
	ours, others := token(acme), token(zoo)
	presented := ours().status(200).str("access_token")
	acme.suspend(t)
	ours().gets(403, isSuspended)
	others().status(200)
	acme.with(presented).do(t, "POST /v1/companies/svid", "").gets(403, isSuspended)
	acme.with(presented).do(t, "GET /v1/chain", "").status(200)
	acme.resume(t)
	ours().status(200)
}

func TestQuotaIsAnswered(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Quotas = ledger.Quotas{Records: 5, CompaniesPerDay: 2} })
	acme := s.company(t, "acme")
	acme.attestMany(t, 5)
	const full = `{"error":"Insufficient Storage: a log of the company may have 5 records; …","code":"QUOTA_EXCEEDED","requestId":"…"}`
	attest := `{"agentId":"bot","actionType":"x","payload":1}`
	acme.do(t, "POST /v1/attest", attest).gets(507, full)
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+attest+`]}`).gets(507, full)
	for i := range 3 { // of the control log, which has two records
		acme.agent(t, fmt.Sprint("bot-", i))
	}
	acme.do(t, "POST /v1/agents/register", `{"agentId":"more"}`).gets(507, full)
	acme.do(t, "POST /v1/agents/bot-1/disable", "").status(200)
	acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
	s.company(t, "zoo").attestMany(t, 1)
	refused := s.anyone().do(t, "POST /v1/companies", `{"companyId":"third"}`)
	refused.gets(507, `{"error":"Insufficient Storage: this service registers at most 2 companies within 24 hours","code":"QUOTA_EXCEEDED","requestId":"…"}`)
	if refused.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
}

// startLocal runs a service with the socket for commands on this machine.
func startLocal(t *testing.T, change ...func(*server.Config)) (*service, *local.Client) {
	t.Helper()
	storetest.AboutFile(t)
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{}, append(change, func(c *server.Config) {
		c.Local = &local.Server{Operations: local.Operations{Store: c.Store}, Log: c.Log}
		must.OK(t, c.Local.Listen(path))
	})...)
	client, err := local.Dial(t.Context(), path)
	must.OK(t, err)
	return s, client
}

// An operator suspends a company while the server runs: its webhook stops, and continues from its
// position when the company is resumed.
func TestSuspensionStopsWebhooks(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, operator := startLocal(t, private)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	e, others := newEndpoint(t), newEndpoint(t)
	acme.webhook(t, e.URL, "")
	zoo.webhook(t, others.URL, "")
	acme.attestMany(t, 1)
	e.record(t, "acme", 0)
	e.answers(500) // what is tried again is not, while the company is suspended
	acme.attestMany(t, 1)
	e.record(t, "acme", 1)
	found, err := operator.Suspend(t.Context(), local.Decision{CompanyID: "acme", Reason: "unpaid"})
	if err != nil || found.Reason != "unpaid" || found.Records != 2 {
		t.Fatal(found, err)
	}
	e.answers(204)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).gets(403, isSuspended)
	zoo.attestMany(t, 1)
	others.record(t, "zoo", 0)
	select {
	case d := <-e.arrived:
		t.Errorf("a suspended company's webhook gets %s", d.body)
	default:
	}
	_, err = operator.Resume(t.Context(), local.Decision{CompanyID: "acme", Reason: "paid"})
	must.OK(t, err)
	acme.attestMany(t, 1)
	e.record(t, "acme", 1)
	e.record(t, "acme", 2)
}

// Nothing of the local socket is served on the listener of the service, and nothing of the service
// on the socket.
func TestLocalOperationsAreNotServedOverTCP(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := startLocal(t)
	acme := s.company(t, "acme")
	for _, path := range []string{"/company/list", "/company/show", "/company/suspend", "/company/resume", "/company/quota", "/rotate-key", "/archive"} {
		for _, who := range []caller{acme, s.anyone()} {
			for _, host := range []string{"Host: local", "Host: localhost"} {
				res, err := s.client.Do(who.request(t, "POST "+path, `{"companyId":"acme","reason":"x"}`, host))
				must.OK(t, err)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("%s: %d", path, res.StatusCode)
				}
			}
		}
	}
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
	c := dialSocket(t, s.path)
	fmt.Fprint(c, "GET /v1/health HTTP/1.1\r\nHost: local\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	must.OK(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("the socket serves /v1/health: %d", res.StatusCode)
	}
}

// The socket is removed with the server, and the next server removes that of a killed one.
func TestSocketOfAKilledServer(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := startLocal(t)
	socket := s.path + ".sock"
	info, err := os.Lstat(socket)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatal(info.Mode(), err)
	}
	s.stop()
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left behind")
	}
	leaveSocket(t, socket)
	if _, err := local.Dial(t.Context(), s.path); err != local.ErrNone {
		t.Errorf("a socket of nobody: %v", err)
	}
	again := &local.Server{}
	must.OK(t, again.Listen(s.path))
	again.Close()
	must.OK(t, os.WriteFile(socket, []byte("mine"), 0o600))
	if err := again.Listen(s.path); err == nil {
		t.Error("a file that is no socket was taken away")
	}
	if text, err := os.ReadFile(filepath.Clean(socket)); err != nil || string(text) != "mine" {
		t.Error(string(text), err)
	}
}

// What is at the path when a server stops is removed only if it is the server's own socket.
func TestSocketOfAnotherServerIsLeft(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	path := storetest.New(t)
	socket := path + ".sock"
	first, second := new(local.Server), new(local.Server)
	must.OK(t, first.Listen(path))
	must.OK(t, second.Listen(path))
	first.Close()
	if _, err := os.Lstat(socket); err != nil {
		t.Error("the socket of the second server was removed by the first", err)
	}
	second.Close()
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// Every request is read strictly, also one that has nothing to say.
func TestLocalListIsReadStrictly(t *testing.T) {
	t.Parallel()
	s, _ := startLocal(t)
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path+".sock")
	}}}
	defer client.CloseIdleConnections()
	for body, want := range map[string]int{`{}`: 200, ``: 400, `junk`: 400, `{"companyId":"acme"}`: 400, `{} {}`: 400} {
		answer, err := client.Post("http://local/company/list", "application/json", strings.NewReader(body))
		must.OK(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%q: %d, want %d", body, answer.StatusCode, want)
		}
	}
}
