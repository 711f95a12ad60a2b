package attack

import (
	"fmt"
	"net/http"

	"attestd/internal/harness"
)

// tenant is a company with a valid token of each kind.
type tenant struct {
	*harness.Client
	key                        string
	svid, delegation, passport string
}

// ask sends a request with the tenant's key.
func (t *tenant) ask(status int, method, path, body string, dest any) error {
	return t.Call(status, harness.Request{Method: method, Path: path, Key: t.key, Body: body}, dest)
}

// newTenant registers a company and fills it.
func newTenant(addr, id string) (t *tenant, err error) {
	t = &tenant{Client: &harness.Client{Addr: addr}}
	if t.key, err = t.Register(id); err != nil {
		return nil, err
	}
	do := func(status int, method, path, body string, dest any) {
		if err == nil {
			err = t.ask(status, method, path, body, dest)
		}
	}
	var svid struct{ SVID string }
	do(201, "POST", "/v1/agents/register", `{"agentId":"deploy-bot"}`, &svid)
	var delegation struct{ Token string }
	do(201, "POST", "/v1/token-exchange", fmt.Sprintf(`{"agentId":"deploy-bot","actingOn":%q,"scope":"read"}`, id), &delegation)
	do(201, "POST", "/v1/attest", `{"agentId":"deploy-bot","actionType":"act","payload":1}`, nil)
	var issued, revoked struct{ Passport string }
	do(201, "POST", "/v1/agents/deploy-bot/passport", `{"scopes":["tool:*"]}`, &issued)
	do(201, "POST", "/v1/agents/deploy-bot/passport", "", &revoked)
	if err != nil {
		return nil, err
	}
	jti, err := jtiOf(revoked.Passport)
	do(200, "POST", "/v1/passports/"+jti+"/revoke", "", nil)
	t.svid, t.delegation, t.passport = svid.SVID, delegation.Token, issued.Passport
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
		all[path] = string(a.Body)
	}
	return all, nil
}
