package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// mixedMembers are conditions on the payloads of mixtures: path and value of each part, which are
// compared in Go's own form.
var mixedMembers = map[string][]struct {
	path  []any
	value any
}{
	`k=Änderung`:                      {{[]any{"k"}, "Änderung"}},
	`needle=-1`:                       {{[]any{"needle"}, -1.0}},
	`needle="-1"`:                     {{[]any{"needle"}, "-1"}},
	`2.deep.0=NEEDLE 1=2`:             {{[]any{2, "deep", 0}, "NEEDLE"}, {[]any{1}, 2.0}},
	`2.deep.0=needle`:                 {{[]any{2, "deep", 0}, "needle"}},
	`escaped=1.0`:                     {{[]any{"escaped"}, 1.0}},
	`"e\u0073caped"=1`:                {{[]any{"escaped"}, 1.0}},
	`n.0=15e299 n.3=0`:                {{[]any{"n", 0}, 1.5e300}, {[]any{"n", 3}, 0.0}},
	`pretty=true`:                     {{[]any{"pretty"}, true}},
	`a=nee b=dle`:                     {{[]any{"a"}, "nee"}, {[]any{"b"}, "dle"}},
	`a=nee b=nee`:                     {{[]any{"a"}, "nee"}, {[]any{"b"}, "nee"}},
	`"".0.""=""`:                      {{[]any{"", 0, ""}, ""}},
	`name="a \"quote\" and \\ slash"`: {{[]any{"name"}, `a "quote" and \ slash`}},
	`"😀".0="\\u0041"`:                 {{[]any{"\U0001f600", 0}, `\u0041`}},
}

// hasMembers applies a condition on members in the simplest form of the reference's description.
func (m *mixed) hasMembers(condition string) bool {
	for _, part := range mixedMembers[condition] {
		var at any
		if json.Unmarshal(m.Payload.Payload, &at) != nil {
			return false
		}
		for _, name := range part.path {
			object, _ := at.(map[string]any)
			array, _ := at.([]any)
			at = []int{} // equals nothing
			if i, is := name.(int); is && i < len(array) {
				at = array[i]
			} else if text, is := name.(string); is {
				if value, has := object[text]; has {
					at = value
				}
			}
		}
		if !reflect.DeepEqual(at, part.value) {
			return false
		}
	}
	return true
}

// A filter on a payload member works alone and with the other filters, in all forms of the answer
// and in either order, and finds only records of the calling company.
func TestRecordsWithMembers(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	for i := range 6 {
		for _, c := range []caller{acme, globex} {
			c.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot-%d","actionType":"tool.called","payload":{"tool":"Bash","input":{"command":"ls -l","tries":%d}}}`, i%2, i)).status(201)
		}
		acme.do(t, "POST /v1/attest", `{"agentId":"bot-0","actionType":"tool.called","payload":{"tool":"Read","text":"Bash"}}`).status(201)
	}
	for query, want := range map[string][]int{
		`payload=tool=Bash`:                                  {10, 8, 6, 4, 2, 0},
		`payload=tool=Bash&order=oldest`:                     {0, 2, 4, 6, 8, 10},
		`payload=tool=Bash&agent=bot-0`:                      {8, 4, 0},
		`payload=tool=Bash&action=other`:                     nil,
		`payload=tool=Bash&q=LS`:                             {10, 8, 6, 4, 2, 0},
		`payload=tool=Read&q=LS`:                             nil,
		`payload=text=Bash&agent=bot-1`:                      nil,
		`payload=input.command="ls+-l"+input.tries=3.0`:      {6},
		`payload=input.tries=3+tool=Read`:                    nil,
		`payload=tool=Bash&since=2099-01-01T00:00:00.000Z`:   nil,
		`payload=agentId=bot-0`:                              nil, // it begins at what was sent
		`payload=tool=Bash&log=control`:                      nil,
		`payload=input.command="ls+-l"&limit=1&order=oldest`: {0, 2, 4, 6, 8, 10},
		`payload=input.command="ls+-l"&limit=4&agent=bot-0`:  {8, 4, 0},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := acme.pages(t, q); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		q.Del("limit")
		var streamed []int
		for _, e := range acme.events(t, "GET /v1/records?"+q.Encode()) {
			if e.name == "record" {
				streamed = append(streamed, decodeMixed(t, json.RawMessage(e.data)).Index)
			}
		}
		if lines := acme.lines(t, "GET /v1/records?"+q.Encode()); !slices.Equal(streamed, want) || len(lines) != len(want) {
			t.Errorf("%s: %v in the stream and %d lines, want %v", query, streamed, len(lines), want)
		}
		table := string(acme.do(t, "GET /v1/records?"+q.Encode(), "", "Accept: text/csv").status(200).raw)
		if n := strings.Count(table, "\r\n"); n != len(want)+1 {
			t.Errorf("%s: the table has %d rows, want %d", query, n-1, len(want))
		}
	}
}

// A page of a search for members ends after as many records as one for a text, with a cursor to the
// rest, which is bound to the condition in whatever spelling.
func TestMembersCursor(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	var items []string
	for range 60 {
		items = append(items, `{"agentId":"bot","actionType":"bulk","payload":{"a":"`+strings.Repeat("x", 1<<16)+`"}}`)
	}
	for range 20 { // 80 MiB
		acme.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(items, ",")+`]}`).status(201)
	}
	var page foundPage
	acme.do(t, "GET /v1/records?payload=a=1", "").status(200).into(&page)
	if read := page.Read.To - page.Read.From; len(page.Records) != 0 || page.Next == "" || read < 900 || read > 1100 {
		t.Errorf("a page has read %d records and has the cursor %q", read, page.Next)
	}
	acme.do(t, "GET /v1/records?payload="+url.QueryEscape(`"a"=1.0`)+"&cursor="+page.Next, "").status(200)
	for _, query := range []string{"payload=a=2", "payload=b=1", `payload=a="1"`, "q=a=1", ""} {
		acme.do(t, "GET /v1/records?"+query+"&cursor="+page.Next, "").status(400)
	}
}
