package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "attestd/sdk/attestd"

	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// elsewhere is a key of which the client has the public half alone, as one in a KMS.
type elsewhere struct{ key *api.AgentKey }

func (e elsewhere) JWK() []byte { return e.key.JWK() }

func (e elsewhere) Sign(ctx context.Context, input []byte) ([]byte, error) {
	return e.key.SignBytes(ctx, input)
}

// enrolled registers an agent and enrols a key of it, which a callback signs with.
func enrolled(t *testing.T, s *service, c *client, algorithm string, config api.IdentityConfig) (*api.Client, *api.Identity) {
	t.Helper()
	key, err := api.NewAgentKey(algorithm)
	must.OK(t, err)
	away, err := api.SignWith(elsewhere{key})
	must.OK(t, err)
	if _, err := away.PrivateJWK(); err == nil {
		t.Error("a key that is elsewhere discloses its private half")
	}
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	admin, err := api.New(api.Config{URL: s.URL, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer admin.Close()
	_, err = admin.EnrolKey(t.Context(), "bot", away, api.NewEnrolledKey{Label: "kms"})
	must.OK(t, err)
	config.Key = away
	identity, err := api.NewIdentity(config)
	must.OK(t, err)
	own, err := api.New(api.Config{URL: s.URL, Credential: identity})
	must.OK(t, err)
	t.Cleanup(own.Close)
	return own, identity
}

// The Go client signs in as an agent, with tokens that are bound to its key or not, signs a session
// without a hole, enrols its next key, and reports a key that it does not know.
func TestGoClientIsAnAgent(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for _, bound := range []bool{false, true} {
		for _, algorithm := range []string{api.EdDSA, api.ES256} {
			t.Run(fmt.Sprint(algorithm, " bound ", bound), func(t *testing.T) {
				company := strings.ToLower(fmt.Sprint(algorithm, bound))
				c := s.register(t, company)
				var alarms []error
				own, identity := enrolled(t, s, c, algorithm, api.IdentityConfig{
					SPIFFEID: "spiffe://attestd.local/company/" + company + "/agent/bot", DPoP: bound,
					Alarm: func(err error) { alarms = append(alarms, err) }, TokenFile: filepath.Join(t.TempDir(), "token"),
				})
				session, err := own.Session("one")
				must.OK(t, err)
				attest := func(f func(context.Context, api.Attestation) (api.Record, error), payload any) error {
					_, err := f(t.Context(), api.Attestation{AgentID: "bot", ActionType: "a", Payload: payload})
					return err
				}
				must.OK(t, attest(session.Attest, 1))
				c.call(t, 200, "POST", "/v1/agents/bot/disable", "", nil)
				if err := attest(session.Attest, 2); err == nil {
					t.Error("a disabled agent attests")
				}
				c.call(t, 200, "POST", "/v1/agents/bot/enable", "", nil)
				must.OK(t, attest(session.Attest, 2))
				must.OK(t, attest(session.End, 3))
				if err := attest(session.Attest, 4); !errors.Is(err, api.ErrEnded) {
					t.Error(err)
				}
				for _, err := range own.Sessions(t.Context(), "") {
					if !errors.Is(err, &api.Error{Code: "FORBIDDEN_ROLE"}) {
						t.Error("an agent lists sessions", err)
					}
				}
				next, err := api.NewAgentKey(api.EdDSA)
				must.OK(t, err)
				_, err = own.EnrolKey(t.Context(), "bot", next, api.NewEnrolledKey{})
				must.OK(t, err)
				if len(alarms) > 0 {
					t.Error(alarms)
				}
				// A key that another party has enrolled is reported at the next sign-in.
				_, stranger := enrolled(t, s, c, api.EdDSA, api.IdentityConfig{SPIFFEID: identity.SPIFFEID()})
				again, err := api.NewIdentity(api.IdentityConfig{
					Key: identity.Key(), SPIFFEID: identity.SPIFFEID(), DPoP: bound, Known: []string{next.Thumbprint()},
					Alarm: func(err error) { alarms = append(alarms, err) },
				})
				must.OK(t, err)
				signedIn, err := api.New(api.Config{URL: s.URL, Credential: again})
				must.OK(t, err)
				defer signedIn.Close()
				_, err = signedIn.AgentKeys(t.Context(), "bot")
				must.OK(t, err)
				var unknown *api.UnknownKeyError
				if len(alarms) != 1 || !errors.As(alarms[0], &unknown) || unknown.Key.Thumbprint != stranger.Key().Thumbprint() {
					t.Errorf("alarms: %v, want one about %s", alarms, stranger.Key().Thumbprint())
				}
				var list struct{ Sessions []api.SessionInfo }
				c.call(t, 200, "GET", "/v1/sessions?agentId=bot", "", &list)
				if len(list.Sessions) != 1 || list.Sessions[0].State != "sealed" || list.Sessions[0].Records != 3 {
					t.Errorf("%+v", list.Sessions)
				}
				if answer := verdictOnSession(t, s, c, "bot", "one"); !strings.Contains(answer, ": 3 records, complete: 0 to 3, sealed, 1 refused\n") {
					t.Errorf("the verdict is\n%s", answer)
				}
			})
		}
	}
}

// The Go client signs the same members for a delegation token that the service derives from it, so
// that the record is accepted, whether the token was issued or exchanged.
func TestGoClientSignsDelegations(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	own, _ := enrolled(t, s, c, api.ES256, api.IdentityConfig{SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot"})
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"planner"}`, nil)
	admin, err := api.New(api.Config{URL: s.URL, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer admin.Close()
	direct, err := admin.Delegate(t.Context(), "bot", "globex", "deploy")
	must.OK(t, err)
	first, err := admin.Delegate(t.Context(), "planner", "globex", "deploy")
	must.OK(t, err)
	svid, err := admin.AgentSVID(t.Context(), "bot")
	must.OK(t, err)
	exchanged, err := admin.ExchangeToken(t.Context(), first.Token, svid.SVID)
	must.OK(t, err)
	session, err := own.Session("one")
	must.OK(t, err)
	for _, token := range []string{"", direct.Token, exchanged.AccessToken, svid.SVID} {
		r, err := session.Attest(t.Context(), api.Attestation{AgentID: "bot", ActionType: "a", Payload: 1, Delegation: token})
		must.OK(t, err)
		answer, err := statement.Parse(r.Payload.Statement)
		must.OK(t, err)
		if answer.Version() != 2 || len(answer.Delegation) != map[bool]int{true: 64, false: 0}[token != ""] {
			t.Errorf("%+v", answer.Claims)
		}
	}
}

// verdictOnSession is what attestd check prints of the file of a session.
func verdictOnSession(t *testing.T, s *service, c *client, agent, id string) string {
	t.Helper()
	reader, err := api.New(api.Config{URL: s.URL, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer reader.Close()
	body, err := reader.SessionEvidence(t.Context(), agent, id, "")
	must.OK(t, err)
	defer body.Close()
	text, err := io.ReadAll(body)
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "session.jsonl")
	must.OK(t, os.WriteFile(path, text, 0o600))
	program, err := binary(t)
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), program, "check", path)
	cmd.Env = atHome(filepath.Dir(path))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// The TypeScript and Python clients do the same, with signers of their own.
func TestOtherClientsAreAgents(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	othersRun(t)
	plain, nonces := serve(t, storetest.New(t), "--rate-limits", "off"), serve(t, storetest.New(t), "--rate-limits", "off", "--dpop-nonce")
	for i, script := range []string{"agent.mjs", "agent.py", "agent.mjs", "agent.py"} {
		s, name := plain, script
		if i >= 2 {
			s, name = nonces, script+" with nonces"
		}
		t.Run(name, func(t *testing.T) {
			company := fmt.Sprint("agents-", i)
			c := s.register(t, company)
			c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
			cmd := clientScript(t, script, s.URL, c.key, "spiffe://attestd.local/company/"+company+"/agent/bot")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			must.OK(t, err)
			if want := "EdDSA false alarms 1\nEdDSA true alarms 1\nES256 false alarms 1\nES256 true alarms 1\n"; string(out) != want {
				t.Errorf("the client says\n%swant\n%s", out, want)
			}
			var list struct{ Sessions []api.SessionInfo }
			c.call(t, 200, "GET", "/v1/sessions?agentId=bot", "", &list)
			for _, one := range list.Sessions {
				if one.State != "sealed" || one.Records != 2 {
					t.Errorf("%+v", one)
				}
			}
			if len(list.Sessions) != 4 {
				t.Errorf("%d sessions, want 4", len(list.Sessions))
			}
		})
	}
}
