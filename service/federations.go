package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"attestd/crypto/idtoken"
	"attestd/crypto/jcs"
	"attestd/internal/bounded"
	"attestd/internal/keysets"
	"attestd/service/federation"
	"attestd/store"
)

// Federations are other issuers whose tokens companies trust.
type Federations struct {
	Store  *store.Store
	Agents *Agents
	Nonces *Nonces
	Sets   *keysets.Sets

	Refusals *Refusals
	// how many subjects a rule lets in on a day, each of which has a control record
	MostSubjects func() int
	// what is wrong with a URL of a key set, or nil
	CheckURL func(url string) error

	rules  *parsed[*federation.Rules]
	pinned *parsed[*idtoken.KeySet]
}

// NewFederations returns the federations of a store, whose fetched keys come from sets.
func NewFederations(s *store.Store, agents *Agents, nonces *Nonces, refusals *Refusals, sets *keysets.Sets, checkURL func(url string) error) *Federations {
	return &Federations{Store: s, Agents: agents, Nonces: nonces, Refusals: refusals, Sets: sets, CheckURL: checkURL,
		rules: newParsed(federation.Parse), pinned: newParsed(idtoken.ParseKeySet)}
}

// warmed is how many key sets Warm fetches at most.
const warmed = 1000

// Warm fetches the key sets of federations, so that the first workload after a start does not wait
// for an outside server. Requests need not wait for Warm.
func (s *Federations) Warm(ctx context.Context) error {
	found, err := s.Store.Federations.Fetched(ctx, warmed)
	if err != nil {
		return err
	}
	wanted := make([]keysets.Named, len(found))
	for i, f := range found {
		wanted[i] = keysets.Named{Company: f.Company, Source: sourceOf(store.Federation{Issuer: f.Issuer, JWKSURI: f.JWKSURI})}
	}
	s.Sets.Warm(ctx, wanted)
	return nil
}

const (
	maxFederations   = 32       // of a company
	maxFederationURI = 1024     // bytes of an issuer and of an audience: both are in one index
	maxPinnedKeys    = 16 << 10 // bytes of a key set, which is in a control record
)

// Federation is an issuer that a company trusts.
type Federation struct {
	Name      string          `json:"name"`
	Issuer    string          `json:"issuer"`
	Audience  string          `json:"audience"`
	JWKS      json.RawMessage `json:"jwks,omitempty"`
	JWKSURI   string          `json:"jwksUri,omitempty"`
	Rules     json.RawMessage `json:"rules"`
	CreatedAt string          `json:"createdAt"`
	Keys      FetchedKeys     `json:"keys"`
}

func sourceOf(f store.Federation) keysets.Source {
	if f.JWKSURI != "" {
		return keysets.Source{URL: f.JWKSURI}
	}
	return keysets.Source{Issuer: f.Issuer}
}

func (s *Federations) show(by store.Caller, f store.Federation) Federation {
	shown := Federation{
		Name: f.Name, Issuer: f.Issuer, Audience: f.Audience, JWKSURI: f.JWKSURI, Rules: json.RawMessage(f.Rules), CreatedAt: f.CreatedAt,
	}
	if f.JWKS != "" {
		shown.JWKS = json.RawMessage(f.JWKS)
		if set, err := s.pinned.of(f.JWKS); err == nil {
			shown.Keys.Count = set.Len()
		}
		return shown
	}
	shown.Keys = fetchedKeys(s.Sets.State(by.Company.Chain, sourceOf(f)))
	return shown
}

// NewFederation is what a federation is to be.
type NewFederation struct {
	Name, Issuer, Audience string
	JWKS                   json.RawMessage // nil without
	JWKSURI                string          // "" without
	Rules                  json.RawMessage
}

// Create creates a federation, and begins to fetch its keys.
func (s *Federations) Create(ctx context.Context, by store.Caller, n NewFederation) (Federation, error) {
	f, err := s.check(n)
	if err != nil {
		return Federation{}, err
	}
	f, err = s.Store.Federations.Create(ctx, by, f, maxFederations)
	switch {
	case errors.Is(err, store.ErrExists):
		return Federation{}, &Error{Kind: Conflict, Code: "FEDERATION_EXISTS",
			Message: "The company has a federation of this name, or of this issuer and audience; delete that first"}
	case errors.Is(err, store.ErrTooMany):
		return Federation{}, TooMany("federations", maxFederations)
	case err != nil:
		return Federation{}, err
	}
	if f.JWKS == "" {
		s.Sets.Prepare(by.Company.Chain, sourceOf(f))
	}
	return s.show(by, f), nil
}

// check refuses what would trust no one, or more than is meant.
func (s *Federations) check(n NewFederation) (f store.Federation, err error) {
	wrong := func(field, what string) (store.Federation, error) {
		return store.Federation{}, &Error{Kind: Invalid, Message: "Invalid field: " + field + " " + what, Pointer: "/" + field}
	}
	for field, value := range map[string]string{"issuer": n.Issuer, "audience": n.Audience} {
		if !isVisible(value) || len(value) > maxFederationURI {
			return wrong(field, fmt.Sprintf("must be 1 to %d visible ASCII characters", maxFederationURI))
		}
	}
	f = store.Federation{Name: n.Name, Issuer: n.Issuer, Audience: n.Audience, JWKSURI: n.JWKSURI}
	switch {
	case n.JWKS != nil && n.JWKSURI != "":
		return wrong("jwksUri", "must not stand beside jwks: one of them has the keys")
	case n.JWKS != nil:
		if len(n.JWKS) > maxPinnedKeys {
			return wrong("jwks", fmt.Sprintf("must have at most %d bytes", maxPinnedKeys))
		}
		if _, err := idtoken.ParseKeySet(n.JWKS); err != nil {
			return wrong("jwks", err.Error())
		}
		canonical, err := jcs.Append(nil, n.JWKS, maxKeySetDepth)
		if err != nil {
			return wrong("jwks", "has no canonical form: "+err.Error())
		}
		f.JWKS = string(canonical)
	case n.JWKSURI != "":
		if err := s.CheckURL(n.JWKSURI); err != nil {
			return wrong("jwksUri", err.Error())
		}
	default:
		if err := s.CheckURL(n.Issuer); err != nil {
			return wrong("issuer", err.Error()+", or have its keys in jwks or at jwksUri")
		}
		if strings.Contains(n.Issuer, "?") {
			return wrong("issuer", "must not have a query (OpenID Connect Discovery 1.0)")
		}
	}
	rules, err := federation.Parse(n.Rules)
	if err != nil {
		var bad *federation.Error
		if errors.As(err, &bad) {
			err = &Error{Kind: Invalid, Message: "Invalid field: rules" + bad.Pointer + " " + bad.Message, Pointer: "/rules" + bad.Pointer}
		}
		return store.Federation{}, err
	}
	// a person is named issuer#sub, and never as a SPIFFE ID is
	if rules.HavePersons() && (strings.Contains(n.Issuer, "#") || !strings.HasPrefix(n.Issuer, "https://") && !strings.HasPrefix(n.Issuer, "http://")) {
		return wrong("issuer", "must be a URL without # where a rule is for persons")
	}
	f.Rules = rules.String()
	return f, nil
}

const maxKeySetDepth = 5 // of keys with lists of certificates; a control record has it

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

// List yields the federations of a company in the order of their creation.
func (s *Federations) List(ctx context.Context, by store.Caller) iter.Seq2[Federation, error] {
	return Map(s.Store.Federations.List(ctx, by), func(f store.Federation) Federation { return s.show(by, f) })
}

// Get returns a federation.
func (s *Federations) Get(ctx context.Context, by store.Caller, name string) (Federation, error) {
	f, err := s.Store.Federations.Get(ctx, by, name)
	if err != nil {
		return Federation{}, federationError(err)
	}
	return s.show(by, f), nil
}

// Delete deletes a federation. The access tokens of its workloads end with it.
func (s *Federations) Delete(ctx context.Context, by store.Caller, name string) error {
	return federationError(s.Store.Federations.Delete(ctx, by, name))
}

func federationError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return refuse(NotFound, "Federation not found")
	}
	return err
}

// maxParsed bounds the texts of one parsed, in bytes.
const maxParsed = 4 << 20

// parsed remembers what texts of rows mean. That depends on nothing else, so none is parsed again
// at each use, and nothing has to be forgotten when a row goes. It is safe for concurrent use.
type parsed[T any] struct {
	parse func([]byte) (T, error)

	mu    sync.Mutex
	known *bounded.Map[string, T]
}

func newParsed[T any](parse func([]byte) (T, error)) *parsed[T] {
	size := func(text string, _ T) int { return len(text) }
	return &parsed[T]{parse: parse, known: bounded.NewWeighted(maxParsed, size)}
}

// of returns what a text means.
func (p *parsed[T]) of(text string) (T, error) {
	p.mu.Lock()
	v, is := p.known.Get(text)
	p.mu.Unlock()
	if is {
		return v, nil
	}
	v, err := p.parse([]byte(text))
	if err != nil {
		return v, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Put(text, v)
	return v, nil
}
