package interop

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"attestd/internal/must"
)

// The official Go library of Standard Webhooks accepts a message as sent, and no altered one.
func TestStandardWebhooks(t *testing.T) {
	t.Parallel()
	type message struct {
		header http.Header
		body   []byte
	}
	came := make(chan message, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		came <- message{r.Header, body}
	}))
	t.Cleanup(endpoint.Close)
	base, _ := serve(t, filepath.Join(t.TempDir(), "attestd.db"), "--webhooks-allow-private")
	post := func(key, path, body string, into any) {
		t.Helper()
		request, err := http.NewRequest("POST", base+path, bytes.NewReader([]byte(body)))
		must.OK(t, err)
		request.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(request)
		must.OK(t, err)
		defer answer.Body.Close()
		must.OK(t, json.NewDecoder(answer.Body).Decode(into))
	}
	var company struct{ APIKey string }
	post("", "/v1/companies", `{"companyId":"acme"}`, &company)
	var made struct{ Secret, WebhookID string }
	post(company.APIKey, "/v1/webhooks", `{"url":"`+endpoint.URL+`"}`, &made)
	secrets, seen := []string{made.Secret}, map[string]bool{}
	next := func() message {
		t.Helper()
		select {
		case m := <-came:
			return m
		case <-time.After(patience):
			t.Fatal("nothing comes")
			return message{}
		}
	}
	for range 2 {
		var record struct{ Hash string }
		post(company.APIKey, "/v1/attest", `{"agentId":"bot","actionType":"x","payload":{"a":1}}`, &record)
		m := next()
		for seen[m.header.Get("Webhook-Id")] { // an aborted message is sent again
			m = next()
		}
		seen[m.header.Get("Webhook-Id")] = true
		for _, secret := range secrets {
			hook, err := standardwebhooks.NewWebhook(secret)
			must.OK(t, err)
			if err := hook.Verify(m.body, m.header); err != nil {
				t.Errorf("a message does not verify: %v", err)
			}
			if hook.Verify(append(m.body, ' '), m.header) == nil {
				t.Error("another body verifies")
			}
		}
		var sent struct{ Data struct{ Hash string } }
		must.OK(t, json.Unmarshal(m.body, &sent))
		if sent.Data.Hash != record.Hash || record.Hash == "" {
			t.Errorf("a message about %s, and the record is %s", sent.Data.Hash, record.Hash)
		}
		post(company.APIKey, "/v1/webhooks/"+made.WebhookID+"/rotate-secret", "", &made)
		secrets = append(secrets, made.Secret)
	}
}
