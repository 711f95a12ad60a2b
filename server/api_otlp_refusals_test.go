package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Everything else than an export of OTLP is refused, in the form of OTLP where the request has one
// of its encodings.
func TestExportRefusals(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	reader := acme.create(t, "reader", "")
	body := spans("a", chat(1))
	malformed := `{"code":3,"message":"Malformed export: …","error":"Malformed export: …"}`
	of := func(message string) string { return `{"code":3,"message":"` + message + `","error":"…"}` }
	table(t, []row{
		{does: "another media type", as: acme, call: exportTraces, body: body, headers: []string{"Content-Type: text/plain"}, status: 415,
			gets: `{"error":"Unsupported Content-Type: send application/x-protobuf or application/json"}`},
		{does: "no media type", as: acme, call: exportTraces, body: body, headers: []string{"Content-Type: ;"}, status: 415, gets: `{"error":"…"}`},
		{does: "gRPC", as: acme, call: exportTraces, body: body, headers: []string{"Content-Type: application/grpc"}, status: 415, gets: `{"error":"…"}`},
		{does: "another coding", as: acme, call: exportTraces, body: body, headers: []string{asJSON, "Content-Encoding: zstd"}, status: 415,
			gets: of("Unsupported Content-Encoding: send gzip, or the body as it is"), sets: []string{"Accept-Encoding: gzip"}},
		{does: "gzip twice", as: acme, call: exportTraces, body: body, headers: []string{asJSON, "Content-Encoding: gzip, gzip"}, status: 415, gets: of("…")},
		{does: "two codings", as: acme, call: exportTraces, body: body, headers: []string{asJSON, gzipped, gzipped}, status: 400, gets: of("Invalid header: Content-Encoding is given more than once")},
		{does: "no gzip", as: acme, call: exportTraces, body: body, headers: []string{asJSON, gzipped}, status: 400, gets: of("Request body is not gzip, as Content-Encoding says")},
		{does: "gzip cut short", as: acme, call: exportTraces, body: zipped(t, body)[:40], headers: []string{asJSON, gzipped}, status: 400, gets: of("…")},
		{does: "gzip and more", as: acme, call: exportTraces, body: zipped(t, body) + "x", headers: []string{asJSON, gzipped}, status: 400, gets: of("…")},
		{does: "a bomb", as: acme, call: exportTraces, body: zipped(t, strings.Repeat(" ", 4<<20+1)), headers: []string{asJSON, gzipped}, status: 413, gets: of("Request body is larger than the limit of this server")},
		{does: "too large", as: acme, call: exportTraces, body: strings.Repeat(" ", 4<<20+1), headers: []string{asJSON}, status: 413, gets: of("…")},
		{does: "no JSON", as: acme, call: exportTraces, body: "x", headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "an array", as: acme, call: exportTraces, body: "[]", headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "something after it", as: acme, call: exportTraces, body: body + "{}", headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "a name twice", as: acme, call: exportTraces, body: strings.Replace(body, `"name":`, `"name":"x","name":`, 1), headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "an unknown name twice", as: acme, call: exportTraces, body: `{"x":1,"x":2}`, headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "two values", as: acme, call: exportTraces, body: strings.Replace(body, `{"stringValue":"a"}`, `{"stringValue":"a","intValue":1}`, 1), headers: []string{asJSON}, status: 400, gets: malformed},
		{does: "a misspelt parameter", as: acme, call: exportTraces + "?contents=keep", body: body, headers: []string{asJSON}, status: 400, gets: of("…did you mean content?")},
		{does: "a parameter twice", as: acme, call: exportTraces + "?all=true&all=true", body: body, headers: []string{asJSON}, status: 400, gets: of("…")},
		{does: "another choice", as: acme, call: exportTraces + "?all=yes", body: body, headers: []string{asJSON}, status: 400, gets: of("Invalid query parameter: all must be true or false")},
		{does: "another content", as: acme, call: exportTraces + "?content=Keep", body: body, headers: []string{asJSON}, status: 400, gets: of("Invalid query parameter: content must be hash or keep")},
		{does: "a long agent", as: acme, call: exportTraces + "?agent=" + strings.Repeat("x", 257), body: body, headers: []string{asJSON}, status: 400, gets: of("Invalid query parameter: agent must have 1 to 256 characters")},
		{does: "a reader", as: reader, call: exportTraces, body: body, headers: []string{asJSON}, status: 403, gets: `{"code":7,"message":"…(FORBIDDEN_ROLE)","error":"…"}`},
		{does: "a stranger", as: s.anyone(), call: exportTraces, body: body, headers: []string{asJSON}, status: 401, gets: `{"code":16,"message":"Unauthorized","error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer…"}},
		{does: "a stranger without a media type", as: s.anyone(), call: exportTraces, body: body, status: 401, gets: `{"error":"Unauthorized"}`},
		{does: "metrics", as: acme, call: "POST /v1/otlp/v1/metrics", body: body, headers: []string{asJSON}, status: 404, gets: `{"error":"Not Found"}`},
	})
	for _, c := range []struct {
		as     caller
		body   string
		status int
		code   uint64
	}{{s.anyone(), "", 401, 16}, {reader, "", 403, 7}, {acme, "\xff", 400, 3}, {acme, strings.Repeat("\x0a\x00", 2<<20+1), 413, 3}} {
		if code, message := c.as.do(t, exportTraces, c.body, asProtobuf).rpcStatus(c.status); code != c.code || message == "" {
			t.Errorf("%d: %d %s", c.status, code, message)
		}
	}
	if n := len(acme.hooked(t)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// Each bound of an export is reached, and not passed. Beyond a bound of items the item is refused;
// beyond one of the request, all of it.
func TestExportBounds(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	many := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	attributes := func(n int) string { return strings.Repeat(`{"key":"k","value":{"intValue":1}},`, n) }
	nested := func(n int) string {
		return `{"key":"n","value":` + strings.Repeat(`{"arrayValue":{"values":[`, n) + `{"intValue":1}` + strings.Repeat(`]}}`, n) + `},`
	}
	with := func(n int, member string) string { return strings.TrimSuffix(chat(n), "}") + "," + member + "}" }
	deep := func(n int) string {
		return spans("a", chat(1, `{"key":"n","value":`+strings.Repeat(`{"arrayValue":{"values":[`, n)+strings.Repeat(`]}}`, n)+`},`))
	}
	for what, span := range map[string][2]string{
		"more than 1000 attributes":      {chat(1, attributes(999)), chat(1, attributes(1000))},
		"more than 1000 events":          {with(2, `"events":[`+many("{}", 1000)+`]`), with(2, `"events":[`+many("{}", 1001)+`]`)},
		"more than 1000 links":           {with(3, `"links":[`+many("{}", 1000)+`]`), with(3, `"links":[`+many("{}", 1001)+`]`)},
		"a value nests deeper than 32":   {chat(4, nested(32)), chat(4, nested(33))},
		"more than 1000 attributes…":     {with(5, `"events":[{"attributes":[`+many(`{"key":"k"}`, 1000)+`]}]`), with(5, `"events":[{"attributes":[`+many(`{"key":"k"}`, 1001)+`]}]`)},
		"more than 1000 attributes of …": {with(6, `"links":[{"attributes":[`+many(`{"key":"k"}`, 1000)+`]}]`), with(6, `"links":[{"attributes":[`+many(`{"key":"k"}`, 1001)+`]}]`)},
	} {
		acme.do(t, exportTraces, spans("a", span[0]), asJSON).gets(200, `{}`)
		reason, _, _ := strings.Cut(what, "…")
		acme.do(t, exportTraces, spans("a", span[1], chat(99)), asJSON).gets(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"1 refused: `+strings.TrimSuffix(reason, " of ")+`"}}`)
	}
	empty := spans("a", many("{}", 10_000))
	acme.do(t, exportTraces, empty, asJSON).gets(200, `{"partialSuccess":{"rejectedSpans":"10000","errorMessage":"…"}}`)
	acme.do(t, exportTraces, spans("a", many("{}", 10_001)), asJSON).gets(400, `{"code":3,"message":"Malformed export: 10001 spans in one request, and 10000 are taken; …","error":"…"}`)
	acme.do(t, exportTraces, `{"x":[`+many("{}", 499_999)+`]}`, asJSON).gets(200, `{}`)
	acme.do(t, exportTraces, `{"x":[`+many("{}", 500_000)+`]}`, asJSON).gets(400, `{"code":3,"message":"Malformed export: more than 500000 values; export smaller batches","error":"…"}`)
	acme.do(t, exportTraces, deep(50), asJSON).status(200)
	acme.do(t, exportTraces, deep(70), asJSON).status(400)
	// the same as protobuf: a resource without content is two bytes
	if n, _ := acme.do(t, exportTraces, wire(t, spans("a", many(`{"name":"x","traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"}`, 10_000))), asProtobuf).partial(); n != 10_000 {
		t.Error(n)
	}
	acme.do(t, exportTraces, strings.Repeat("\x0a\x00", 499_999), asProtobuf).status(200)
	acme.do(t, exportTraces, strings.Repeat("\x0a\x00", 500_001), asProtobuf).rpcStatus(400)
	acme.checkChain(t)
}

// While nothing can be written, an export is answered 503 with Retry-After in its own encoding.
func TestExportWhileNothingIsWritten(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	must.OK(t, os.Rename(s.path, s.path+".moved"))
	r := acme.do(t, exportTraces, spans("a", chat(1)), asJSON).gets(503, `{"code":14,"message":"…(FILE_CHANGED)","error":"…"}`)
	if r.header.Get("Retry-After") != "30" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	if code, _ := acme.do(t, exportTraces, wire(t, spans("a", chat(1<<36))), asProtobuf).rpcStatus(503); code != 14 {
		t.Error(code)
	}
	s.stop()
}

// FuzzExport sends arbitrary exports, as both encodings. None is a fault of the service.
func FuzzExport(f *testing.F) {
	s := start(f)
	acme := s.company(f, "acme")
	f.Add(true, "", spans("a", chat(1)))
	f.Add(false, "all=true&content=keep", wire(f, spans("a", chat(1<<36), chat(2<<36, attribute("input.value", "x")))))
	f.Add(true, "all=true", logRecords("a", `{"body":{"kvlistValue":{"values":[{"key":"\ud800","value":{"doubleValue":"NaN"}}]}}}`))
	f.Fuzz(func(t *testing.T, isJSON bool, query, body string) {
		for _, path := range []string{"/v1/otlp/v1/traces", "/v1/otlp/v1/logs"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(body))
			req.URL, req.RemoteAddr = &url.URL{Path: path, RawQuery: query}, "127.0.0.1:1"
			req.Header.Set("Authorization", "Bearer "+acme.credential)
			req.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/x-protobuf"}[isJSON])
			w := newRecorder()
			s.handler().ServeHTTP(w, req)
			if w.Code >= 500 || w.Code == 200 && w.Header().Get("Content-Type") != req.Header.Get("Content-Type") {
				t.Fatal(fmt.Sprint(w.Code, " ", w.Body))
			}
		}
	})
}
