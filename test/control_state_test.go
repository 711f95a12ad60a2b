package test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
)

// controlRecord is a record of a control log, with all members that any has.
type controlRecord struct {
	Payload struct {
		ActionType string
		Payload    struct {
			Subject, Fingerprint, Role, ClientID, AgentID, RegisteredAt, DisabledAt, JTI, RevokedAt, KID, PreviousKID string
			WebhookID, PreviousFingerprint                                                                            string
			PassportsRevoked                                                                                          int
			Settings                                                                                                  map[string]string
			Changed                                                                                                   map[string]struct{ From, To *string }
		}
	}
}

// companyStatus is who may do what in a company.
type companyStatus struct {
	Credentials []string // of API keys and OAuth clients
	Agents      []string // with the times of registration and disabling
	Passports   []string // with the times of their revocation
	Webhooks    []string // with the fingerprints of their secrets, and whether they are disabled
	Signing     []string // in their order
	Stream      string   // the setting
}

// replayed is what follows from a control log alone. A record that does not follow from those
// before it is an error.
func replayed(t *testing.T, log []controlRecord) companyStatus {
	t.Helper()
	type agent struct{ registered, disabled string }
	type passport struct{ agent, revoked string }
	credentials, agents, passports := map[string]string{}, map[string]agent{}, map[string]passport{}
	type hook struct {
		fingerprint string
		disabled    bool
	}
	webhooks := map[string]hook{}
	var s companyStatus
	for i, r := range log {
		what, p := r.Payload.ActionType, r.Payload.Payload
		follows := true
		switch what {
		case "company.registered":
			s.Signing, s.Stream, follows = append(s.Signing, p.KID), p.Settings["stream"], i == 0
		case "api-key.created", "oauth-client.created":
			follows = credentials[p.Subject] == ""
			credentials[p.Subject] = strings.Join([]string{p.Fingerprint, p.ClientID, p.Role}, " ")
		case "api-key.recovered": // gives nothing that an earlier record did not give
		case "api-key.deleted", "oauth-client.deleted":
			follows = credentials[p.Subject] != ""
			delete(credentials, p.Subject)
		case "agent.registered":
			follows = agents[p.AgentID].disabled == ""
			agents[p.AgentID] = agent{registered: p.RegisteredAt}
		case "agent.disabled":
			was := agents[p.AgentID]
			agents[p.AgentID] = agent{was.registered, p.DisabledAt}
			for jti, of := range passports {
				if of.agent == p.AgentID && of.revoked == "" {
					passports[jti] = passport{of.agent, p.DisabledAt}
					p.PassportsRevoked--
				}
			}
			follows = was.registered != "" && was.disabled == "" && p.PassportsRevoked == 0
		case "agent.enabled":
			follows = agents[p.AgentID].disabled != ""
			agents[p.AgentID] = agent{registered: agents[p.AgentID].registered}
		case "passport.issued":
			follows = passports[p.JTI].agent == "" && agents[p.AgentID].disabled == ""
			passports[p.JTI] = passport{agent: p.AgentID}
		case "passport.revoked":
			follows = passports[p.JTI] == passport{agent: p.AgentID}
			passports[p.JTI] = passport{p.AgentID, p.RevokedAt}
		case "signing-key.rotated":
			follows = s.Signing[len(s.Signing)-1] == p.PreviousKID
			s.Signing = append(s.Signing, p.KID)
		case "webhook.created":
			_, is := webhooks[p.WebhookID]
			webhooks[p.WebhookID], follows = hook{fingerprint: p.Fingerprint}, !is
		case "webhook.enabled", "webhook.disabled":
			was, is := webhooks[p.WebhookID]
			follows = is && was.disabled == (what == "webhook.enabled")
			webhooks[p.WebhookID] = hook{was.fingerprint, !was.disabled}
		case "webhook.secret-rotated":
			was := webhooks[p.WebhookID]
			follows = was.fingerprint == p.PreviousFingerprint
			webhooks[p.WebhookID] = hook{p.Fingerprint, was.disabled}
		case "webhook.deleted":
			_, follows = webhooks[p.WebhookID]
			delete(webhooks, p.WebhookID)
		case "settings.changed":
			if stream, changed := p.Changed["stream"]; changed {
				follows = *stream.From == s.Stream && *stream.To != s.Stream
				s.Stream = *stream.To
			} else {
				follows = len(p.Changed) > 0
			}
		default:
			t.Errorf("a record of %s", what)
		}
		if !follows {
			t.Errorf("record %d, of %s, does not follow from those before it: %+v", i, what, p)
		}
	}
	for _, c := range credentials {
		s.Credentials = append(s.Credentials, c)
	}
	for id, a := range agents {
		s.Agents = append(s.Agents, strings.Join([]string{id, a.registered, a.disabled}, " "))
	}
	for jti, p := range passports {
		s.Passports = append(s.Passports, strings.Join([]string{jti, p.agent, p.revoked}, " "))
	}
	for id, h := range webhooks {
		s.Webhooks = append(s.Webhooks, fmt.Sprint(id, " ", h.fingerprint, " ", h.disabled))
	}
	return s.sorted()
}

func (s companyStatus) sorted() companyStatus {
	slices.Sort(s.Credentials)
	slices.Sort(s.Agents)
	slices.Sort(s.Passports)
	slices.Sort(s.Webhooks)
	return s
}

// shownBy is what the API shows of a company.
func shownBy(t *testing.T, c *client, company string) (s companyStatus) {
	t.Helper()
	var credentials struct {
		Credentials []struct{ Fingerprint, ClientID, Role string }
	}
	c.call(t, 200, "GET", "/v1/credentials", "", &credentials)
	for _, k := range credentials.Credentials {
		s.Credentials = append(s.Credentials, strings.Join([]string{k.Fingerprint, k.ClientID, k.Role}, " "))
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var page struct {
			Agents []struct{ AgentID, RegisteredAt, DisabledAt string }
			Next   string
		}
		c.call(t, 200, "GET", "/v1/agents?limit=1000&cursor="+cursor, "", &page)
		for _, a := range page.Agents {
			s.Agents = append(s.Agents, strings.Join([]string{a.AgentID, a.RegisteredAt, a.DisabledAt}, " "))
		}
		cursor = page.Next
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var page struct {
			Passports []struct{ JTI, AgentID, RevokedAt string }
			Next      string
		}
		c.call(t, 200, "GET", "/v1/passports?limit=1000&cursor="+cursor, "", &page)
		for _, p := range page.Passports {
			s.Passports = append(s.Passports, strings.Join([]string{p.JTI, p.AgentID, p.RevokedAt}, " "))
		}
		cursor = page.Next
	}
	var hooks struct {
		Webhooks []struct{ WebhookID, Fingerprint, DisabledAt string }
	}
	c.call(t, 200, "GET", "/v1/webhooks", "", &hooks)
	for _, h := range hooks.Webhooks {
		s.Webhooks = append(s.Webhooks, fmt.Sprint(h.WebhookID, " ", h.Fingerprint, " ", h.DisabledAt != ""))
	}
	var list struct{ Keys []signingKey }
	c.call(t, 200, "GET", "/v1/ca/public-keys?companyId="+company, "", &list)
	for _, k := range list.Keys {
		s.Signing = append(s.Signing, k.KID)
	}
	return s.sorted()
}

// agrees demands that the company's state in the API follows from its control log, and returns the
// number of records of each "action subject". The log must have as many records as it was verified
// with. The setting of the stream is the server's.
func agrees(t *testing.T, c *client, company, stream string, verified int64) map[string]int {
	t.Helper()
	var chain struct{ Records []controlRecord }
	c.call(t, 200, "GET", "/v1/chain?log=control", "", &chain)
	if n := int64(len(chain.Records)); n != verified || n == 0 {
		t.Errorf("%s: %d control records, of %d that were verified", company, n, verified)
	}
	message, shows := replayed(t, chain.Records), shownBy(t, c, company)
	if shows.Stream = stream; fmt.Sprint(message) != fmt.Sprint(shows) {
		t.Errorf("%s: the control log says\n%+v\nthe API shows\n%+v", company, message, shows)
	}
	known := map[string]int{}
	for _, r := range chain.Records {
		known[r.Payload.ActionType+" "+r.Payload.Payload.Subject]++
	}
	return known
}

// verdicts verifies a file, and returns the length of each company's control log.
func verdicts(t *testing.T, db string) map[string]int64 {
	t.Helper()
	out, err := attestd(t, "verify", "--db", db, "--json")
	must.OK(t, err)
	lengths := map[string]int64{}
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var v struct {
			verdict
			Log string
		}
		must.OK(t, decoder.Decode(&v))
		if !v.Valid {
			t.Errorf("%s is not valid", v.CompanyID)
		}
		if v.Log == "control" {
			lengths[v.CompanyID] = v.Records
		}
	}
	return lengths
}

// recovered is a caller with the first key of a company.
func recovered(t *testing.T, s *service, company string) *client {
	t.Helper()
	c := s.client(t, "")
	var first struct{ Key string }
	c.call(t, 200, "POST", "/v1/recover-key", `{"companyId":"`+company+`"}`, &first)
	c.key = first.Key
	return c
}

func jtiOf(t *testing.T, token string) string {
	t.Helper()
	var claims struct{ JTI string }
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		t.Errorf("no token: %s", token)
	}
	return claims.JTI
}
