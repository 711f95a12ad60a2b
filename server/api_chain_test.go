package server_test

import (
	"fmt"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // for changes of the file without the service

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/store/storetest"
)

// This is SHA-256 of the empty string.
const emptyRoot = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// attestMany appends n records.
func (c caller) attestMany(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		c.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"count","payload":{"n":%d}}`, i)).status(201)
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	stranger := func(call string) row {
		return row{does: "a stranger asks " + call, as: s.anyone(), call: call, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}}
	}
	wrong := func(query, name string) row {
		return row{does: "a part of the chain: " + query, as: acme, call: "GET /v1/chain?" + query, status: 400, gets: `{"error":"…` + name + `…"}`}
	}
	table(t, []row{
		{does: "an empty chain", as: acme, call: "GET /v1/chain", status: 200, gets: `{"records":[]}`},
		{does: "an empty chain is valid", as: acme, call: "GET /v1/verify", status: 200, gets: `{"valid":true,"merkleRoot":"` + emptyRoot + `"}`},
		{does: "and proves nothing", as: acme, call: "GET /v1/proof/0", status: 404, gets: `{"error":"…"}`},
		stranger("GET /v1/chain"), stranger("GET /v1/verify"), stranger("GET /v1/proof/0"), stranger("GET /v1/proof/x"),
	})
	acme.attestMany(t, 5)
	record := func(n int) string {
		return fmt.Sprintf(`{"index":%d,"timestamp":"<time>","payload":{"agentId":"bot","companyId":"acme","actionType":"count","payload":{"n":%d}},"hash":"<hash>","signature":"<signature>"}`, n, n)
	}
	records := func(from, to int) string {
		var list []string
		for n := from; n < to; n++ {
			list = append(list, record(n))
		}
		return `{"records":[` + strings.Join(list, ",") + `]}`
	}
	table(t, []row{
		{does: "the chain in ascending order", as: acme, call: "GET /v1/chain", status: 200, gets: records(0, 5), sets: []string{"Content-Type: application/json"}},
		{does: "an unknown parameter changes nothing", as: acme, call: "GET /v1/chain?page=2", status: 200, gets: records(0, 5)},
		{does: "from an index on", as: acme, call: "GET /v1/chain?from=3", status: 200, gets: records(3, 5)},
		{does: "at most so many", as: acme, call: "GET /v1/chain?limit=2", status: 200, gets: records(0, 2)},
		{does: "a part of it", as: acme, call: "GET /v1/chain?from=1&limit=3", status: 200, gets: records(1, 4)},
		{does: "a part that reaches over the end", as: acme, call: "GET /v1/chain?from=4&limit=10000", status: 200, gets: records(4, 5)},
		{does: "from the end on", as: acme, call: "GET /v1/chain?from=5", status: 200, gets: `{"records":[]}`},
		{does: "from far behind the end", as: acme, call: "GET /v1/chain?from=9223372036854775807", status: 200, gets: `{"records":[]}`},
		wrong("from=-1", "from"), wrong("from=one", "from"), wrong("from=1.0", "from"), wrong("from=%2B1", "from"),
		wrong("limit=0", "limit"), wrong("limit=10001", "limit"), wrong("limit=-5", "limit"),

		{does: "a valid chain", as: acme, call: "GET /v1/verify", status: 200, gets: `{"valid":true,"merkleRoot":"<hash>"}`},
		{does: "the proof of a record", as: acme, call: "GET /v1/proof/4", status: 200, gets: `{"record":` + record(4) + `,"proof":[{"sibling":"<hash>","position":"left"}],"root":"<hash>"}`},
		{
			does: "the proof of another", as: acme, call: "GET /v1/proof/1", status: 200,
			gets: `{"record":` + record(1) + `,"proof":[{"sibling":"<hash>","position":"left"},{"sibling":"<hash>","position":"right"},{"sibling":"<hash>","position":"right"}],"root":"<hash>"}`,
		},
		{does: "the index after the last", as: acme, call: "GET /v1/proof/5", status: 404, gets: `{"error":"…"}`},
		{does: "an index far away", as: acme, call: "GET /v1/proof/9223372036854775807", status: 404, gets: `{"error":"…"}`},
		{does: "an index that fits no integer", as: acme, call: "GET /v1/proof/99999999999999999999999", status: 404, gets: `{"error":"…"}`},
	})
	for _, index := range []string{"-1", "one", "1.0", "1e1", "0x1", "+1", "%201", "1%20", "1_0", "%D9%A1", "NaN"} {
		acme.do(t, "GET /v1/proof/"+index, "").gets(400, `{"error":"index must be a non-negative integer"}`)
	}
}

// As an addition to the specification, records are listed one a line.
func TestChainLineByLine(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	const accept = "Accept: application/x-ndjson"
	if r := acme.do(t, "GET /v1/chain", "", accept).status(200); len(r.raw) != 0 {
		t.Errorf("an empty chain is %q", r.raw)
	}
	acme.attestMany(t, 4)
	r := acme.do(t, "GET /v1/chain?from=1", "", accept).status(200).sets("Content-Type: application/x-ndjson")
	lines := strings.SplitAfter(string(r.raw), "\n")
	if len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%d lines of %q", len(lines), r.raw)
	}
	for i, line := range lines[:3] {
		rec := recordIn(t, []byte(line))
		checkRecord(t, rec, acme.publicKey(t))
		if rec.Index != i+1 {
			t.Errorf("line %d is record %d", i, rec.Index)
		}
	}
}

// file opens a second connection to the database of a service, as an operator at a prompt would.
func (s *service) file(t testing.TB, statements ...string) {
	t.Helper()
	must.OK(t, storetest.Stranger(t, s.path, statements...).Close())
}

// Verification finds every change of the file that was not made by the server, and names the first
// affected record.
func TestTampering(t *testing.T) {
	t.Parallel()
	const unguard = `DROP TRIGGER record_no_update; DROP TRIGGER record_no_delete; DROP TRIGGER head_only_grows`
	for _, trick := range []struct {
		does, sql string
		failsAt   int
	}{
		{"a payload is changed", `UPDATE record SET payload = replace(payload, '"n":3', '"n":4') WHERE id = 1 << 40 | 3`, 3},
		{"a time is changed", `UPDATE record SET timestamp = '2020-01-01T00:00:00.000Z' WHERE id = 1 << 40 | 2`, 2},
		{"a hash is changed", `UPDATE record SET hash = zeroblob(32) WHERE id = 1 << 40 | 0`, 0},
		{"a signature is changed", `UPDATE record SET signature = zeroblob(64) WHERE id = 1 << 40 | 5`, 5},
		{"a delegation is taken away", `UPDATE record SET delegation = NULL WHERE id = 1 << 40 | 1`, 1},
		{"a delegation is put in", `UPDATE record SET delegation = (SELECT delegation FROM record WHERE id = 1 << 40 | 1) WHERE id = 1 << 40 | 4`, 4},
		{"two records change places", `UPDATE record SET id = -1 WHERE id = 1 << 40 | 2; UPDATE record SET id = 1 << 40 | 2 WHERE id = 1 << 40 | 3; UPDATE record SET id = 1 << 40 | 3 WHERE id = -1`, 2},
		{"a record is doubled over another", `UPDATE record SET (hash, signature, timestamp, payload) = (SELECT hash, signature, timestamp, payload FROM record WHERE id = 1 << 40 | 2) WHERE id = 1 << 40 | 3`, 3},
		{"the last record is cut off", `DELETE FROM record WHERE id = 1 << 40 | 5`, 5},
		{"half the chain is cut off", `DELETE FROM record WHERE id >= 1 << 40 | 3`, 3},
		{"all of it is cut off", `DELETE FROM record WHERE id >> 40 = 1`, 0},
		{"the head is taken away", `DROP TRIGGER head_no_delete; DELETE FROM head WHERE chain = 1`, 0},
		{"a record is taken out of the middle", `DELETE FROM record WHERE id = 1 << 40 | 2`, 2},
		{"the record is valid JSON no more", `UPDATE record SET payload = '{' WHERE id = 1 << 40 | 3`, 3},
		{"another company's record is put in", `UPDATE record SET (hash, signature, timestamp, payload) = (SELECT hash, signature, timestamp, payload FROM record WHERE id = 2 << 40) WHERE id = 1 << 40`, 0},
	} {
		t.Run(trick.does, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			acme, globex := s.company(t, "acme"), s.company(t, "globex")
			globex.attestMany(t, 1)
			acme.attestMany(t, 1)
			acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"count","payload":{"n":1},"delegation":"`+acme.agent(t, "bot")+`"}`).status(201)
			for n := 2; n < 6; n++ {
				acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"count","payload":{"n":%d}}`, n)).status(201)
			}
			acme.checkChain(t)

			s.file(t, unguard, trick.sql)
			want := fmt.Sprintf(`{"valid":false,"failedAtIndex":%d,"error":"…"}`, trick.failsAt)
			acme.do(t, "GET /v1/verify", "").gets(200, want)
			// a second request gives the same verdict
			acme.do(t, "GET /v1/verify", "").gets(200, want)
			s.stop()
			again := startOn(t, s.path, cred.Domain{})
			caller{again, "acme", acme.credential}.do(t, "GET /v1/verify", "").gets(200, want)
		})
	}
}

// HEAD only checks permission, and reads nothing of the chain.
func TestHEADOfVerifyReadsNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	s.anyone().do(t, "HEAD /v1/verify", "").status(401)
	s.file(t, "DROP TABLE head")
	acme.do(t, "GET /v1/verify", "").status(500)
	acme.do(t, "HEAD /v1/verify", "").status(200).sets("Content-Type: application/json")
}

// A chain survives a restart and accepts more records.
func TestChainAfterRestart(t *testing.T) {
	t.Parallel()
	first := start(t)
	acme := first.company(t, "acme")
	acme.attestMany(t, 7)
	before := acme.checkChain(t)
	first.stop()

	acme = caller{startOn(t, first.path, cred.Domain{}), "acme", acme.credential}
	acme.attestMany(t, 3)
	after := acme.checkChain(t)
	if len(after) != 10 {
		t.Fatalf("%d records, want 10", len(after))
	}
	for i, r := range before {
		if after[i].Hash != r.Hash {
			t.Errorf("record %d is another one now", i)
		}
	}
}
