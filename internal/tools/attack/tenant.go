package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"attestd/internal/harness"
)

// tenant is a company with a unique word in every field.
type tenant struct {
	*harness.Client
	id, key   string
	token     string    // OAuth
	ends      time.Time // of the token that has expired then
	deleted   string    // a deleted key
	orphan    string    // a token of a deleted client; "" if clients cannot be deleted
	expired   string    // a token that ends with its client
	agents    agentCredentials
	names     values // of existing objects
	spare     values // of objects that may be deleted
	seen      []byte // all responses to it
	published string // what anybody may see of it
}

// ask sends a request with the tenant's key and stores the response.
func (t *tenant) ask(status int, method, path, body string, dest any, header ...string) error {
	a, err := t.Do(harness.Request{Method: method, Path: path, Key: t.key, Header: header, Body: body})
	if err != nil {
		return err
	}
	t.seen = append(append(t.seen, a.Body...), '\n')
	if a.Status != status {
		return fmt.Errorf("%s %s answers %d, not %d: %.300s", method, path, a.Status, status, a.Body)
	}
	if dest == nil {
		return nil
	}
	return json.Unmarshal(a.Body, dest)
}

// word returns a canary: finding it elsewhere means a leak.
func (t *tenant) word(field string) string { return "canary-of-" + t.id + "-in-" + field }

// newTenant registers a company and fills it. clients reports whether OAuth clients can be deleted.
func newTenant(addr, id string, clients bool) (*tenant, error) {
	t := &tenant{Client: &harness.Client{Addr: addr}, id: id, names: values{}, spare: values{}}
	var err error
	do := func(status int, method, path, body string, dest any) {
		if err == nil {
			err = t.ask(status, method, path, body, dest)
		}
	}
	var company struct{ APIKey string }
	do(201, "POST", "/v1/companies", fmt.Sprintf(`{"companyId":%q,"metadata":{"note":%q}}`, id, t.word("company")),
		&company)
	t.key = company.APIKey
	if err == nil { // which makes the company's token keys
		var set harness.Answer
		set, err = t.Do(harness.Request{Method: "GET", Path: "/o/" + id + "/jwks"})
		t.published = string(set.Body)
	}

	var keys [3]struct{ Key string }
	for i := range keys {
		do(201, "POST", "/v1/keys", fmt.Sprintf(`{"label":%q}`, t.word("label")), &keys[i])
	}
	t.names["key"], t.spare["key"], t.deleted = keys[0].Key, keys[1].Key, keys[2].Key
	// gone uses a credential before and after it is deleted, which no cache may ignore.
	gone := func(credential, path string) {
		own := t.key
		t.key = credential
		do(200, "GET", "/v1/company", "", nil)
		t.key = own
		do(200, "DELETE", path, "", nil)
		t.key = credential
		do(401, "GET", "/v1/company", "", nil)
		t.key = own
	}
	gone(t.deleted, "/v1/keys/"+t.deleted)

	type client struct{ ClientID, ClientSecret string }
	token := func(c client) string {
		var made struct {
			AccessToken string `json:"access_token"`
		}
		do(200, "POST", "/v1/oauth/token", fmt.Sprintf(`{"grant_type":"client_credentials","client_id":%q,"client_secret":%q}`, c.ClientID, c.ClientSecret), &made)
		return made.AccessToken
	}
	var made [3]client
	for i := range made {
		do(201, "POST", "/v1/oauth/clients", "", &made[i])
	}
	var brief client
	t.ends = time.Now().Add(2 * time.Second)
	do(201, "POST", "/v1/oauth/clients", fmt.Sprintf(`{"expiresAt":%q}`, t.ends.UTC().Format("2006-01-02T15:04:05.000Z")), &brief)
	t.expired = token(brief)
	t.token = token(made[0])
	t.names["clientId"], t.names["client_id"], t.spare["clientId"] = made[0].ClientID, made[0].ClientID, made[1].ClientID
	if clients {
		t.orphan = token(made[2])
		gone(t.orphan, "/v1/oauth/clients/"+made[2].ClientID)
	}

	var svid struct{ SVID string }
	for _, agent := range []string{"spare-bot", "deploy-bot", t.word("agent")} {
		do(201, "POST", "/v1/agents/register",
			fmt.Sprintf(`{"agentId":%q,"metadata":{"note":%q}}`, agent, t.word("metadata")), &svid)
	}
	t.spare["agentId"] = "spare-bot"
	t.names["agentId"], t.names["subject_token"], t.names["actor_token"] = "deploy-bot", svid.SVID, svid.SVID

	var delegation struct{ Token string }
	delegate := func(agent string) {
		do(201, "POST", "/v1/token-exchange", fmt.Sprintf(`{"agentId":%q,"actingOn":"acme","scope":%q}`, agent, t.word("scope")), &delegation)
	}
	delegate("deploy-bot")
	t.names["delegation"] = delegation.Token
	do(201, "POST", "/v1/agents/register", fmt.Sprintf(`{"agentId":%q}`, t.word("attest-agent")), nil)
	delegate(t.word("attest-agent")) // a delegation is its actor's alone
	for i := range 5 {
		do(201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":{%q:%q,"n":%d},"delegation":%q}`,
			t.word("attest-agent"), t.word("action"), t.word("member"), t.word("payload"), i, delegation.Token), nil)
	}
	passport := func() (token, jti string) {
		var issued struct{ Passport string }
		do(201, "POST", "/v1/agents/deploy-bot/passport", `{"scopes":["tool:*","tool:`+t.word("scope")+`"]}`, &issued)
		var read struct{ Claims struct{ JTI string } }
		do(200, "POST", "/v1/passport/verify", `{"passport":"`+issued.Passport+`"}`, &read)
		return issued.Passport, read.Claims.JTI
	}
	t.names["passport"], t.names["jti"] = passport()
	t.names["Service-Passport"], _ = passport()
	_, t.spare["jti"] = passport()
	_, revoked := passport()
	do(200, "POST", "/v1/passports/"+revoked+"/revoke", `{"reason":"`+t.word("reason")+`"}`, nil)
	t.names["companyId"], t.names["actingOn"], t.names["index"] = "acme", "acme", "0"
	t.names["attest"] = "any" // another policy would refuse what follows
	var logs struct{ Logs []struct{ LogID string } }
	if do(200, "GET", "/v1/logs", "", &logs); len(logs.Logs) > 0 {
		t.names["logId"] = logs.Logs[0].LogID
	}
	var hooks [2]struct{ WebhookID, Secret string }
	for i := range hooks {
		do(201, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":"https://hooks.example.invalid/","description":%q}`,
			t.word("webhook")), &hooks[i])
		do(200, "POST", "/v1/webhooks/"+hooks[i].WebhookID+"/disable", "", nil)
	}
	t.names["webhookId"], t.spare["webhookId"] = hooks[0].WebhookID, hooks[1].WebhookID
	var federations [2]struct{ Name string }
	for i := range federations {
		do(201, "POST", "/v1/federation", fmt.Sprintf(`{"name":%q,"issuer":"https://ci.example.invalid","audience":%q,"rules":[{"match":{"sub":"s"},"agentId":"deploy-bot"}]}`,
			t.word(fmt.Sprint("federation-", i)), t.word(fmt.Sprint("audience-", i))), &federations[i])
	}
	t.names["name"], t.spare["name"] = federations[0].Name, federations[1].Name
	t.names["path"], t.names["from"], t.names["to"] = "0/000.p/1", "1", "2"
	for _, path := range []string{"/v1/verify", "/v1/proof/0", "/v1/ocsp/" + revoked, "/v1/agents/deploy-bot/svid"} {
		do(200, "GET", path, "", nil)
	}
	if err == nil {
		err = t.fillAgents()
	}
	if err == nil {
		_, err = t.state()
	}
	return t, err
}

// differences names what the tenant reads otherwise than before.
func differences(before, after map[string]string) (paths []string) {
	for path := range after {
		if before[path] != after[path] {
			paths = append(paths, fmt.Sprintf("%s: %.300s, before %.300s", path, after[path], before[path]))
		}
	}
	return paths
}

// fetched is how the last fetch of an issuer's keys went. Whoever shows a token that names the
// issuer may have them fetched.
var fetched = regexp.MustCompile(`,"keys":\{"count":[^{}]*\}`)

// state returns everything that the tenant can read about itself, by path.
func (t *tenant) state() (map[string]string, error) {
	all := map[string]string{}
	for _, path := range []string{"/v1/company", "/v1/agents", "/v1/keys", "/v1/oauth/clients", "/v1/webhooks", "/v1/federation",
		"/v1/chain", "/v1/chain?log=control", "/v1/records", "/v1/passports", "/v1/passports/revoked",
		"/v1/agents/deploy-bot/keys", "/v1/sessions"} {
		a, err := t.Do(harness.Request{Method: "GET", Path: path, Key: t.key})
		if err != nil {
			return nil, err
		}
		if a.Status != http.StatusOK {
			return nil, fmt.Errorf("GET %s answers %d: %.300s", path, a.Status, a.Body)
		}
		all[path] = fetched.ReplaceAllString(string(a.Body), "")
		t.seen = append(append(t.seen, a.Body...), '\n')
	}
	return all, nil
}

// secrets returns the texts in responses to this tenant that nobody else may see: all but short
// ones that are not public.
func (t *tenant) secrets(public string) []string {
	found := map[string]bool{}
	var list []string
	for lines := json.NewDecoder(strings.NewReader(string(t.seen))); lines.More(); {
		var v any
		if lines.Decode(&v) != nil {
			break
		}
		texts(v, func(s string) {
			if len(s) >= 16 && !found[s] && !strings.Contains(public, s) {
				found[s] = true
				list = append(list, s)
			}
		})
	}
	return list
}

func texts(v any, yield func(string)) {
	switch v := v.(type) {
	case string:
		yield(v)
	case []any:
		for _, e := range v {
			texts(e, yield)
		}
	case map[string]any:
		for name, e := range v {
			yield(name)
			texts(e, yield)
		}
	}
}
