package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/export"
	"attestd/server/jobs"
	"attestd/store"
	"attestd/store/storetest"
)

// unguarded lets rows change otherwise than by a prune.
const unguarded = `DROP TRIGGER record_no_update`

// pruned removes the payloads of the first n actions of the company, whose archive has a SHA-256,
// as a prune does: with its control record first.
func (c caller) pruned(t testing.TB, n int64, archive string) {
	t.Helper()
	company, err := c.store.Companies.Get(t.Context(), c.id)
	must.OK(t, err)
	skeleton, bytes := sha256.New(), 0
	must.OK(t, c.store.Records(t.Context(), company.Actions.Chain, 0, n, func(r *chain.Record) error {
		bytes += len(r.Payload)
		_, err := skeleton.Write(r.AppendSkeleton(nil))
		return err
	}))
	frontier, err := tlog.FrontierAt(t.Context(), c.store.LogTree(company.Actions), n)
	must.OK(t, err)
	root := frontier.Root()
	text, err := json.Marshal(map[string]any{
		"log": "control", "agentId": "attestd", "companyId": c.id, "actionType": "payloads.pruned",
		"payload": map[string]any{"subject": "payloads", "by": nil, "records": n, "skeleton": hex.EncodeToString(skeleton.Sum(nil)),
			"bytes": bytes, "archive": archive, "root": hex.EncodeToString(root[:])},
	})
	must.OK(t, err)
	text, err = jcs.Append(nil, text, 16)
	must.OK(t, err)
	_, err = c.store.Append(t.Context(), chain.Draft{Chain: company.Control.Chain, Payload: text, Canonical: text, Exempt: true})
	must.OK(t, err)
	c.noPayloads(t, 0, n)
}

// noPayloads removes the payloads of the actions [from, to) of the company from the rows alone.
func (c caller) noPayloads(t testing.TB, from, to int64) {
	t.Helper()
	company, err := c.store.Companies.Get(t.Context(), c.id)
	must.OK(t, err)
	number := company.Actions.Chain
	c.file(t, fmt.Sprintf(`UPDATE record SET payload = '' WHERE id BETWEEN %d AND %d`, number<<40|from, number<<40|(to-1)))
}

var (
	firstArchive  = strings.Repeat("1a", 32)
	secondArchive = strings.Repeat("2b", 32)
)

// goneRecord is the answer to what needs the payload of a record that an archive has.
func goneRecord(index int, archive string) string {
	return fmt.Sprintf(`{"error":"The payload of record %d was pruned: the archive with the SHA-256 %s has it","code":"PAYLOAD_PRUNED"}`, index, archive)
}

// A webhook that is enabled again behind records whose payloads were pruned says how many it passes
// over: in its state, in the control record and in the log. It goes on with the next record.
func TestWebhookEnabledBehindPrunedRecords(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.file(t, unguarded)
	id := acme.do(t, "POST /v1/webhooks", `{"url":"https://hooks.example.com/x"}`).status(201).str("webhookId")
	acme.do(t, "POST /v1/webhooks/"+id+"/disable", "").status(200)
	for range 5 {
		acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
	}
	acme.pruned(t, 3, firstArchive)
	const state = `{"nextIndex":3,"skippedRecords":3}`
	acme.do(t, "POST /v1/webhooks/"+id+"/enable", "").has(state)
	acme.do(t, "POST /v1/webhooks/"+id+"/disable", "").status(200)
	acme.do(t, "POST /v1/webhooks/"+id+"/enable", "").has(state) // nothing more
	acme.do(t, "GET /v1/webhooks/"+id, "").has(state)
	acme.do(t, "GET /v1/webhooks", "").has(`{"webhooks":[` + state + `]}`)
	var text []any
	for _, r := range acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
		if payload := r.(map[string]any)["payload"].(map[string]any); payload["actionType"] == "webhook.enabled" {
			text = append(text, payload["payload"].(map[string]any)["skippedRecords"])
		}
	}
	if fmt.Sprint(text) != "[3 <nil>]" {
		t.Errorf("control records say %v", text)
	}
	if s.log.says("which it does not send") != 1 || s.log.says(`"records":3,"next":3`) != 1 {
		t.Error("the log does not say so, or says it twice")
	}
}

// The retry of a request is answered with its record also where that was decided and pruned, and no
// policy decides any more.
func TestRetryOfADecidedRecordThatWasPruned(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.file(t, unguarded)
	const call = `{"agentId":"bot","actionType":"tool.requested","payload":{"tool":"Bash","input":{}}}`
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	hash := acme.do(t, "POST /v1/attest", call, "Idempotency-Key: k").status(201).str("hash")
	acme.pruned(t, 1, firstArchive)
	acme.do(t, "POST /v1/attest", call, "Idempotency-Key: k").has(`{"index":0,"pruned":true,"hash":"` + hash + `"}`)
	acme.do(t, "DELETE /v1/policies/all", "").status(200)
	acme.do(t, "POST /v1/attest", call, "Idempotency-Key: k").has(`{"index":0,"pruned":true,"hash":"` + hash + `"}`)
	acme.do(t, "POST /v1/attest", call, "Idempotency-Key: other").has(`{"index":1}`)
}

// A record whose payload was pruned says so wherever it is read, and what proves its place goes on.
// What needs the payload is refused with the name of the archive that has it.
func TestPrunedRecords(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 6)
	before := make([]*reply, 6)
	for i := range before {
		before[i] = acme.do(t, fmt.Sprintf("GET /v1/proof/%d", i), "").status(200)
	}
	checkpoint := acme.do(t, "GET /v1/log/"+acme.actions(t).LogID+"/checkpoint", "").status(200).raw
	acme.pruned(t, 2, firstArchive)
	acme.pruned(t, 4, secondArchive)

	chainOf := acme.do(t, "GET /v1/chain", "").status(200)
	for i := range 6 {
		record, _ := chainOf.at("records", i).(map[string]any)
		is := i < 4
		if _, has := record["payload"]; !has || (record["payload"] == nil) != is || (record["pruned"] == true) != is {
			t.Errorf("record %d: %v", i, record)
		}
		proof := acme.do(t, fmt.Sprintf("GET /v1/proof/%d", i), "").status(200)
		for _, same := range []string{"proof", "root"} {
			if fmt.Sprint(proof.at(same)) != fmt.Sprint(before[i].at(same)) {
				t.Errorf("%s of record %d: %v, it was %v", same, i, proof.at(same), before[i].at(same))
			}
		}
		for _, same := range []string{"index", "timestamp", "hash", "signature"} {
			if proof.at("record", same) != before[i].at("record", same) {
				t.Errorf("%s of record %d has changed", same, i)
			}
		}
	}
	for _, raw := range acme.lines(t, "GET /v1/chain?limit=1") {
		if !strings.Contains(string(raw), `,"payload":null,"pruned":true,"hash":"`) {
			t.Errorf("%s", raw)
		}
	}
	if now := acme.do(t, "GET /v1/log/"+acme.actions(t).LogID+"/checkpoint", "").status(200).raw; string(now) != string(checkpoint) {
		t.Errorf("%s, it was %s", now, checkpoint)
	}
	acme.do(t, "GET /v1/log/"+acme.actions(t).LogID+"/consistency?from=2", "").status(200)
	for i, archive := range []string{firstArchive, firstArchive, secondArchive, secondArchive} {
		acme.do(t, fmt.Sprintf("GET /v1/evidence/%d", i), "").gets(410, goneRecord(i, archive))
		acme.do(t, fmt.Sprintf("GET /v1/authority/%d", i), "").gets(410, goneRecord(i, archive))
	}
	acme.do(t, "GET /v1/evidence/4", "").status(200)
	acme.do(t, "GET /v1/authority/4", "").status(200)
	acme.do(t, "GET /v1/evidence/0?log=control", "").status(200)

	root := acme.do(t, "GET /v1/proof/5", "").str("root")
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"`+root+`","pruned":4}`)
	acme.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)

	// the log goes on
	acme.attestMany(t, 1)
	acme.do(t, "GET /v1/proof/6", "").status(200)
	acme.do(t, "GET /v1/evidence/6", "").status(200)
}

// A payload that is missing, and that no control record of the company covers, is damage.
func TestMissingPayloadThatWasNotPruned(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.file(t, unguarded)
	acme := s.company(t, "acme")
	acme.attestMany(t, 5)
	acme.pruned(t, 2, firstArchive)
	acme.noPayloads(t, 3, 4)
	for _, call := range []string{"GET /v1/evidence/3", "GET /v1/authority/3"} {
		acme.do(t, call, "").gets(500, `{"error":"Record 3 of the log is missing or damaged on disk; GET /v1/verify says what is wrong","code":"RECORD_DAMAGED","requestId":"<anything>"}`)
	}
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":false,"failedAtIndex":3,"error":"…","pruned":2}`)
	acme.do(t, "GET /v1/chain", "").status(200).contains(`"pruned":true`)
}

// A control record that the company has not signed names no archive.
func TestForgedRecordOfAPrune(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.file(t, unguarded)
	acme := s.company(t, "acme")
	acme.attestMany(t, 5)
	acme.pruned(t, 2, firstArchive)
	s.file(t, `UPDATE record SET payload = replace(payload, '"records":2', '"records":5') WHERE id < 0 AND payload LIKE '%payloads.pruned%'`)
	for _, index := range []int{0, 4} {
		call := fmt.Sprintf("GET /v1/evidence/%d", index)
		if index == 4 {
			acme.noPayloads(t, 4, 5)
		}
		if r := acme.do(t, call, ""); r.code != 500 && r.code != 503 {
			t.Errorf("%s: %d %s", call, r.code, r.raw)
		}
	}
}

// A search passes over records whose payloads were pruned if a condition is about payloads, and
// says over how many. Others it returns as they are. None is damaged.
func TestSearchOfPrunedRecords(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	planner := acme.agent(t, "planner")
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"count","payload":"x","delegation":"`+planner+`"}`).status(201)
	hash := acme.do(t, "GET /v1/chain", "").str("records", 0, "hash")
	acme.attestMany(t, 600) // two ranges with a summary
	acme.do(t, "POST /v1/attest", `{"agentId":"other","actionType":"note","payload":"needle"}`).status(201)
	eventually(t, "the summaries are there", func() bool {
		must.OK(t, s.store.FillSummaries(t.Context(), nil))
		found := 0
		must.OK(t, s.store.Summaries(t.Context(), 1, 0, 2, false, func(int64, []byte) error { found++; return nil }))
		return found == 2
	})
	acme.pruned(t, 550, firstArchive)

	for _, test := range []struct {
		query  string
		found  int // on the first page
		pruned any
	}{
		{"?agent=bot&limit=1000", 51, 550.0},
		{"?agent=bot&limit=10", 10, nil},
		{"?agent=bot&order=oldest&limit=10", 10, 550.0},
		{"?action=count&limit=1000", 51, 550.0},
		{"?agent=other", 1, 38.0}, // the summaries rule out all but those of the last range
		{"?q=needle", 1, 550.0},
		{"?payload=n=7", 0, 550.0},
		{"?hash=" + hash, 1, nil},
		{"?delegatedBy=*", 1, nil},
		{"?delegatedBy=*&agent=bot", 0, 39.0},
		{"?limit=1000", 602, nil},
		{"?log=control&q=planner", 1, nil},
	} {
		r := acme.do(t, "GET /v1/records"+test.query, "").status(200)
		if found := len(r.at("records").([]any)); found != test.found || r.json.(map[string]any)["pruned"] != test.pruned {
			t.Errorf("%s: %d records, pruned %v; want %d, %v", test.query, found, r.json.(map[string]any)["pruned"], test.found, test.pruned)
		}
	}
	acme.do(t, "GET /v1/records?order=oldest&limit=1", "").has(`{"records":[{"index":0,"payload":null,"pruned":true,"delegation":"<anything>"}]}`)
	events := acme.do(t, "GET /v1/records?agent=bot", "", "Accept: text/event-stream").status(200)
	events.contains(`"found":51,"pruned":550}`)
	table := string(acme.do(t, "GET /v1/records", "", "Accept: text/csv").status(200).raw)
	rows := strings.Split(table, "\r\n")
	if first := rows[602]; !strings.HasPrefix(first, "0,") || strings.Count(first, ",") != 8 || !strings.Contains(first, "Z,,,spiffe://") || !strings.HasSuffix(first, ",") {
		t.Errorf("%s", first)
	}
	if got := len(acme.lines(t, "GET /v1/records?agent=bot")); got != 51 {
		t.Errorf("%d lines", got)
	}
	// counts come from the summaries, and omit what was only in payloads
	counts := acme.do(t, "GET /v1/records/histogram?by=agent&buckets=1", "").status(200)
	counts.has(`{"total":602,"agents":2,"topAgents":[{"agentId":"bot","total":563},{"agentId":"other","total":1}]}`)
	acme.do(t, "GET /v1/records/histogram?agent=bot&buckets=1", "").has(`{"total":563}`)
	acme.do(t, "GET /v1/records/histogram?by=action&buckets=1", "").has(`{"topActions":[{"actionType":"count","total":563},{"actionType":"note","total":1}]}`)
}

// The record of an append that is sent again is the answer, pruned or not.
func TestReplayOfAPrunedRecord(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	body := `{"agentId":"bot","actionType":"count","payload":1}`
	first := acme.do(t, "POST /v1/attest", body, "Idempotency-Key: k").status(201)
	acme.pruned(t, 1, firstArchive)
	again := acme.do(t, "POST /v1/attest", body, "Idempotency-Key: k").status(201).sets("Idempotent-Replayed: true")
	again.gets(201, fmt.Sprintf(`{"index":0,"timestamp":%q,"payload":null,"pruned":true,"hash":%q,"signature":%q}`,
		first.str("timestamp"), first.str("hash"), first.str("signature")))
	batch := `{"records":[{"agentId":"bot","actionType":"count","payload":1,"idempotencyKey":"k"},{"agentId":"bot","actionType":"count","payload":2}]}`
	acme.do(t, "POST /v1/attest/batch", batch).status(201).has(`{"records":[{"index":0,"payload":null,"pruned":true},{"index":1}]}`)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"count","payload":3}`, "Idempotency-Key: k").gets(422, `{"error":"…","code":"IDEMPOTENCY_KEY_REUSED"}`)
}

// A client of the stream that resumes at a record whose payload was pruned learns where it can
// continue, and gets all records from there.
func TestResumeAtAPrunedRecord(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 20)
	acme.pruned(t, 10, firstArchive)
	acme.pruned(t, 15, secondArchive)
	for _, from := range []int{0, 10, 14} {
		acme.do(t, fmt.Sprintf("GET /v1/ws?from=%d", from), "", handshake...).gets(410,
			`{"error":"The payloads of the first 15 records were pruned: resume at 15 or later. GET /v1/chain has what is left of those records, and archives have the payloads, the last one with the SHA-256 `+secondArchive+`","code":"PAYLOAD_PRUNED"}`)
	}
	l := acme.listenFrom(t, 15)
	live := acme.listen(t)
	acme.attestMany(t, 1)
	for i := 15; i < 21; i++ {
		l.valid("acme", i)
	}
	live.valid("acme", 20)
}

// Sessions with records whose payloads were pruned are listed with what is known of them, their
// records can be read, and their files are refused.
func TestSessionsOfPrunedRecords(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	attest := func(sid string) {
		for i, text := range a.run(t, sid, 3, true) {
			a.attests(t, fmt.Sprint(i), text.Compact).status(201)
		}
	}
	attest("old")
	attest("half")
	tool := func(id string) {
		acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"tool.read","payload":{"sessionId":"`+id+`","source":"claude-code"}}`).status(201)
	}
	tool("hook")
	last := acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"session.ended","payload":{"sessionId":"hook","source":"claude-code"}}`).status(201)
	attest("new")
	acme.pruned(t, 5, firstArchive) // old, and two records of half
	list := acme.do(t, "GET /v1/sessions?kind=statement", "").status(200)
	list.has(`{"sessions":[{"sid":"new","state":"sealed"},{"sid":"half","state":"pruned","pruned":true,"ended":true,"records":3},{"sid":"old","state":"pruned","pruned":true,"ended":false,"records":3}]}`)
	acme.do(t, "GET /v1/sessions/bot/old", "").gets(410, goneRecord(0, firstArchive))
	acme.do(t, "GET /v1/sessions/bot/half", "").gets(410, goneRecord(3, firstArchive))
	acme.do(t, "GET /v1/sessions/bot/new", "").status(200)
	acme.do(t, "GET /v1/sessions/bot/half/records", "").status(200).has(`{"records":[{"pruned":true},{"pruned":true},{"index":5}]}`)
	acme.do(t, "GET /v1/sessions/bot/hook", "").status(200)
	acme.pruned(t, 7, secondArchive)
	acme.do(t, "GET /v1/sessions?kind=hook", "").has(`{"sessions":[{"sid":"hook","state":"unproven","pruned":true,"ended":true,"source":"","lastAt":"` + last.str("timestamp") + `"}]}`)
	acme.do(t, "GET /v1/sessions/bot/hook", "").gets(410, goneRecord(6, secondArchive))
}

// A report has pruned records as what they are, and the check of it says so: it does not hold.
func TestReportWithPrunedRecords(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 4)
	acme.pruned(t, 2, firstArchive)
	r := acme.do(t, "GET /v1/report", "").status(200)
	if count := strings.Count(string(r.raw), `"payload":null,"pruned":true,"hash"`); count != 2 {
		t.Errorf("%d records are pruned\n%s", count, r.raw)
	}
	v := evidence.CheckReport(strings.NewReader(string(r.raw)), evidence.Trust{}, func(*evidence.Report) {}, func(*evidence.Event) {})
	if v.Outcome != evidence.Fails {
		t.Errorf("%+v", v)
	}
}

// An export stops at a record whose payload was pruned before it was sent, says which archive has
// it, and goes on with other logs.
func TestExportStopsAtAPrunedRecord(t *testing.T) {
	t.Parallel()
	path, file := storetest.New(t), filepath.Join(t.TempDir(), "lines.ndjson")
	first := startOn(t, path, cred.Domain{})
	acme, zoo := first.company(t, "acme"), first.company(t, "zoo")
	acme.attestMany(t, 5)
	zoo.attestMany(t, 5)
	acme.pruned(t, 3, firstArchive)
	fingerprint := zoo.fingerprint(t)
	first.stop()
	s := startOn(t, path, cred.Domain{}, func(c *server.Config) { c.Export = &jobs.Export{Destination: export.NewFile(file)} })
	eventually(t, "the export says what it stopped at", func() bool {
		return s.log.says("The payload of record 0 was pruned: the archive with the SHA-256 "+firstArchive+" has it") > 0
	})
	s.stop()
	exported(t, "zoo", fingerprint, 5, file)
	text, err := os.ReadFile(file)
	must.OK(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"companyId":"acme","log":"actions"`) && strings.Contains(line, `"type":"record"`) {
			t.Errorf("it was sent: %s", line)
		}
	}
}

// What a policy would have refused is counted of the records that are there, and the count says
// that it is not complete.
func TestDryRunOfAPolicyWithPrunedRecords(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.attestMany(t, 3)
	acme.pruned(t, 1, firstArchive)
	acme.do(t, "PUT /v1/company/policy", `{"attest":"key","dryRun":true}`).status(200).has(`{"dryRun":{"records":2,"refused":2,"complete":false}}`)
}

// An archive after a prune continues the one that has the pruned payloads, also one of a moment
// before the prune. One of those payloads themselves is refused, and so is one of a payload that is
// missing.
func TestArchiveAfterAPrune(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.file(t, unguarded)
	acme := s.company(t, "acme")
	earlier, _ := acme.moment(t)
	acme.attestMany(t, 5)
	before, count := acme.moment(t)
	later, more := acme.moment(t)
	_, first, err := s.archive(t, "acme", before)
	must.OK(t, err)
	acme.pruned(t, int64(count), first.Archive.SHA256)
	acme.do(t, "GET /v1/evidence/0", "").gets(410, goneRecord(0, first.Archive.SHA256))
	acme.agent(t, "bot") // a control record after the prune
	last, all := acme.moment(t)
	control := len(acme.controlRecords(t))
	trust := evidence.Trust{Fingerprint: acme.fingerprint(t)}
	for _, test := range []struct {
		before       string
		actions, own int
	}{{before, count, control - 1}, {later, more, control - 1}, {last, all, control}} {
		path, made, err := s.archive(t, "acme", test.before)
		must.OK(t, err)
		v := checked(t, path, trust)
		want := fmt.Sprintf("control 0-%d, actions %d-%d", test.own, count, test.actions)
		if v.Outcome != evidence.Holds || v.Archive.Continues != first.Archive.SHA256 || v.Archive.SHA256 != made.Archive.SHA256 || records(v) != want {
			t.Errorf("before %s: %+v, want %s", test.before, v, want)
		}
	}
	if _, _, err := s.archive(t, "acme", earlier); err == nil || !strings.Contains(err.Error(), first.Archive.SHA256) {
		t.Errorf("of pruned payloads: %v", err)
	}
	acme.noPayloads(t, int64(count), int64(count)+1)
	invalid := (*store.VerifyError)(nil)
	if _, _, err := s.archive(t, "acme", last); !errors.As(err, &invalid) || invalid.Index != int64(count) || invalid.Reason != "its payload is missing" {
		t.Errorf("of a payload that is missing: %v", err)
	}
}
