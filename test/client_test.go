package test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bundle "attestd/chain/evidence"
	api "attestd/sdk/attestd"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// goClient is a client of a service with the key of a new company.
func goClient(t *testing.T, s *service, company string) (*api.Client, api.Company) {
	t.Helper()
	c, err := api.New(api.Config{URL: s.URL})
	must.OK(t, err)
	made, err := c.CreateCompany(t.Context(), api.NewCompany{CompanyID: company, Metadata: json.RawMessage(`{"plan":"team"}`)})
	must.OK(t, err)
	c, err = api.New(api.Config{URL: s.URL, Credential: api.Key(made.APIKey)})
	must.OK(t, err)
	t.Cleanup(c.Close)
	return c, made
}

func check(t *testing.T, what string, ok bool, got any) {
	t.Helper()
	if !ok {
		t.Errorf("%s: %+v", what, got)
	}
}

// The Go client manages a company: its keys, its OAuth clients, its agents.
func TestGoClientManages(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c, made := goClient(t, s, "acme")
	ctx := t.Context()
	must.OK(t, c.Health(ctx))
	ready, err := c.Ready(ctx)
	must.OK(t, err)
	check(t, "ready", ready.Status == "ready", ready)
	document, err := c.OpenAPI(ctx)
	must.OK(t, err)
	check(t, "OpenAPI", json.Valid(document), len(document))
	second, err := c.Setup(ctx, api.NewCompany{CompanyID: "globex"})
	must.OK(t, err)
	check(t, "setup", second.CompanyID == "globex" && second.APIKey != "", second)
	company, err := c.Company(ctx)
	must.OK(t, err)
	check(t, "company", company.SPIFFEID == made.SPIFFEID && string(company.Metadata) == `{"plan":"team"}` && company.APIKey == "", company)
	first, err := c.RecoverKey(ctx, "acme")
	must.OK(t, err)
	check(t, "first key", first.Key == made.APIKey && first.Label == "bootstrap", first)
	svid, err := c.CompanySVID(ctx)
	must.OK(t, err)
	check(t, "SVID", svid.CompanyID == "acme" && strings.Count(svid.SVID, ".") == 2, svid)

	key, err := c.CreateKey(ctx, api.NewCredential{Label: "ci", Role: api.Writer, ExpiresAt: chain.FormatTime(time.Now().Add(time.Hour))})
	must.OK(t, err)
	keys, err := c.Keys(ctx)
	must.OK(t, err)
	check(t, "keys", len(keys) == 2 && keys[1].Key == key.Key && keys[1].Label == "ci", keys)
	must.OK(t, c.DeleteKey(ctx, key.Key))
	err = c.DeleteKey(ctx, made.APIKey)
	check(t, "last key", errors.Is(err, &api.Error{Status: 409, Code: "LAST_API_KEY"}), err)
	oauth, err := c.CreateOAuthClient(ctx, api.NewCredential{Role: api.Reader})
	must.OK(t, err)
	token, err := c.OAuthToken(ctx, oauth.ClientID, oauth.ClientSecret)
	must.OK(t, err)
	check(t, "token", token.ExpiresIn == 3600, token)
	clients, err := c.OAuthClients(ctx)
	must.OK(t, err)
	check(t, "OAuth clients", len(clients) == 1 && clients[0].ClientID == oauth.ClientID, clients)
	credentials, err := c.Credentials(ctx)
	must.OK(t, err)
	check(t, "credentials", len(credentials) == 2 && credentials[1].Role == api.Reader, credentials)
	must.OK(t, c.DeleteOAuthClient(ctx, oauth.ClientID))

	agent, err := c.RegisterAgent(ctx, api.NewAgent{AgentID: "bot", Metadata: json.RawMessage(`{"team":"a"}`)})
	must.OK(t, err)
	check(t, "agent", agent.AgentID == "bot" && agent.SVID != "", agent)
	_, err = c.RegisterAgent(ctx, api.NewAgent{AgentID: "bot", OnlyNew: true})
	check(t, "again", errors.Is(err, &api.Error{Status: 412}), err)
	agent, err = c.Agent(ctx, "bot")
	must.OK(t, err)
	check(t, "agent", agent.CompanyID == "acme" && string(agent.Metadata) == `{"team":"a"}`, agent)
	count := 0
	for a, err := range c.Agents(ctx, api.AgentFilter{Status: "disabled"}) {
		check(t, "disabled agents", false, fmt.Sprint(a, err))
	}
	for a, err := range c.Agents(ctx, api.AgentFilter{Text: "BO", Status: "active"}) {
		must.OK(t, err)
		check(t, "agents", a.AgentID == "bot", a)
		count++
	}
	check(t, "agents", count == 1, count)
	svid, err = c.AgentSVID(ctx, "bot")
	must.OK(t, err)
	check(t, "SVID", svid.AgentID == "bot", svid)
	disabled, err := c.DisableAgent(ctx, "bot")
	must.OK(t, err)
	check(t, "disabled", disabled.DisabledAt != "", disabled)
	_, err = c.Attest(ctx, api.Attestation{AgentID: "bot", ActionType: "a", Payload: 1})
	check(t, "disabled agent", errors.Is(err, &api.Error{Status: 403, Code: "AGENT_DISABLED"}), err)
	_, err = c.EnableAgent(ctx, "bot")
	must.OK(t, err)
}

// The Go client reads and proves: what it gets checks offline, over a rotation of the signing key
// too, and not with another company's key.
func TestGoClientProves(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c, _ := goClient(t, s, "acme")
	ctx := t.Context()
	_, err := c.RegisterAgent(ctx, api.NewAgent{AgentID: "bot"})
	must.OK(t, err)
	pinned, err := c.PublicKey(ctx, "acme")
	must.OK(t, err)
	var roots []string
	for n := range 5 {
		if n == 3 {
			rotated, err := c.RotateKeys(ctx, false)
			must.OK(t, err)
			check(t, "rotated", rotated.Index == 3 && rotated.PreviousKID == pinned.KID, rotated)
		}
		_, err := c.Attest(ctx, api.Attestation{AgentID: "bot", ActionType: "a", Payload: map[string]int{"n": n}})
		must.OK(t, err)
		verdict, err := c.VerifyChain(ctx, api.Actions)
		must.OK(t, err)
		check(t, "chain", verdict.Valid, verdict)
		roots = append(roots, verdict.MerkleRoot)
	}
	ring, err := c.PublicKeys(ctx, "acme")
	must.OK(t, err)
	keys, err := ring.Pin(pinned.Fingerprint)
	must.OK(t, err)
	check(t, "keys", len(keys) == 2 && keys[1].From == 3, keys)
	_, other := ring.Pin("SHA256:BuP9j9opu2CrWVV95h7bCuzbIxE0vjDnW0Vfjht5L6k")
	check(t, "another key", other != nil, other)
	forged := ring
	forged.Keys = append([]api.CompanyKey(nil), ring.Keys...)
	forged.Keys[1].FromIndex = 2
	_, other = forged.Pin(pinned.Fingerprint)
	check(t, "another range", other != nil, other)

	for r, err := range c.Records(ctx, api.Range{}) {
		must.OK(t, err)
		must.OK(t, r.Verify(keys))
		old, err := api.ParsePublicKey(pinned.PEM)
		must.OK(t, err)
		if err := r.Verify(api.Pin(old)); (err == nil) != (r.Index < 3) {
			t.Errorf("record %d under the first key alone: %v", r.Index, err)
		}
	}
	inclusion, err := c.Proof(ctx, api.Actions, 1)
	must.OK(t, err)
	must.OK(t, inclusion.Verify(keys, roots[4]))
	check(t, "an older root", errors.Is(inclusion.Verify(keys, roots[3]), api.ErrNotGenuine), inclusion.Root)
	grown, err := c.Consistency(ctx, api.Actions, 2, 5)
	must.OK(t, err)
	must.OK(t, grown.Verify(roots[1], roots[4]))
	check(t, "another root", grown.Verify(roots[2], roots[4]) != nil, grown)
	authority, err := c.Authority(ctx, 1, "")
	must.OK(t, err)
	check(t, "authority", strings.Contains(string(authority), `"registered"`), string(authority))
	file, err := c.Evidence(ctx, api.Actions, 1, "")
	must.OK(t, err)
	verdict := api.CheckEvidence(file, pinned.Fingerprint)
	check(t, "evidence", verdict.Outcome == bundle.Holds, verdict)
	report, err := c.Report(ctx, time.Time{}, time.Time{})
	must.OK(t, err)
	verdict = bundle.CheckReport(report, bundle.Trust{Fingerprint: pinned.Fingerprint}, func(*bundle.Report) {}, func(*bundle.Event) {})
	check(t, "report", verdict.Outcome == bundle.Holds, verdict)
	rest, err := io.ReadAll(report)
	must.OK(t, errors.Join(err, report.Close()))
	check(t, "report", len(rest) == 0, len(rest))

	logs, err := c.Logs(ctx)
	must.OK(t, err)
	check(t, "logs", len(logs) == 2 && logs[0].Log == api.Actions && logs[0].Size == 5 && logs[0].MerkleRoot == roots[4], logs)
	text, err := c.Checkpoint(ctx, logs[0].LogID)
	must.OK(t, err)
	checkpoint, _, err := tlog.ParseSignedCheckpoint(text)
	must.OK(t, err)
	check(t, "checkpoint", checkpoint.Size == 5, checkpoint)
	tile, err := c.Tile(ctx, logs[0].LogID, "0/000.p/5")
	must.OK(t, err)
	check(t, "tile", len(tile) == 5*32, len(tile))
	logProof, err := c.LogProof(ctx, logs[0].LogID, 1)
	must.OK(t, err)
	_, err = tlog.ParseProof(logProof)
	must.OK(t, err)
	since, err := c.LogConsistency(ctx, logs[0].LogID, 3)
	must.OK(t, err)
	check(t, "log consistency", strings.HasPrefix(string(since), "old 3\n"), string(since))

	// Another service cosigns the log.
	policy := filepath.Join(t.TempDir(), "policy")
	must.OK(t, os.WriteFile(policy, []byte("log "+logs[0].VKeys[0]+"\n"), 0o600))
	w, err := api.New(api.Config{URL: serve(t, filepath.Join(t.TempDir(), "witness.db"), "--cosign-for", policy).URL})
	must.OK(t, err)
	defer w.Close()
	witness, err := w.Witness(ctx)
	must.OK(t, err)
	line, err := w.AddCheckpoint(ctx, append([]byte("old 0\n\n"), text...))
	must.OK(t, err)
	check(t, "cosignature", strings.HasPrefix(string(line), "— "+witness.Name+" "), string(line))
	origin := sha256.Sum256([]byte(logs[0].Origin))
	cosigned, err := w.CosignedCheckpoint(ctx, hex.EncodeToString(origin[:]))
	must.OK(t, err)
	check(t, "cosigned", strings.HasPrefix(string(cosigned), string(text)) && strings.HasSuffix(string(cosigned), string(line)), string(cosigned))
}

// The Go client issues passports and delegations, and checks both kinds of answers about a passport
// offline.
func TestGoClientDelegates(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c, _ := goClient(t, s, "acme")
	ctx := t.Context()
	for _, agent := range []string{"planner", "bot"} {
		_, err := c.RegisterAgent(ctx, api.NewAgent{AgentID: agent})
		must.OK(t, err)
	}
	discovery, err := c.Discovery(ctx, "acme")
	must.OK(t, err)
	key, err := api.ParsePublicKey(discovery.Keys[0].X)
	must.OK(t, err)
	issuer := api.Issuer{CompanyID: "acme", TrustDomain: discovery.TrustDomain, Service: discovery.PassportFormat.ClaimsNamespace, Key: key}
	passport, err := c.IssuePassport(ctx, "bot", api.NewPassport{Scopes: []string{"tool:search"}, TTL: 60})
	must.OK(t, err)
	claims, scope, err := issuer.VerifyPassport(passport.Passport, "search", time.Now())
	must.OK(t, err)
	check(t, "claims", claims.AgentID == "bot" && scope == "tool:search", claims)
	_, _, err = issuer.VerifyPassport(passport.Passport, "", time.Now().Add(time.Minute))
	check(t, "expired", err != nil, err)
	next, err := c.RotatePassport(ctx, "bot", passport.Passport)
	must.OK(t, err)
	check(t, "rotated", next.RotatedFrom == claims.ID, next)
	for jti, want := range map[string]string{claims.ID: "revoked", "00000000-0000-4000-8000-000000000000": "unknown"} {
		status, err := c.PassportStatus(ctx, jti)
		must.OK(t, err)
		must.OK(t, status.Verify(key))
		check(t, "status", status.Status == want, status)
		another := make([]byte, len(key))
		check(t, "another key", status.Verify(another) != nil, status)
	}
	verdict, err := c.VerifyPassport(ctx, next.Passport, "")
	must.OK(t, err)
	check(t, "verdict", verdict.Valid && len(verdict.Receipt) > 0, verdict)
	revoked, err := c.RevokePassport(ctx, jtiOfVerdict(t, verdict), "lost")
	must.OK(t, err)
	list, err := c.RevokedPassports(ctx)
	must.OK(t, err)
	check(t, "revoked", len(list) == 2 && revoked.Reason == "lost", list)
	count := 0
	for p, err := range c.Passports(ctx, api.PassportFilter{AgentID: "bot", Status: "valid"}) {
		check(t, "valid passports", false, fmt.Sprint(p, err))
	}
	for p, err := range c.Passports(ctx, api.PassportFilter{AgentID: "bot"}) {
		must.OK(t, err)
		check(t, "passports", p.Status == "revoked", p)
		count++
	}
	check(t, "passports", count == 2, count)

	delegated, err := c.Delegate(ctx, "planner", "acme", "deploy:run")
	must.OK(t, err)
	actor, err := c.AgentSVID(ctx, "bot")
	must.OK(t, err)
	exchanged, err := c.ExchangeToken(ctx, delegated.Token, actor.SVID)
	must.OK(t, err)
	check(t, "chain", len(exchanged.DelegationChain) == 3, exchanged)
	record, err := c.Attest(ctx, api.Attestation{AgentID: "bot", ActionType: "deploy", Payload: nil, Delegation: exchanged.AccessToken})
	must.OK(t, err)
	check(t, "delegation", record.Delegation != nil && len(record.Delegation.Chain) == 3, record)
	must.OK(t, record.Verify(api.Pin(key)))
}

func jtiOfVerdict(t *testing.T, v api.PassportVerdict) string {
	t.Helper()
	var claims struct{ JTI string }
	must.OK(t, json.Unmarshal(v.Claims, &claims))
	return claims.JTI
}

// The Go client hands on events of a coding agent, and manages webhooks.
func TestGoClientHooks(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c, _ := goClient(t, s, "acme")
	ctx := t.Context()
	event := json.RawMessage(`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"cut \ud83d"},"tool_use_id":"t"}`)
	for range 2 {
		answer, err := c.ClaudeCodeHook(ctx, api.HookOptions{Agent: "coder", Redact: "output"}, event)
		must.OK(t, err)
		check(t, "answer", strings.TrimSpace(string(answer)) == "{}", string(answer))
	}
	count := 0
	for r, err := range c.Records(ctx, api.Range{}) {
		must.OK(t, err)
		check(t, "record", r.Payload.AgentID == "coder" && strings.Contains(string(r.Payload.Payload), "cut \uFFFD"), string(r.Payload.Payload))
		count++
	}
	check(t, "records", count == 1, count)

	made, err := c.CreateWebhook(ctx, api.NewWebhook{URL: "https://hooks.invalid/attestd", Actions: []string{"deploy.*"}})
	must.OK(t, err)
	check(t, "secret", strings.HasPrefix(made.Secret, "whsec_") && made.NextIndex == 1, made)
	rotated, err := c.RotateWebhookSecret(ctx, made.WebhookID)
	must.OK(t, err)
	check(t, "rotated", rotated.Secret != made.Secret && rotated.Actions[0] == "deploy.*", rotated)
	off, err := c.DisableWebhook(ctx, made.WebhookID)
	must.OK(t, err)
	check(t, "disabled", off.DisabledReason == "requested" && off.Secret == "", off)
	on, err := c.EnableWebhook(ctx, made.WebhookID)
	must.OK(t, err)
	check(t, "enabled", on.DisabledAt == "", on)
	list, err := c.Webhooks(ctx)
	must.OK(t, err)
	check(t, "webhooks", len(list) == 1 && list[0].URL == made.URL, list)
	tested, err := c.TestWebhook(ctx, made.WebhookID)
	must.OK(t, err)
	check(t, "test", !tested.Delivered && tested.Failure != "", tested)
	must.OK(t, c.DeleteWebhook(ctx, made.WebhookID))
	_, err = c.Webhook(ctx, made.WebhookID)
	check(t, "deleted", errors.Is(err, &api.Error{Status: 404}), err)
}

// The stream's messages say that the chain verifies, and its end says why.
func TestGoClientStreams(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c, made := goClient(t, s, "acme")
	stream, err := c.Stream(t.Context())
	must.OK(t, err)
	defer stream.Close()
	_, err = c.Attest(t.Context(), api.Attestation{AgentID: "bot", ActionType: "a", Payload: 1})
	must.OK(t, err)
	m, err := stream.Next()
	must.OK(t, err)
	check(t, "message", m.Valid && m.Record.Index == 0 && m.MerkleRoot == m.Record.Hash, m)
	_, err = c.CreateKey(t.Context(), api.NewCredential{})
	must.OK(t, err)
	must.OK(t, c.DeleteKey(t.Context(), made.APIKey))
	_, err = stream.Next()
	var end *api.StreamEnd
	check(t, "end", errors.As(err, &end) && end.Code == 1008, err)
}
