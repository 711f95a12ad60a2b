package conformance

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// serveGo is the runner of the Go client.
func serveGo(ctx context.Context, in io.Reader, out io.Writer) error {
	g := &goRunner{calls: map[string]func(context.Context, json.RawMessage) (any, error){}}
	g.register()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked struct {
			Call string
			Args json.RawMessage
		}
		if err := json.Unmarshal(line, &asked); err != nil {
			return err
		}
		answer := map[string]any{}
		if call, ok := g.calls[asked.Call]; !ok {
			answer["error"] = map[string]any{"kind": "unsupported"}
		} else if result, err := call(ctx, asked.Args); err != nil {
			answer["error"] = errorOf(err)
		} else {
			answer["result"] = result
		}
		if err := json.NewEncoder(out).Encode(answer); err != nil {
			return err
		}
	}
}

// errorOf describes an error as the protocol has it.
func errorOf(err error) map[string]any {
	var refused *attestd.Error
	var apart *spool.RefusedError
	var unapproved *attestd.NotApprovedError
	var timeout net.Error
	var named *net.OpError
	switch {
	case errors.As(err, &unapproved):
		return map[string]any{"kind": "notApproved", "state": unapproved.Approval.State}
	case errors.As(err, &refused):
		return map[string]any{"kind": "status", "status": refused.Status, "code": refused.Code, "pointer": refused.Pointer}
	case errors.As(err, new(*attestd.RecordMismatchError)):
		return map[string]any{"kind": "mismatch"}
	case errors.As(err, &apart):
		return map[string]any{"kind": "refused", "refused": len(apart.Refused)}
	case errors.As(err, new(*attestd.OtherLogError)):
		return map[string]any{"kind": "otherLog"}
	case errors.Is(err, attestd.ErrEnded):
		return map[string]any{"kind": "ended"}
	case errors.Is(err, spool.ErrFull):
		return map[string]any{"kind": "full"}
	case errors.As(err, &timeout), errors.As(err, &named), errors.Is(err, attestd.ErrLongAnswer), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded):
		return map[string]any{"kind": "connection"}
	}
	return map[string]any{"kind": "invalid", "message": err.Error()}
}

type goRunner struct {
	*attestd.Client
	identity *attestd.Identity // nil for another credential
	session  *attestd.Session
	spool    *spool.Spool
	spooled  *spool.Session
	calls    map[string]func(context.Context, json.RawMessage) (any, error)
}

// typed makes a call of a function of its arguments.
func typed[Args any](call func(context.Context, Args) (any, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, text json.RawMessage) (any, error) {
		var args Args
		if err := json.Unmarshal(text, &args); err != nil {
			return nil, err
		}
		return call(ctx, args)
	}
}

type configArgs struct {
	URL   string
	Key   *string
	OAuth *struct{ ClientID, ClientSecret string }
	Agent string
	Retry struct {
		Times        int
		MinMs, MaxMs int
	}
	TimeoutMs  int
	Spool      string
	SpoolLimit int64
}

type attestArgs struct {
	AgentID, ActionType, Delegation, IdempotencyKey string
	Payload                                         json.RawMessage
	Decide                                          bool
}

func (a attestArgs) attestation() attestd.Attestation {
	return attestd.Attestation{AgentID: a.AgentID, ActionType: a.ActionType, Payload: a.Payload, Delegation: a.Delegation, IdempotencyKey: a.IdempotencyKey, Decide: a.Decide}
}

func (g *goRunner) new(_ context.Context, a configArgs) (any, error) {
	config := attestd.Config{
		URL: a.URL, Timeout: time.Duration(a.TimeoutMs) * time.Millisecond,
		Retry: &attestd.Retry{Times: a.Retry.Times, Min: time.Duration(a.Retry.MinMs) * time.Millisecond, Max: time.Duration(a.Retry.MaxMs) * time.Millisecond},
	}
	if a.Key != nil {
		config.Credential = attestd.Key(*a.Key)
	}
	if a.OAuth != nil {
		config.Credential = attestd.OAuth(a.OAuth.ClientID, a.OAuth.ClientSecret)
	}
	g.identity = nil
	if a.Agent != "" {
		file, err := attestd.ReadAgentFile(a.Agent)
		if err != nil {
			return nil, err
		}
		who := file.Identity()
		who.Alarm = func(error) {}
		if g.identity, err = attestd.NewIdentity(who); err != nil {
			return nil, err
		}
		config.Credential = g.identity
	}
	c, err := attestd.New(config)
	if err != nil {
		return nil, err
	}
	g.Client = c
	if g.spool, err = spool.Open(a.Spool, c); err != nil {
		return nil, err
	}
	if a.SpoolLimit > 0 {
		g.spool.Limit = a.SpoolLimit
	}
	return struct{}{}, nil
}

func (g *goRunner) register() {
	type ctx = context.Context
	g.calls["new"] = typed(g.new)
	g.calls["attest"] = typed(func(ctx ctx, a attestArgs) (any, error) { return g.Attest(ctx, a.attestation()) })
	g.calls["attestBatch"] = typed(func(ctx ctx, a struct{ Records []attestArgs }) (any, error) {
		var as []attestd.Attestation
		for _, one := range a.Records {
			as = append(as, one.attestation())
		}
		records, err := g.AttestBatch(ctx, as)
		return map[string]any{"records": records}, err
	})
	g.calls["stream"] = typed(func(ctx ctx, a struct {
		From  int64
		Count int
	}) (any, error) {
		records := []attestd.Record{}
		for r, err := range g.Follow(ctx, a.From) {
			if records = append(records, r); err != nil || len(records) == a.Count {
				return map[string]any{"records": records}, err
			}
		}
		return nil, errors.New("the stream has ended")
	})
	g.calls["records"] = typed(func(ctx ctx, a attestd.Range) (any, error) {
		records := []attestd.Record{}
		for r, err := range g.Records(ctx, a) {
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
		return map[string]any{"records": records}, nil
	})
	g.calls["search"] = typed(func(ctx ctx, a struct {
		attestd.Search
		Q, Order string
		Limit    int
	}) (any, error) {
		records := []attestd.Record{}
		a.Text, a.Oldest = a.Q, a.Order == "oldest"
		for r, err := range g.Client.Search(ctx, a.Search) {
			if err != nil {
				return nil, err
			}
			if records = append(records, r); len(records) == a.Limit {
				break
			}
		}
		return map[string]any{"records": records}, nil
	})
	g.calls["verifyChain"] = typed(func(ctx ctx, _ struct{}) (any, error) { return g.VerifyChain(ctx, attestd.Actions) })
	g.calls["proof"] = typed(func(ctx ctx, a struct{ Index int64 }) (any, error) { return g.Proof(ctx, attestd.Actions, a.Index) })
	g.calls["evidence"] = typed(func(ctx ctx, a struct{ Index int64 }) (any, error) {
		return g.Evidence(ctx, attestd.Actions, a.Index, "")
	})
	g.calls["health"] = typed(func(ctx ctx, _ struct{}) (any, error) { return struct{}{}, g.Health(ctx) })
	g.calls["registerAgent"] = typed(func(ctx ctx, a attestd.NewAgent) (any, error) { return g.RegisterAgent(ctx, a) })
	g.calls["issuePassport"] = typed(func(ctx ctx, a struct {
		AgentID string
		attestd.NewPassport
	}) (any, error) {
		return g.IssuePassport(ctx, a.AgentID, a.NewPassport)
	})
	g.calls["verifyPassport"] = typed(func(ctx ctx, a struct {
		Passport, Tool string
		Arguments      json.RawMessage
	}) (any, error) {
		return g.VerifyBoundPassport(ctx, a.Passport, a.Tool, attestd.ToolCall{Arguments: a.Arguments})
	})
	g.calls["revokePassport"] = typed(func(ctx ctx, a struct{ JTI, Reason string }) (any, error) {
		return g.RevokePassport(ctx, a.JTI, a.Reason)
	})
	g.calls["ask"] = typed(func(ctx ctx, a attestd.NewApproval) (any, error) { return g.Ask(ctx, a) })
	g.calls["requestApproval"] = typed(func(ctx ctx, a attestd.NewApproval) (any, error) { return g.RequestApproval(ctx, a) })
	g.calls["putPolicy"] = typed(func(ctx ctx, a struct{ PolicyID, Cedar string }) (any, error) {
		return g.PutPolicy(ctx, a.PolicyID, attestd.NewPolicy{Cedar: a.Cedar})
	})
	g.calls["testPolicies"] = typed(func(ctx ctx, a struct{ Draft *attestd.PolicyText }) (any, error) {
		return g.TestPolicies(ctx, attestd.PolicyTrial{Draft: a.Draft})
	})
	g.calls["delegate"] = typed(func(ctx ctx, a struct {
		AgentID, ActingOn, Scope string
		AuthorizationDetails     details.Details
	}) (any, error) {
		return g.DelegateLimited(ctx, a.AgentID, a.ActingOn, a.Scope, a.AuthorizationDetails)
	})
	g.calls["checkRecord"] = typed(func(_ ctx, a struct {
		Record attestd.Record
		Key    string
	}) (any, error) {
		return genuine(a.Key, a.Record.Verify)
	})
	g.calls["checkProof"] = typed(func(_ ctx, a struct {
		Proof     attestd.Proof
		Key, Root string
	}) (any, error) {
		return genuine(a.Key, func(keys chain.KeySet) error { return a.Proof.Verify(keys, a.Root) })
	})
	g.calls["checkPassport"] = typed(func(_ ctx, a struct{ Passport, Key, CompanyID, Tool, Arguments string }) (any, error) {
		key, err := attestd.ParsePublicKey(a.Key)
		if err != nil {
			return nil, err
		}
		var denied *cred.Error
		var arguments json.RawMessage
		if a.Arguments != "" {
			arguments = json.RawMessage(a.Arguments)
		}
		_, scope, err := attestd.Issuer{CompanyID: a.CompanyID, Key: key}.VerifyPassportCall(a.Passport, a.Tool, arguments, time.Now())
		if errors.As(err, &denied) {
			return map[string]any{"valid": false, "code": denied.Code}, nil
		}
		return map[string]any{"valid": true, "scopeGranted": scope}, err
	})
	g.calls["checkEvidence"] = typed(func(_ ctx, a struct {
		Evidence    json.RawMessage
		Fingerprint string
		AgentKey    *string
	}) (any, error) {
		v := attestd.CheckEvidence(a.Evidence, a.Fingerprint)
		if a.AgentKey != nil {
			v = attestd.CheckAgentEvidence(a.Evidence, a.Fingerprint, *a.AgentKey)
		}
		answer := map[string]any{"verdict": v.Outcome, "code": v.Code}
		if at := slices.IndexFunc(v.Checked, func(text string) bool { return strings.Contains(text, "signed this") }); at >= 0 {
			answer["word"] = v.Checked[at]
		}
		return answer, nil
	})
	g.calls["spoolAttest"] = typed(func(ctx ctx, a attestArgs) (any, error) {
		r, queued, err := g.spool.Attest(ctx, a.attestation())
		if queued || err != nil {
			return map[string]any{"queued": queued}, err
		}
		return map[string]any{"queued": false, "record": r}, nil
	})
	g.sessions()
	g.calls["spoolFlush"] = typed(func(ctx ctx, _ struct{}) (any, error) { return struct{}{}, g.spool.Flush(ctx) })
	g.calls["spoolPending"] = typed(func(_ ctx, _ struct{}) (any, error) {
		return map[string]any{"pending": g.spool.Pending()}, nil
	})
}

type sessionArgs struct {
	ID        string
	Continues *struct{ SID, KID, Hash string }
}

func (a sessionArgs) after() attestd.Continuation {
	return attestd.Continuation{Session: a.Continues.SID, KeyID: a.Continues.KID, Hash: a.Continues.Hash}
}

type signedArgs struct {
	attestArgs
	End bool
}

func (g *goRunner) signed(a signedArgs) attestd.Attestation {
	made := a.attestation()
	made.Last = a.End // the key says which agent it is
	return made
}

func lastOf(c *attestd.Continuation) any {
	return map[string]any{"sid": c.Session, "kid": c.KeyID, "hash": c.Hash}
}

// sessions are the calls about what an agent signs.
func (g *goRunner) sessions() {
	type ctx = context.Context
	g.calls["agentKeys"] = typed(func(ctx ctx, _ struct{}) (any, error) {
		_, err := g.AgentKeys(ctx, g.identity.AgentID())
		return struct{}{}, err
	})
	g.calls["sessionBegin"] = typed(func(_ ctx, a sessionArgs) (_ any, err error) {
		if a.Continues != nil {
			g.session, err = g.SessionAfter(a.ID, a.after())
		} else {
			g.session, err = g.Session(a.ID)
		}
		return struct{}{}, err
	})
	g.calls["sessionAttest"] = typed(func(ctx ctx, a signedArgs) (any, error) { return g.session.Attest(ctx, g.signed(a)) })
	g.calls["sessionLast"] = typed(func(ctx, struct{}) (any, error) { return lastOf(g.session.Last()), nil })
	g.calls["spoolSessionBegin"] = typed(func(_ ctx, a sessionArgs) (_ any, err error) {
		if a.Continues != nil {
			g.spooled, err = g.spool.SessionAfter(g.identity, a.ID, a.after())
		} else {
			g.spooled, err = g.spool.Session(g.identity, a.ID)
		}
		return struct{}{}, err
	})
	g.calls["spoolSessionAttest"] = typed(func(ctx ctx, a signedArgs) (any, error) {
		r, queued, err := g.spooled.Attest(ctx, g.signed(a))
		if queued || err != nil {
			return map[string]any{"queued": queued}, err
		}
		return map[string]any{"queued": false, "record": r}, nil
	})
	g.calls["spoolSessionLast"] = typed(func(ctx, struct{}) (any, error) {
		last, err := g.spooled.Last()
		if err != nil {
			return nil, err
		}
		return lastOf(last), nil
	})
}

// genuine calls a check with a pinned key.
func genuine(key string, check func(chain.KeySet) error) (any, error) {
	var pinned ed25519.PublicKey
	pinned, err := attestd.ParsePublicKey(key)
	if err != nil {
		return nil, err
	}
	err = check(attestd.Pin(pinned))
	if err != nil && !errors.Is(err, attestd.ErrNotGenuine) {
		return nil, err
	}
	return map[string]any{"genuine": err == nil}, nil
}
