package server_test

import (
	"strings"
	"sync"
	"testing"

	"attestd/internal/testenv"
)

// POST /v1/setup is POST /v1/companies under another name: both have the same table.
func TestRegisterCompany(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/companies", "/v1/setup"} {
		s := start(t)
		them := s.anyone()
		const notSegment = `{"error":"…companyId…A-Z…a-z…0-9…"}`
		register := "POST " + path
		table(t, []row{
			{
				does: "a company registers and gets its first key", as: them, call: register, body: `{"companyId":"acme"}`,
				status: 201, gets: `{"companyId":"acme","spiffeId":"spiffe://attestd.local/company/acme","registeredAt":"<time>","apiKey":"svc_<secret>"}`,
				sets: []string{"Cache-Control: no-store", "Content-Type: application/json"},
			},
			{
				does: "a name is taken once", as: them, call: register, body: `{"companyId":"acme"}`,
				status: 409, gets: `{"error":"…"}`,
			},
			{
				does: "metadata is an object", as: them, call: register, body: `{"companyId":"with-metadata","metadata":{"plan":"team","seats":[1,2]}}`,
				status: 201, gets: `{"companyId":"with-metadata","spiffeId":"spiffe://attestd.local/company/with-metadata","registeredAt":"<time>","apiKey":"svc_<secret>"}`,
			},
			{does: "null metadata is none", as: them, call: register, body: `{"companyId":"null-metadata","metadata":null}`, status: 201, gets: `"<anything>"`},
			{does: "metadata is no array", as: them, call: register, body: `{"companyId":"m1","metadata":[]}`, status: 400, gets: `{"error":"…metadata…"}`},
			{does: "metadata is no string", as: them, call: register, body: `{"companyId":"m2","metadata":"x"}`, status: 400, gets: `{"error":"…metadata…"}`},
			{does: "metadata is no number", as: them, call: register, body: `{"companyId":"m3","metadata":0}`, status: 400, gets: `{"error":"…metadata…"}`},
			{does: "metadata is not false", as: them, call: register, body: `{"companyId":"m4","metadata":false}`, status: 400, gets: `{"error":"…metadata…"}`},

			{does: "metadata 128 deep", as: them, call: register, body: `{"companyId":"deep","metadata":{"a":` + nested(127) + `}}`, status: 201, gets: `"<anything>"`},
			{does: "metadata 129 deep", as: them, call: register, body: `{"companyId":"deeper","metadata":{"a":` + nested(128) + `}}`, status: 400, gets: `{"error":"…128…"}`},

			{does: "companyId is missing", as: them, call: register, body: `{}`, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "the whole body is missing", as: them, call: register, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "companyId is null", as: them, call: register, body: `{"companyId":null}`, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "companyId is a number", as: them, call: register, body: `{"companyId":7}`, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "companyId is an array", as: them, call: register, body: `{"companyId":["acme"]}`, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "companyId is empty", as: them, call: register, body: `{"companyId":""}`, status: 400, gets: `{"error":"…companyId…"}`},
			{does: "companyId has a slash", as: them, call: register, body: `{"companyId":"acme/agent/admin"}`, status: 400, gets: notSegment},
			{does: "companyId has a percent", as: them, call: register, body: `{"companyId":"acme%2Fagent"}`, status: 400, gets: notSegment},
			{does: "companyId has a blank", as: them, call: register, body: `{"companyId":"acme inc"}`, status: 400, gets: notSegment},
			{does: "companyId ends in a line break", as: them, call: register, body: `{"companyId":"acme\n"}`, status: 400, gets: notSegment},
			{does: "companyId has a NUL", as: them, call: register, body: `{"companyId":"acme\u0000"}`, status: 400, gets: notSegment},
			{does: "companyId is not ASCII", as: them, call: register, body: `{"companyId":"äcme"}`, status: 400, gets: notSegment},
			{does: "companyId is a dot", as: them, call: register, body: `{"companyId":"."}`, status: 400, gets: notSegment},
			{does: "companyId is two dots", as: them, call: register, body: `{"companyId":".."}`, status: 400, gets: notSegment},
			{does: "three dots are a name", as: them, call: register, body: `{"companyId":"..."}`, status: 201, gets: `"<anything>"`},
			{does: "every allowed character", as: them, call: register, body: `{"companyId":"AZaz09._-"}`, status: 201, gets: `"<anything>"`},
			{does: "128 characters", as: them, call: register, body: `{"companyId":"` + strings.Repeat("x", 128) + `"}`, status: 201, gets: `"<anything>"`},
			{does: "129 characters", as: them, call: register, body: `{"companyId":"` + strings.Repeat("x", 129) + `"}`, status: 400, gets: notSegment},

			{does: "the body is no object", as: them, call: register, body: `["acme"]`, status: 400, gets: `{"error":"…"}`},
			{does: "the body is not JSON", as: them, call: register, body: `companyId=acme`, status: 400, gets: `{"error":"…"}`},
			{does: "the body breaks off", as: them, call: register, body: `{"companyId":"b1"`, status: 400, gets: `{"error":"…"}`},
			{does: "something follows the body", as: them, call: register, body: `{"companyId":"b2"} {}`, status: 400, gets: `{"error":"…"}`},
			{does: "a member is given twice", as: them, call: register, body: `{"companyId":"b3","companyId":"b4"}`, status: 400, gets: `{"error":"…/companyId…"}`},
			{does: "a member of metadata is given twice", as: them, call: register, body: `{"companyId":"b5","metadata":{"a":{"b":1,"b":2}}}`, status: 400, gets: `{"error":"…/metadata/a/b…"}`},
			{
				does: "the Content-Type does not matter", as: them, call: register, body: `{"companyId":"any-type"}`, headers: []string{"Content-Type: text/plain"},
				status: 201, gets: `"<anything>"`,
			},
			{does: "what was refused was not registered", as: them, call: "GET /v1/ca/public-key?companyId=b3", status: 404, gets: `{"error":"Company not found: b3"}`},
		})
	}
}

func TestCompany(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	r := s.anyone().do(t, "POST /v1/companies", `{"companyId":"globex","metadata":{"b":1.50,"a":{"ü":[]}}}`).status(201)
	globex := caller{s, "globex", r.str("apiKey")}
	table(t, []row{
		{
			does: "a company reads what is known of it", as: acme, call: "GET /v1/company",
			status: 200, gets: `{"companyId":"acme","spiffeId":"spiffe://attestd.local/company/acme","registeredAt":"<time>"}`,
		},
		{
			does: "with its metadata, if it gave some", as: globex, call: "GET /v1/company",
			status: 200, gets: `{"companyId":"globex","spiffeId":"spiffe://attestd.local/company/globex","registeredAt":"` + r.str("registeredAt") + `","metadata":{"b":1.50,"a":{"ü":[]}}}`,
		},
		{
			does: "it gets an SVID", as: acme, call: "POST /v1/companies/svid",
			status: 200, gets: `{"companyId":"acme","spiffeId":"spiffe://attestd.local/company/acme","svid":"<token>"}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "a stranger learns nothing", as: s.anyone(), call: "GET /v1/company", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "a stranger gets no SVID", as: s.anyone(), call: "POST /v1/companies/svid", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})

	svid := acme.do(t, "POST /v1/companies/svid", "").str("svid")
	acme.checkSVID(t, svid, "spiffe://attestd.local/company/acme")
}

// If many callers request the same name at once, one gets it, and its key works.
func TestRegisterCompanyConcurrently(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	replies := make([]*reply, 12)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = s.anyone().do(t, "POST /v1/companies", `{"companyId":"wanted"}`) })
	}
	wg.Wait()
	won := 0
	for _, r := range replies {
		if r.code == 201 {
			won++
			winner := caller{s, "wanted", r.str("apiKey")}
			winner.do(t, "GET /v1/company", "").status(200)
			winner.do(t, "GET /v1/keys", "").gets(200, `{"keys":[{"key":"`+winner.credential+`","label":"bootstrap","createdAt":"<time>"}]}`)
			continue
		}
		r.status(409)
	}
	if won != 1 {
		t.Errorf("%d registrations succeeded, want 1", won)
	}
}
