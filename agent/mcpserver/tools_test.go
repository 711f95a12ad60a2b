package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attestd/sdk/attestd"
)

// A search passes over records whose payload was pruned, of which nothing says whose they are, and
// says how many they were.
func TestSearchCountsPrunedRecords(t *testing.T) {
	t.Parallel()
	const seal = `"hash":"00","signature":"AA"}`
	chain := strings.Join([]string{
		`{"index":0,"timestamp":"2026-03-02T09:05:04.218Z","payload":null,"pruned":true,` + seal,
		`{"index":1,"timestamp":"2026-03-02T09:05:04.218Z","payload":null,"pruned":true,` + seal,
		`{"index":2,"timestamp":"2026-03-02T09:05:04.218Z","payload":{"agentId":"bot","companyId":"acme","actionType":"a","payload":1},` + seal,
	}, "\n") + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/logs" {
			_, _ = w.Write([]byte(`{"logs":[{"log":"actions","size":3}]}`))
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write([]byte(chain))
	}))
	t.Cleanup(server.Close)
	client, err := attestd.New(attestd.Config{URL: server.URL, Credential: attestd.Key("svc_x")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	answer, err := tools{client: client}.searchRecords(t.Context(), searchInput{AgentID: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	if found := answer.(foundRecords); found.Pruned != 2 || len(found.Records) != 1 || found.Records[0].Index != 2 {
		t.Errorf("%+v", found)
	}
}
