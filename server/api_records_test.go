package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
	"attestd/store/storetest"
)

// mixture is a log with records of many kinds.
type mixture struct {
	caller
	records []mixed // by index
}

// mixed is a record as a slow, simple reader decodes it.
type mixed struct {
	Index     int    `json:"index"`
	Timestamp string `json:"timestamp"`
	Payload   struct {
		AgentID    string          `json:"agentId"`
		ActionType string          `json:"actionType"`
		Payload    json.RawMessage `json:"payload"`
	} `json:"payload"`
	Hash       string `json:"hash"`
	Delegation *struct {
		Subject string   `json:"subject"`
		Chain   []string `json:"delegationChain"`
	} `json:"delegation"`
	text []string // all strings and names of the payload
	raw  json.RawMessage
}

var (
	mixedAgents  = []string{"deploy-bot", "deploy", `a "quoted" agent`, "Räuber", strings.Repeat("long", 60), "git-bot", "nul\x00&<\u2028\u202e", "bot*", "\U0001f600\U0010ffff"}
	mixedActions = []string{
		"tool.read", "tool.write", "tool", "Tool.read", "a", strings.Repeat("x", 32), strings.Repeat("x", 33), strings.Repeat("x", 33) + "y",
		"tool.which-has-a-very-long-name/one", "tool.which-has-a-very-long-name/two", "=cmd", "*", "tool.*", strings.Repeat("ä", 12), strings.Repeat("ä", 12) + "ö", strings.Repeat("語", 256),
	}
	mixedPayloads = []string{
		`null`, `"Hello World"`, `{"k": "Änderung"}`, `{"name":"a \"quote\" and \\ slash"}`, `[1,2,{"deep":["NEEDLE"]}]`, `{"needle":-1}`,
		`"\u006eeedle"`, `"line\nfeed"`, `{"a":"nee","b":"dle"}`, `12345`, `"tab	less"`, `"\ud83d\ude00 smile"`, "{\n \"pretty\":\r\n true}", `{"e\u0073caped":1}`, `-5`, `"=1+1"`,
		`""`, `{"":[{"":""}]}`, `"a\/b"`, `"\u0000nul"`, `{"n":[1.50e+300,1E-7,9007199254740991,-0.0]}`, strings.Repeat("[", 60) + `"deepest"` + strings.Repeat("]", 60),
		`"\u212a is no letter of ASCII"`, `"e\u0301"`, `{"\ud83d\udE00":["\\u0041"]}`, `"` + strings.Repeat(`\u0061`, 300) + `needle"`,
	}
)

// mix appends n records of all kinds in several requests, so that they have different times.
func (c caller) mix(t testing.TB, seed uint64, n int) *mixture {
	t.Helper()
	m := &mixture{caller: c}
	svid := func(agent string) string { return c.agent(t, agent) }
	one, two := svid("planner"), svid("runner")
	hop, _ := c.exchange(t, one, two)
	hops, _ := c.exchange(t, hop, svid("helper"))
	tokens := []string{"", "", "", one, hop, hops}
	actors := map[string]string{hop: `"runner"`, hops: `"helper"`} // who alone may use them
	random := rand.New(rand.NewPCG(seed, 1))
	for left := n; left > 0; {
		var items []string
		for range min(left, 1+random.IntN(90)) {
			agent, _ := json.Marshal(mixedAgents[random.IntN(len(mixedAgents))])
			action, _ := json.Marshal(mixedActions[random.IntN(len(mixedActions))])
			token := tokens[random.IntN(len(tokens))]
			if actor, is := actors[token]; is {
				agent = []byte(actor)
			}
			item := fmt.Sprintf(`{"agentId":%s,"actionType":%s,"payload":%s`, agent, action, strings.ReplaceAll(mixedPayloads[random.IntN(len(mixedPayloads))], "\t", " "))
			if token != "" {
				item += `,"delegation":"` + token + `"`
			}
			items = append(items, item+"}")
		}
		left -= len(items)
		c.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(items, ",")+`]}`).status(201)
		if random.IntN(2) == 0 {
			c.do(t, "POST /v1/attest", `{"agentId":"deploy-bot","actionType":"tool.read","payload":"between"}`).status(201)
		}
	}
	m.read(t, "")
	return m
}

// read reads the whole log.
func (m *mixture) read(t testing.TB, query string) {
	t.Helper()
	m.records = nil
	for _, raw := range m.lines(t, "GET /v1/chain"+query) {
		m.records = append(m.records, decodeMixed(t, raw))
	}
}

func (c caller) lines(t testing.TB, call string) (records []json.RawMessage) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(c.do(t, call, "", "Accept: application/x-ndjson").status(200).sets("Content-Type: application/x-ndjson").raw))
	for dec.More() {
		var raw json.RawMessage
		must.OK(t, dec.Decode(&raw))
		records = append(records, raw)
	}
	return records
}

func decodeMixed(t testing.TB, raw json.RawMessage) (m mixed) {
	t.Helper()
	must.OK(t, json.Unmarshal(raw, &m))
	m.raw = raw
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			m.text = append(m.text, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				m.text = append(m.text, name)
				walk(e)
			}
		}
	}
	var v any
	must.OK(t, json.Unmarshal(m.Payload.Payload, &v))
	walk(v)
	return m
}

// matches applies a filter to a record in the simplest form of the reference's description.
func (m *mixed) matches(q url.Values) bool {
	if agent := q.Get("agent"); agent != "" && m.Payload.AgentID != agent {
		return false
	}
	if action := q.Get("action"); strings.HasSuffix(action, "*") {
		if !strings.HasPrefix(m.Payload.ActionType, strings.TrimSuffix(action, "*")) {
			return false
		}
	} else if action != "" && m.Payload.ActionType != action {
		return false
	}
	if by := q.Get("delegatedBy"); by != "" {
		if m.Delegation == nil {
			return false
		}
		powers := append([]string{m.Delegation.Subject}, m.Delegation.Chain[:len(m.Delegation.Chain)-1]...)
		if by != "*" && !slices.Contains(powers, by) {
			return false
		}
	}
	if hash := q.Get("hash"); hash != "" && m.Hash != strings.ToLower(hash) {
		return false
	}
	if since := q.Get("since"); since != "" && m.Timestamp < since {
		return false
	}
	if until := q.Get("until"); until != "" && m.Timestamp >= until {
		return false
	}
	ascii := func(s string) string {
		return strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}, s)
	}
	if !m.hasMembers(q.Get("payload")) {
		return false
	}
	text := q.Get("q")
	return text == "" || slices.ContainsFunc(m.text, func(s string) bool { return strings.Contains(ascii(s), ascii(text)) })
}

// want returns the indices of the matching records in the requested order.
func (m *mixture) want(q url.Values) (indexes []int) {
	for i := range m.records {
		if m.records[i].matches(q) {
			indexes = append(indexes, i)
		}
	}
	if q.Get("order") != "oldest" {
		slices.Reverse(indexes)
	}
	return indexes
}

type foundPage struct {
	Records []struct{ Index int }
	Size    int
	Read    struct{ From, To int }
	Next    string
}

// pages reads all pages of a search, and compares their statements about the records that they have
// read.
func (c caller) pages(t testing.TB, q url.Values) (indexes []int) {
	t.Helper()
	q = cloned(q)
	from, to := -1, -1
	for n := 0; ; n++ {
		var page foundPage
		c.do(t, "GET /v1/records?"+q.Encode(), "").status(200).into(&page)
		for _, r := range page.Records {
			if r.Index < page.Read.From || r.Index >= page.Read.To {
				t.Fatalf("%v: record %d is not of what was read, [%d, %d)", q, r.Index, page.Read.From, page.Read.To)
			}
			indexes = append(indexes, r.Index)
		}
		if n > 0 && page.Read.To != from && page.Read.From != to {
			t.Fatalf("%v: [%d, %d) was read after [%d, %d)", q, page.Read.From, page.Read.To, from, to)
		}
		if from, to = page.Read.From, page.Read.To; page.Next == "" {
			return indexes
		}
		q.Set("cursor", page.Next)
	}
}

func cloned(q url.Values) url.Values {
	c := url.Values{}
	for name, values := range q {
		c[name] = slices.Clone(values)
	}
	return c
}

const spiffe = "spiffe://attestd.local/company/acme/agent/"

// questions are filters of all kinds, alone and combined.
func (m *mixture) questions(random *rand.Rand) url.Values {
	q := url.Values{}
	set := func(name string, values ...string) {
		if random.IntN(3) == 0 {
			q.Set(name, values[random.IntN(len(values))])
		}
	}
	set("agent", append([]string{"nobody", "Deploy-bot"}, mixedAgents...)...)
	set("action", append([]string{"tool.*", "*", "tool.which-has-a-very-long-name/*", strings.Repeat("x", 33) + "*", strings.Repeat("x", 40) + "*", "nothing", "t*", strings.Repeat("ä", 12) + "*", strings.Repeat("語", 8) + "*", strings.Repeat("語", 9) + "*", strings.Repeat("語", 256) + "*"}, mixedActions...)...)
	set("delegatedBy", "*", spiffe+"planner", spiffe+"runner", spiffe+"helper", spiffe+"nobody", "spiffe://attestd.local/company/acme")
	set("q", "needle", "NEEDLE", "hello world", "änderung", "Änderung", `"quote" and \ slash`, "line\nfeed", "😀", "escaped", "pretty", "12345", "eedl", `":`, "nothing at all",
		"/B", `\/`, "\x00N", "DEEPEST", "k is no", "\u212a", "\u00e9", "e\u0301", "\\u0041", strings.Repeat("a", 250)+"nee", "\xf0\x9f\x98\x80 S")
	if set("payload", slices.Collect(maps.Keys(mixedMembers))...); q.Has("payload") && random.IntN(2) == 0 {
		q.Del("q")
	}
	set("order", "oldest", "newest")
	if len(m.records) > 0 {
		if random.IntN(6) == 0 {
			q.Set("hash", strings.ToUpper(m.records[random.IntN(len(m.records))].Hash))
		}
		time := func() string { return m.records[random.IntN(len(m.records))].Timestamp }
		set("since", time(), time(), "2020-01-01T00:00:00.000Z")
		set("until", time(), time(), "2099-01-01T00:00:00.000Z")
	}
	if q.Has("since") && q.Has("until") && q.Get("since") > q.Get("until") {
		q.Del("since")
	}
	return q
}

// For every filter the pages agree with the result of a slow, simple reader, with summaries and
// without; the histogram agrees too.
func TestRecordsAreThoseThatMatch(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 1, 900)
	random := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		q := m.questions(random)
		want := m.want(q)
		q.Set("limit", strconv.Itoa([]int{1000, 1 + random.IntN(400)}[random.IntN(2)]))
		if len(want) < 20 {
			q.Set("limit", strconv.Itoa(1+random.IntN(10)))
		}
		if got := m.pages(t, q); !slices.Equal(got, want) {
			t.Errorf("%v: %d records %v, want %d: %v", q, len(got), got, len(want), want)
		}
		m.countsAs(t, q, want)
	}
}

// countsAs compares the histogram with the indices of the matching records.
func (m *mixture) countsAs(t testing.TB, q url.Values, want []int) {
	t.Helper()
	if q.Has("q") || q.Has("payload") || q.Has("hash") {
		return
	}
	h := cloned(q)
	for _, name := range []string{"limit", "order"} {
		h.Del(name)
	}
	buckets := 1 + len(want)%200
	h.Set("buckets", strconv.Itoa(buckets))
	var got struct {
		Since, Until string
		Total, Size  int
		Buckets      []struct {
			Since string
			Count int
		}
	}
	m.do(t, "GET /v1/records/histogram?"+h.Encode(), "").status(200).into(&got)
	if got.Total != len(want) || got.Size != len(m.records) {
		t.Errorf("%v: %d of %d records are counted, want %d of %d", h, got.Total, got.Size, len(want), len(m.records))
	}
	sum := 0
	for i, b := range got.Buckets {
		end := got.Until
		if i+1 < len(got.Buckets) {
			end = got.Buckets[i+1].Since
		}
		n := 0
		for _, index := range want {
			if at := m.records[index].Timestamp; b.Since <= at && at < end {
				n++
			}
		}
		if sum += n; n != b.Count {
			t.Errorf("%v: %d records from %s to %s, want %d", h, b.Count, b.Since, end, n)
		}
	}
	if len(got.Buckets) > buckets || sum != got.Total {
		t.Errorf("%v: %d buckets of %d records in all, want at most %d buckets of %d records", h, len(got.Buckets), sum, buckets, got.Total)
	}
}

// NDJSON has all matches in the bytes of GET /v1/chain, CSV has the same in a table, and the stream
// has them as events with its progress.
func TestRecordsInOtherForms(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 3, 300)
	q := url.Values{"agent": {`a "quoted" agent`}, "order": {"oldest"}}
	want := m.want(q)
	lines := m.lines(t, "GET /v1/records?"+q.Encode())
	for i, index := range want {
		if i >= len(lines) || !bytes.Equal(lines[i], m.records[index].raw) {
			t.Fatalf("line %d is not record %d as GET /v1/chain gives it", i, index)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
	all := m.do(t, "GET /v1/records?order=oldest", "", "Accept: application/x-ndjson").raw
	if !bytes.Equal(all, m.do(t, "GET /v1/chain", "", "Accept: application/x-ndjson").raw) {
		t.Error("all records, oldest first, are not what GET /v1/chain gives")
	}
	if n := bytes.Count(all, []byte("\n")); n != len(m.records) || !bytes.Contains(all, []byte(`"payload":{  "pretty":   true}`)) {
		t.Errorf("%d lines of %d records, or white space is not what it was", n, len(m.records))
	}
	events := m.events(t, "GET /v1/records?"+q.Encode()+"&limit=1000")
	if events[len(events)-1].name != "end" || events[len(events)-1].data != fmt.Sprintf(`{"read":%d,"found":%d}`, len(m.records), len(want)) {
		t.Errorf("the stream ends with %v", events[len(events)-1])
	}
	if !slices.ContainsFunc(events, func(e sentEvent) bool { return e.name == "progress" && strings.Contains(e.data, `"size":`) }) {
		t.Error("the stream never says how far it has read")
	}
	events = slices.DeleteFunc(events, func(e sentEvent) bool { return e.name != "record" })
	for i, index := range want {
		if i >= len(events) || decodeMixed(t, json.RawMessage(events[i].data)).Index != index {
			t.Fatalf("event %d is not record %d", i, index)
		}
	}
	// If a limit is reached, there are more matches, and the cursor leads to them.
	events = m.events(t, "GET /v1/records?"+q.Encode()+"&limit=3")
	var end struct{ Next string }
	must.OK(t, json.Unmarshal([]byte(events[len(events)-1].data), &end))
	q.Set("cursor", end.Next)
	if got := m.pages(t, q); !slices.Equal(got, want[3:]) {
		t.Errorf("after the stream: %v, want %v", got, want[3:])
	}
}

type sentEvent struct{ name, data string }

// events reads a stream of events as the HTML standard describes.
func (c caller) events(t testing.TB, call string) (events []sentEvent) {
	t.Helper()
	var e sentEvent
	raw := string(c.do(t, call, "", "Accept: text/event-stream").status(200).sets("Content-Type: text/event-stream").raw)
	for line := range strings.SplitSeq(raw, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name != "":
			events, e = append(events, e), sentEvent{}
		case name == "event":
			e.name = value
		case name == "data" && e.data != "":
			e.data += "\n" + value
		case name == "data":
			e.data = value
		}
	}
	return events
}

// A spreadsheet reads no cell as a formula, and a reader who removes the apostrophes has the
// original text.
func TestRecordsAsATable(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/attest", `{"agentId":"=HYPERLINK(\"http://x\",\"y\")","actionType":"+1","payload":"a,b"}`).status(201)
	token := acme.agent(t, "planner")
	acme.do(t, "POST /v1/attest", `{"agentId":"@bot","actionType":"two\nlines","payload":-5,"delegation":"`+token+`"}`).status(201)
	table := string(acme.do(t, "GET /v1/records?order=oldest", "", "Accept: text/csv").status(200).sets("Content-Type: text/csv; charset=utf-8; header=present").raw)
	rows := strings.Split(strings.TrimSuffix(table, "\r\n"), "\r\n")
	if len(rows) != 3 || rows[0] != "index,timestamp,agentId,actionType,delegatedBy,tokenId,hash,signature,payload" {
		t.Fatalf("the table is\n%s", table)
	}
	if cells := strings.SplitN(rows[1], ",", 3); cells[0] != "0" || !strings.HasPrefix(cells[2], `"'=HYPERLINK(""http://x"",""y"")",'+1,,,`) || !strings.HasSuffix(cells[2], `,"""a,b"""`) {
		t.Errorf("the first row is %s", rows[1])
	}
	if cells := strings.SplitN(rows[2], ",", 3); !strings.HasPrefix(cells[2], "'@bot,\"two\nlines\","+spiffe+"planner,") || !strings.HasSuffix(cells[2], ",'-5") {
		t.Errorf("the second row is %s", rows[2])
	}
}

// Wherever a search is interrupted, and whatever is appended meanwhile, its pages have the matches
// among the records that existed when it began.
func TestRecordsWhileOthersCome(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 11, 300)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for more := true; more; {
			m.attestMany(t, 7)
			select {
			case <-done:
				more = false
			default:
			}
		}
	}()
	random := rand.New(rand.NewPCG(12, 12))
	for range 10 {
		q := m.questions(random)
		want := m.want(q)
		q.Set("limit", strconv.Itoa(1+len(want)/(1+random.IntN(12))))
		got := slices.DeleteFunc(m.pages(t, q), func(i int) bool { return i >= len(m.records) })
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	close(done)
	<-stopped
}

// Records that are appended while pages are read do not shift the pages.
func TestPagesWhileRecordsCome(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 25)
	for _, order := range []string{"newest", "oldest"} {
		var got []int
		call, size := "GET /v1/records?limit=10&order="+order, 0
		for next := ""; ; {
			var page foundPage
			acme.do(t, call+next, "").status(200).into(&page)
			for _, r := range page.Records {
				got = append(got, r.Index)
			}
			if size == 0 {
				size = page.Size
			}
			if page.Size != size {
				t.Errorf("%s: the log had %d records, and has %d", order, size, page.Size)
			}
			acme.attestMany(t, 3)
			if page.Next == "" {
				break
			}
			next = "&cursor=" + page.Next
		}
		if order == "newest" {
			slices.Reverse(got)
		}
		for i := range got {
			if got[i] != i || len(got) != size {
				t.Fatalf("%s: %d records %v, want each of %d once", order, len(got), got, size)
			}
		}
	}
}

// A cursor is valid only for the filter and the log that it came with.
func TestCursorsAreBound(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.attestMany(t, 9)
	globex.attestMany(t, 9)
	next := acme.do(t, "GET /v1/records?agent=bot&limit=2", "").status(200).str("next")
	acme.do(t, "GET /v1/records?agent=bot&limit=7&cursor="+next, "").status(200)
	refused := func(as caller, query string) {
		t.Helper()
		as.do(t, "GET /v1/records?"+query, "").gets(400, `{"error":"Invalid query parameter: cursor must be the next of an answer to the same question"}`)
	}
	refused(globex, "agent=bot&cursor="+next)
	for _, query := range []string{"", "agent=other&", "agent=bot&q=x&", "agent=bot&payload=a=1&", "agent=bot&order=oldest&", "agent=bot&log=control&", "agent=bot&since=2020-01-01T00:00:00.000Z&", "agent=bot&action=*&", "agent=bot&hash=" + strings.Repeat("0", 64) + "&", "agent=bot&delegatedBy=*&"} {
		refused(acme, query+"cursor="+next)
	}
	for _, cursor := range []string{"x", next[:len(next)-1], next + "A", next + "=", strings.Replace(next, next[:1], "B", 1), "%0A" + next} {
		refused(acme, "agent=bot&cursor="+cursor)
	}
	// These are the defaults, written out.
	acme.do(t, "GET /v1/records?agent=bot&order=newest&cursor="+next, "").status(200)
}

// A filter that no record can match is refused with a reason.
func TestRecordsRefusals(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	bad := func(query, name string) row {
		return row{does: query, as: acme, call: "GET /v1/records?" + query, status: 400, gets: `{"error":"Invalid query parameter: ` + name + `…"}`}
	}
	unknown := func(query, name string) row {
		return row{does: query, as: acme, call: "GET /v1/records?" + query, status: 400, gets: `{"error":"Unknown query parameter \"` + name + `\"…"}`}
	}
	rows := []row{
		bad("order=up", "order"), bad("limit=0", "limit"), bad("limit=1001", "limit"), bad("since=yesterday", "since"), bad("until=2026-03-02", "until"),
		bad("since=2026-03-02T00:00:00.001Z&until=2026-03-02T00:00:00.000Z", "since"), bad("agent="+strings.Repeat("x", 257), "agent"), bad("q=%FF", "q"),
		bad("q="+strings.Repeat("x", 257), "q"), bad("action="+strings.Repeat("x", 258), "action"), bad("delegatedBy="+strings.Repeat("x", 2049), "delegatedBy"), bad("log=other", "log"),
		bad("payload=tool", "payload: after"), bad("payload=tool=", "payload: a value is missing"), bad("payload=a={}", "payload"), bad("payload=a=1e400", "payload: number 1e400"),
		bad("payload=a=1+b=2+c=3+d=4+e=5", "payload: it has more than 4 parts"), bad("payload=a=%FF", "payload"), bad("payload=a="+strings.Repeat("x", 1024), "payload"),
		bad("payload=a=1&payload=b=2", "payload is given more than once"), unknown("payload.tool=Bash", "payload.tool"),
		bad("hash=0", "hash"), bad("hash="+strings.Repeat("0", 66), "hash"), bad("hash="+strings.Repeat("g", 64), "hash"), unknown("agnet=bot", "agnet"), bad("agent=a&agent=b", "agent is given more than once"), bad("agent=%zz", "the query is malformed"),
		bad("agent=a;action=b", "the query is malformed"), unknown("Agent=a", "Agent"), bad("limit=1&limit=1", "limit is given"),
		{does: "members to count", as: acme, call: "GET /v1/records/histogram?payload=a=1", status: 400, gets: `{"error":"Unknown query parameter \"payload\"…"}`},
		{does: "a text to count", as: acme, call: "GET /v1/records/histogram?q=x", status: 400, gets: `{"error":"Unknown query parameter \"q\"…"}`},
		{does: "counts by another thing", as: acme, call: "GET /v1/records/histogram?by=tool", status: 400, gets: `{"error":"…by…"}`},
		{does: "counts by agent of an agent", as: acme, call: "GET /v1/records/histogram?by=agent&agent=a", status: 400, gets: `{"error":"…by=agent…"}`},
		{does: "counts by agent of the control log", as: acme, call: "GET /v1/records/histogram?by=agent&log=control", status: 400, gets: `{"error":"…by=agent…"}`},
		{does: "counts by action of an agent", as: acme, call: "GET /v1/records/histogram?by=action&agent=a", status: 400, gets: `{"error":"…by=action…"}`},
		{does: "nothing to count by action", as: acme, call: "GET /v1/records/histogram?by=action", status: 200, gets: `{"since":"<time>","until":"<time>","total":0,"size":0,"buckets":[],"actions":0,"topActions":[]}`},
		{does: "nothing to count by agent", as: acme, call: "GET /v1/records/histogram?by=agent", status: 200, gets: `{"since":"<time>","until":"<time>","total":0,"size":0,"buckets":[],"agents":0,"topAgents":[]}`},
		{does: "no bucket", as: acme, call: "GET /v1/records/histogram?buckets=0", status: 400, gets: `{"error":"…buckets…"}`},
		{does: "too many buckets", as: acme, call: "GET /v1/records/histogram?buckets=201", status: 400, gets: `{"error":"…buckets…"}`},
		{does: "a stranger", as: s.anyone(), call: "GET /v1/records", status: 401, gets: `{"error":"Unauthorized"}`},
		{does: "a stranger who counts", as: s.anyone(), call: "GET /v1/records/histogram", status: 401, gets: `{"error":"Unauthorized"}`},
		{does: "an empty log", as: acme, call: "GET /v1/records", status: 200, gets: `{"records":[],"size":0,"read":{"from":0,"to":0}}`},
		{does: "what is empty is not asked", as: acme, call: "GET /v1/records?agent=&action=&delegatedBy=&since=&until=&q=&payload=&order=&cursor=", status: 200, gets: `{"records":[],"size":0,"read":{"from":0,"to":0}}`},
		{does: "nothing to count", as: acme, call: "GET /v1/records/histogram", status: 200, gets: `{"since":"<time>","until":"<time>","total":0,"size":0,"buckets":[]}`},
	}
	table(t, rows)
}

// In the control log the service is the agent of every record.
func TestRecordsOfControl(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.passport(t, "bot", "")
	m := &mixture{caller: acme}
	m.read(t, "?log=control")
	for _, q := range []url.Values{{}, {"action": {"agent.*"}}, {"action": {"passport.issued"}, "agent": {"service"}}, {"agent": {"bot"}}, {"q": {"agent:bot"}}, {"order": {"oldest"}, "limit": {"1"}}} {
		q.Set("log", "control")
		want := m.want(q)
		if got := m.pages(t, q); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
		m.countsAs(t, q, want)
	}
}

// A missing or malformed record is never skipped silently.
func TestRecordsDamaged(t *testing.T) {
	t.Parallel()
	storetest.NotOnPostgres(t, "the file is changed by hand")
	for does, sql := range map[string]string{
		"missing":       `DROP TRIGGER record_no_delete; DELETE FROM record WHERE id = 1 << 40 | 5`,
		"no JSON":       `DROP TRIGGER record_no_update; UPDATE record SET payload = '{' WHERE id = 1 << 40 | 5`,
		"another form":  `DROP TRIGGER record_no_update; UPDATE record SET payload = '{"agentId":7}' WHERE id = 1 << 40 | 5`,
		"no delegation": `DROP TRIGGER record_no_update; UPDATE record SET delegation = '[]' WHERE id = 1 << 40 | 5`,
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			acme := s.company(t, "acme")
			acme.attestMany(t, 9)
			s.file(t, sql)
			for _, query := range []string{"?agent=bot", "?agent=other", "?q=nothing", "?order=oldest&action=x*", "?delegatedBy=*"} {
				acme.do(t, "GET /v1/records"+query, "").gets(500, `{"error":"Record 5 of the log is missing or damaged on disk; GET /v1/verify says what is wrong","code":"RECORD_DAMAGED","requestId":"<anything>"}`)
			}
			acme.do(t, "GET /v1/records?limit=2", "").status(200) // before the search reaches it
			acme.do(t, "GET /v1/records/histogram?agent=bot", "").status(500)
		})
	}
}

// The beginning of a period is found by the times of records. A record that is missing there is
// named too.
func TestPeriodWithDamagedRecords(t *testing.T) {
	t.Parallel()
	storetest.NotOnPostgres(t, "the file is changed by hand")
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	s.file(t, `DROP TRIGGER record_no_delete; DELETE FROM record WHERE id = 1 << 40 | 1`)
	const damaged = `{"error":"Record 1 of the log is missing or damaged on disk; GET /v1/verify says what is wrong","code":"RECORD_DAMAGED","requestId":"<anything>"}`
	acme.do(t, "GET /v1/records?since=2020-01-01T00:00:00.000Z", "").gets(500, damaged)
	acme.do(t, "GET /v1/records/histogram?since=2020-01-01T00:00:00.000Z", "").gets(500, damaged)
}

// A restart does not change the results.
func TestRecordsAfterARestart(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.company(t, "acme").mix(t, 5, 400)
	s.stop()
	again := startOn(t, s.path, cred.Domain{})
	m.service = again
	q := url.Values{"agent": {"git-bot"}, "action": {"tool*"}}
	if got, want := m.pages(t, q), m.want(q); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The number of concurrent searches is limited. Long ones are refused first, so that pages can
// still be fetched.
func TestSearchesAreBounded(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Budgets.Searches = limit.Size{Most: 5, Share: 5} })
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	full := `{"error":"Service Unavailable: too many searches are under way; try again later","code":"NOT_DONE","requestId":"<anything>"}`
	acme.do(t, "GET /v1/records?q=x", "").gets(503, full).sets("Retry-After: 1")
	for _, form := range []string{"application/x-ndjson", "text/csv"} {
		acme.do(t, "GET /v1/records", "", "Accept: "+form).gets(503, full)
		acme.do(t, "HEAD /v1/records", "", "Accept: "+form).status(200)
		acme.do(t, "GET /v1/records?limit=2", "", "Accept: "+form).status(200)
	}
	for range 9 { // room that was used is released
		acme.do(t, "GET /v1/records", "").status(200)
		acme.do(t, "GET /v1/records/histogram", "").status(200)
	}
	none := start(t, func(c *server.Config) { c.Budgets.Searches = limit.Size{Most: 1} })
	acme = none.company(t, "acme")
	acme.do(t, "GET /v1/records/histogram", "").gets(503, full)
}

// A long search ends when its client leaves.
func TestSearchEndsWhenClientDisconnects(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.Budgets.Searches = limit.Size{Most: limit.LongSearch, Share: limit.LongSearch}
	})
	acme := s.company(t, "acme")
	acme.mix(t, 9, 2000)
	for range 20 { // each would be refused if the one before it were still running
		ctx, cancel := context.WithCancel(t.Context())
		req := acme.request(t, "GET /v1/records?q=nothing", "", "Accept: text/event-stream").WithContext(ctx)
		res, err := s.client.Do(req)
		must.OK(t, err)
		cancel()
		res.Body.Close()
		for res.StatusCode = 503; res.StatusCode == 503; { // until the room is given back
			res, err = s.client.Do(acme.request(t, "GET /v1/records?q=nothing&limit=1", ""))
			must.OK(t, err)
			res.Body.Close()
		}
	}
}
