package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// state is one way to present a credential, or none.
type state struct {
	name   string
	header []string
	query  string // added to the path
	who    caller
	enrols bool // it is an enrolment token, which no OAuth endpoint takes
	reason bool // a refusal says why
}

type caller int

const (
	stranger caller = iota // refused on routes with a credential
	other                  // another tenant
	owner
)

// arena is a running server with two tenants.
type arena struct {
	*harness.Service
	db     string
	routes []operation
	// acme is the company in the document's examples, and the target
	acme, globex *tenant
	public       string // what anybody may see
}

// credentials sends every request in every state of credentials. A caller without access must get
// only a 401, and another tenant must find nothing of the first, in any byte. At the end, nothing
// of the first may have changed.
func credentials(ctx context.Context, r *harness.Run) error {
	a, err := newArena(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Stop() }()
	before, err := a.acme.state()
	if err != nil {
		return err
	}
	w := &sweep{Run: r, routes: a.routes, secrets: a.acme.secrets(a.public), statuses: map[string]int{},
		reached: map[string]bool{}}
	states := credentialStates(a.acme, a.globex)
	for i, st := range states {
		if st.who == owner && states[i-1].who != owner { // all hostile requests are done
			after, err := a.acme.state()
			if err != nil {
				return err
			}
			if paths := differences(before, after); len(paths) > 0 {
				r.Failf("what acme reads of itself has changed under the hands of others: %s",
					strings.Join(paths, "; "))
			}
		}
		r.Step(i, len(states), "states")
		if err := w.try(ctx, &harness.Client{Addr: a.Addr}, st, a.acme); err != nil {
			return err
		}
	}
	w.report()
	if err := strangersStream(r, a.acme, a.globex); err != nil {
		return err
	}
	r.Count(w.requests, "requests")
	r.Count(len(states), "states of credentials")
	r.Count(len(a.routes), "routes")
	r.Count(len(w.secrets), "texts that nobody else may see")
	_, err = r.Lab.Verify(ctx, a.db)
	return errors.Join(err, a.Stop())
}

// newArena creates the tenants, waits until a token of acme's has expired, and starts the server
// again.
func newArena(ctx context.Context, r *harness.Run) (*arena, error) {
	flags := []string{"--rate-limits", "sensitive=1000000,attest=1000000,standard=1000000", "--no-recover-endpoint"}
	first, db, err := r.Lab.ServeNew(ctx, flags...)
	if err != nil {
		return nil, err
	}
	a := &arena{db: db}
	if err := errors.Join(a.fill(first.Addr), first.Stop()); err != nil {
		return nil, err
	}
	if err := sleep.For(ctx, time.Until(a.acme.ends)); err != nil {
		return nil, err
	}
	if a.Service, err = r.Lab.Serve(ctx, a.db, flags...); err != nil {
		return nil, err
	}
	a.acme.Addr, a.globex.Addr = a.Addr, a.Addr
	return a, nil
}

func (a *arena) fill(addr string) (err error) {
	c := &harness.Client{Addr: addr}
	defer c.Close()
	if a.public, a.routes, err = readDocument(c); err != nil {
		return err
	}
	deletable := slices.ContainsFunc(a.routes, func(op operation) bool {
		return op.method == "DELETE" && op.path == "/v1/oauth/clients/{clientId}"
	})
	if a.acme, err = newTenant(addr, "acme", deletable); err != nil {
		return err
	}
	defer a.acme.Close()
	if a.globex, err = newTenant(addr, "globex", deletable); err != nil {
		return err
	}
	defer a.globex.Close()
	a.public += a.acme.published + string(a.globex.seen)
	for _, path := range []string{"/v1/ca/public-key?companyId=acme", "/v1/ca/public-keys?companyId=acme",
		"/v1/ca/well-known?companyId=acme"} {
		answer, err := c.Do(harness.Request{Method: "GET", Path: path})
		if err != nil {
			return err
		}
		a.public += string(answer.Body)
	}
	return nil
}

func credentialStates(acme, globex *tenant) []state {
	bearer := func(text string) []string { return []string{"Authorization: Bearer " + text} }
	key := acme.names["key"]
	unknown := make([]byte, 32)
	_, _ = rand.Read(unknown) // never returns an error
	list := []state{
		{name: "none"},
		{name: "an empty bearer", header: bearer("")},
		{name: "a malformed bearer", header: bearer(`"{}; DROP TABLE`)},
		{name: "an unknown key", header: bearer("svc_" + base64.RawURLEncoding.EncodeToString(unknown))},
		{name: "a deleted key", header: bearer(acme.deleted)},
		{name: "an expired token", header: bearer(acme.expired)},
		{name: "Basic with a good key", header: []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"+key))}},
		{name: "a good key in the query", query: "access_token=" + key + "&api_key=" + key + "&key=" + key},
		{name: "a good key in other headers", header: []string{"X-Api-Key: " + key, "Cookie: key=" + key, "Proxy-Authorization: Bearer " + key}},
		{name: "a good key in another case", header: bearer(strings.ToUpper(key))},
		{name: "a good key and more", header: bearer(key + "==")},
		{name: "a good key cut short", header: bearer(key[:len(key)-1])},
		{name: "a good key of another scheme", header: []string{"Authorization: Token " + key}},
		{name: "a good passport", header: bearer(acme.names["passport"])},
		{name: "an OAuth client's ID", header: bearer(acme.names["clientId"])},
		{name: "a spent enrolment token", header: bearer(acme.agents.spent)},
		{name: "a token of a revoked key", header: bearer(acme.agents.revoked)},
		{name: "a bound token as Bearer", header: bearer(acme.agents.bound), reason: true},
		{name: "a bound token without a proof", header: []string{"Authorization: DPoP " + acme.agents.bound}, reason: true},
		{name: "a bound token as a subprotocol", header: []string{"Sec-WebSocket-Protocol: attestd.bearer, " + acme.agents.bound}},
	}
	if acme.orphan != "" {
		list = append(list, state{name: "a token of a deleted client", header: bearer(acme.orphan)})
	}
	return append(list,
		state{name: "another tenant's key", header: bearer(globex.key), who: other},
		state{name: "another tenant's token", header: bearer(globex.token), who: other},
		state{name: "another tenant's agent", header: bearer(globex.agents.token), who: other},
		state{name: "another tenant's enrolment token", header: bearer(globex.agents.enrolment), who: other},
		state{name: "an agent", header: bearer(acme.agents.token), who: owner},
		state{name: "an enrolment token", header: bearer(acme.agents.enrolment), who: owner, enrols: true},
		state{name: "a good key", header: bearer(acme.key), who: owner},
		state{name: "a good token", header: bearer(acme.token), who: owner})
}
