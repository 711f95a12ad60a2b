package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/crypto/strictjson"
	"attestd/internal/keysets"
	"attestd/internal/outbound"
	"attestd/service/federation"
	"attestd/store"
)

// OIDC signs people in with their accounts at an identity provider (OpenID Connect Core 1.0, the
// code flow with PKCE of RFC 7636 and the iss of RFC 9207).
//
// A sign-in that has begun is remembered by no server: its state is signed and ends, and its
// verifier and nonce follow from a secret that the browser alone has, in a cookie. So a callback
// may reach any server of the database, and counts in the browser that has begun it alone.
type OIDC struct {
	OIDCConfig
	Store    *store.Store
	Refusals *Refusals

	sets    *keysets.Sets
	client  *http.Client
	guard   outbound.Guard
	running *semaphore.Weighted // requests to the provider

	mu       sync.Mutex
	provider *provider // nil before the first sign-in
	fetched  time.Time
	tried    time.Time // when the last attempt to fetch it failed
}

// OIDCConfig is the identity provider of a service, at which it is a client.
type OIDCConfig struct {
	Issuer, ClientID string
	Secret           string
	// by which accounts are admitted. Without rules, those of people who have the account already,
	// where the database has one company.
	Rules *federation.PeopleRules
}

const (
	oidcTimeout   = 5 * time.Second // of a request to the provider
	oidcFresh     = time.Hour       // of its metadata
	oidcRetry     = 5 * time.Second // after its metadata could not be fetched
	maxOIDCAnswer = 256 << 10       // bytes
	maxOIDCRuns   = 16              // sign-ins that ask the provider at once
	maxOIDCCode   = 4096            // bytes of what a callback hands over
	maxSubjectSub = 255             // OpenID Connect Core 1.0 §2
)

// ofService is for whom the provider's keys are fetched: it is the number of no company.
const ofService = 0

// oidcAlgorithms are those of ID tokens: asymmetric ones alone.
var oidcAlgorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// CheckOIDCIssuer says what is wrong with the address of an identity provider. http is for one on
// this machine, where private addresses are allowed.
func CheckOIDCIssuer(issuer string, allowPrivate bool) error {
	if err := outbound.NewGuard(allowPrivate).CheckURL(issuer); err != nil {
		return err
	}
	u, err := url.Parse(issuer)
	if err != nil || u.RawQuery != "" {
		return errors.New("must be a URL without a query")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return errors.New("must be an https URL, or http on a loopback address")
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// NewOIDC returns the sign-in by a provider, whose address CheckOIDCIssuer accepts.
func NewOIDC(c OIDCConfig, s *store.Store, refusals *Refusals, sets *keysets.Sets, o outbound.Options) *OIDC {
	guard := outbound.NewGuard(o.AllowPrivate)
	client, transport := outbound.NewClient(o, &net.Dialer{Resolver: o.Resolver, Control: guard.Allow})
	transport.DisableKeepAlives = true // so that each request has its address judged
	client.Timeout = oidcTimeout
	client.Transport = bodyLimit{transport}
	return &OIDC{OIDCConfig: c, Store: s, Refusals: refusals, sets: sets, client: client, guard: guard, running: semaphore.NewWeighted(maxOIDCRuns)}
}

// bodyLimit bounds what a provider answers.
type bodyLimit struct{ http.RoundTripper }

func (b bodyLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxOIDCAnswer)
	}
	return answer, err
}

// provider is what the metadata of an identity provider say.
type provider struct {
	endpoint oauth2.Endpoint
	keys     keysets.Source
	sendsIss bool // answers of the authorization endpoint have iss (RFC 9207 §2.4)
}

var (
	errOIDCState = &Error{Kind: Untrusted, Code: "OIDC_STATE",
		Message: "Unauthorized: this sign-in has ended, was used, or began in another browser; begin again on the console's page"}
	errOIDCBusy = &Error{Kind: Unavailable, Code: "OIDC_UNAVAILABLE", Message: "Service Unavailable: many people are signing in; try again in a moment"}
)

func oidcUnavailable(why string) *Error {
	return &Error{Kind: Unavailable, Code: "OIDC_UNAVAILABLE", Message: "Service Unavailable: the identity provider cannot be used: " + why}
}

func oidcRefused(why string) *Error {
	return &Error{Kind: Untrusted, Code: "OIDC_REFUSED", Message: "Unauthorized: " + why}
}

// discover returns the provider, whose metadata it fetches when they are old. Where that fails, the
// former ones count on. It holds the lock while it asks, so that one request at a time does, and
// the others learn from that.
func (o *OIDC) discover(ctx context.Context) (*provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.provider != nil && now.Before(o.fetched.Add(oidcFresh)) {
		return o.provider, nil
	}
	if now.Before(o.tried.Add(oidcRetry)) {
		if o.provider != nil {
			return o.provider, nil
		}
		return nil, oidcUnavailable("its metadata could not be fetched a moment ago")
	}
	found, err := o.fetch(ctx)
	switch {
	case err == nil:
		o.provider, o.fetched = found, time.Now()
	case ctx.Err() != nil: // of the request, and not of the provider
	default:
		o.tried = time.Now()
	}
	if err != nil && o.provider == nil {
		return nil, err
	}
	return o.provider, nil
}

func (o *OIDC) fetch(ctx context.Context) (*provider, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, o.client), o.Issuer)
	var other *oidc.IssuerMismatchError
	switch {
	case errors.As(err, &other):
		return nil, oidcUnavailable("its metadata are of another issuer")
	case err != nil: // whose text may hold an answer
		return nil, oidcUnavailable("its metadata cannot be fetched")
	}
	var metadata struct {
		KeySet   string   `json:"jwks_uri"`
		SendsIss bool     `json:"authorization_response_iss_parameter_supported"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&metadata); err != nil {
		return nil, oidcUnavailable("its metadata are not of the form of OpenID Connect")
	}
	p := &provider{found.Endpoint(), keysets.Source{URL: metadata.KeySet}, metadata.SendsIss}
	for _, address := range []string{p.endpoint.AuthURL, p.endpoint.TokenURL, metadata.KeySet} {
		u, err := url.Parse(address)
		if err != nil || o.guard.CheckURL(address) != nil || u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return nil, oidcUnavailable("its metadata name an endpoint that is not used from here")
		}
	}
	// the default where metadata do not say (OpenID Connect Discovery 1.0 §3)
	p.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(metadata.Methods) > 0 && !slices.Contains(metadata.Methods, "client_secret_basic") {
		p.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return p, nil
}

// redirect is where the provider sends the browser back to.
func (o *OIDC) redirect(base string) string { return base + "/v1/people/oidc/callback" }

func (o *OIDC) config(p *provider, base string) *oauth2.Config {
	return &oauth2.Config{ClientID: o.ClientID, ClientSecret: o.Secret, Endpoint: p.endpoint, RedirectURL: o.redirect(base), Scopes: []string{oidc.ScopeOpenID, "profile", "email"}}
}

// verifierOf and nonceOf follow from the secret of the browser, which the provider never learns.
func verifierOf(browser string) string { return accountSecret("PKCE verifier", browser) }

func nonceOf(browser string) string { return accountSecret("nonce", browser) }

func accountSecret(what, browser string) string {
	sum := sha256.Sum256([]byte("attestd sign-in with an account\n" + what + "\n" + browser))
	return base64url.EncodeToString(sum[:])
}

// OIDCStart is where a browser goes to sign in, and the secret that it has meanwhile.
type OIDCStart struct {
	Location string
	Browser  string
}

// Begin begins a sign-in at an address of this service, "" for none that is known.
func (o *OIDC) Begin(ctx context.Context, base string, at time.Time) (OIDCStart, error) {
	if base == "" {
		return OIDCStart{}, refuse(Conflict, "Conflict: this request has come under another name than that of this service: "+ErrNoName.Error())
	}
	p, err := o.discover(ctx)
	if err != nil {
		return OIDCStart{}, err
	}
	browser := keys.NewSecret("acc")
	state, err := o.Store.People.AccountState(ctx, keys.HashSecret(browser), at)
	if err != nil {
		return OIDCStart{}, err
	}
	return OIDCStart{o.config(p, base).AuthCodeURL(base64url.EncodeToString(state),
		oidc.Nonce(nonceOf(browser)), oauth2.S256ChallengeOption(verifierOf(browser))), browser}, nil
}

// OIDCAnswer is what the provider hands to the callback by the browser, "" for what is absent.
type OIDCAnswer struct{ State, Code, Issuer, Error string }

// Finish signs in who comes back from the provider with the browser's secret.
func (o *OIDC) Finish(ctx context.Context, base, browser string, a OIDCAnswer, at time.Time) (SignedIn, error) {
	state, err := base64url.DecodeString(a.State)
	if err != nil || browser == "" || base == "" || len(a.State)+len(a.Code)+len(a.Issuer) > maxOIDCCode {
		return SignedIn{}, errOIDCState
	}
	used, err := o.Store.People.CheckAccountState(ctx, keys.HashSecret(browser), state, at)
	if errors.Is(err, store.ErrUsed) {
		err = errOIDCState
	}
	if err != nil {
		return SignedIn{}, err
	}
	p, err := o.discover(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	switch {
	case a.Issuer != "" && a.Issuer != o.Issuer, a.Issuer == "" && p.sendsIss:
		return SignedIn{}, oidcRefused("the answer is not of the identity provider of this service, by its iss")
	case a.Error != "":
		return SignedIn{}, oidcRefused("the identity provider has not signed you in: " + oauthErrorCode(a.Error))
	case a.Code == "":
		return SignedIn{}, oidcRefused("the identity provider has sent no code")
	}
	if !o.running.TryAcquire(1) {
		return SignedIn{}, errOIDCBusy
	}
	account, claims, err := o.redeem(ctx, p, base, browser, a.Code, at)
	o.running.Release(1)
	if err != nil {
		return SignedIn{}, err
	}
	return o.signIn(ctx, account, claims, used, at)
}

// oauthErrorCode is the code of an error (RFC 6749 §4.1.2.1), where it looks like one.
func oauthErrorCode(code string) string {
	if len(code) > 64 || strings.ContainsFunc(code, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		return "it does not say why"
	}
	return code
}

// redeem exchanges a code, and returns the account that the ID token names, with its claims.
func (o *OIDC) redeem(ctx context.Context, p *provider, base, browser, code string, at time.Time) (account store.Subject, claims idtoken.Claims, err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, o.client), 2*oidcTimeout)
	defer cancel()
	tokens, err := o.config(p, base).Exchange(ctx, code, oauth2.VerifierOption(verifierOf(browser)))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return account, claims, oidcRefused("the identity provider does not accept the code; begin again on the console's page")
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return account, claims, oidcUnavailable("it refuses this service: " + oauthErrorCode(refused.ErrorCode))
	case err != nil:
		return account, claims, oidcUnavailable("it does not redeem the code")
	}
	raw, _ := tokens.Extra("id_token").(string)
	if len(raw) == 0 || len(raw) > idtoken.MaxSize {
		return account, claims, oidcUnavailable("it has sent no ID token, or one of more than 16 KiB")
	}
	wrong := func(what string) (store.Subject, idtoken.Claims, error) {
		return account, claims, oidcRefused("the ID token of the identity provider does not count: " + what)
	}
	keySet := &providerKeys{sets: o.sets, from: p.keys}
	verified, err := oidc.NewVerifier(o.Issuer, keySet, &oidc.Config{ClientID: o.ClientID, SupportedSigningAlgs: oidcAlgorithms, Now: func() time.Time { return at }}).Verify(ctx, raw)
	switch {
	case err != nil && keySet.unavailable != nil:
		return account, claims, oidcUnavailable(keySet.unavailable.Error())
	case err != nil: // whose text may hold a part of the token
		return wrong("its issuer, signature, audience or time is wrong")
	}
	var payload json.RawMessage
	if err = verified.Claims(&payload); err == nil {
		claims, err = idtoken.ParseClaims(payload)
	}
	if err != nil {
		return wrong("its claims are not a JSON object without duplicate members")
	}
	azp, hasParty := claims.At("azp")
	party, _ := strictjson.AsString(azp)
	switch {
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(nonceOf(browser))) != 1:
		return wrong("its nonce is of another sign-in")
	case hasParty && party != o.ClientID, !hasParty && len(verified.Audience) != 1:
		return wrong("it is for another client")
	case verified.IssuedAt.After(at.Add(idtoken.MaxAhead)):
		return wrong("its iat is ahead of the clock")
	case verified.AccessTokenHash != "" && verified.VerifyAccessToken(tokens.AccessToken) != nil:
		return wrong("its at_hash is of another access token")
	case !isVisible(verified.Subject) || len(verified.Subject) > maxSubjectSub:
		return wrong("its sub is not 1 to 255 visible ASCII characters")
	}
	return store.Subject{Issuer: o.Issuer, Sub: verified.Subject}, claims, nil
}

// providerKeys are the keys of the provider for one token. They are fetched and remembered as those
// of other issuers are.
type providerKeys struct {
	sets        *keysets.Sets
	from        keysets.Source
	unavailable *keysets.Unavailable
}

// VerifySignature implements oidc.KeySet.
func (k *providerKeys) VerifySignature(ctx context.Context, compact string) ([]byte, error) {
	jws, err := jose.Parse(compact, idtoken.MaxSize)
	if err == nil {
		err = k.sets.Check(ctx, ofService, k.from, func(set *idtoken.KeySet) error {
			if !set.Verify(jws, oidcAlgorithms) {
				return jose.ErrSignature
			}
			return nil
		})
	}
	errors.As(err, &k.unavailable)
	return jws.Payload, err
}

// admitted is what the rules give to an account.
func (o *OIDC) admitted(ctx context.Context, claims idtoken.Claims) (federation.PersonGrant, error) {
	if o.Rules != nil {
		return o.Rules.Match(claims)
	}
	only, err := o.Store.Companies.Only(ctx)
	if errors.Is(err, store.ErrNotFound) {
		err = &federation.Refusal{Message: "this service has no rules that say of which company an account is (--oidc-rules)"}
	}
	if err != nil {
		return federation.PersonGrant{}, err
	}
	return federation.PersonGrant{Rule: -1, CompanyID: only.ID}, nil
}

// signIn signs in an account that the rules admit. One that is refused is counted by the company of
// its rule; one that no rule admits by the company of a database that has no other.
func (o *OIDC) signIn(ctx context.Context, account store.Subject, claims idtoken.Claims, used store.UsedProof, at time.Time) (in SignedIn, err error) {
	var company *store.Company
	defer func() {
		var refused *Error
		if errors.As(err, &refused) && refused.Kind == Forbidden {
			if company == nil {
				// other requests report a database that fails
				company, _ = o.Store.Companies.Only(ctx)
			}
			o.Refusals.Count(ctx, company, "", store.RefusedAccount, at)
		}
	}()
	forbidden := func(code, message string) error {
		return &Error{Kind: Forbidden, Code: code, Message: "Forbidden: " + message}
	}
	grant, err := o.admitted(ctx, claims)
	var refusal *federation.Refusal
	if errors.As(err, &refusal) {
		return SignedIn{}, forbidden("OIDC_NO_RULE", refusal.Message)
	}
	if err != nil {
		return SignedIn{}, err
	}
	company, err = o.Store.Companies.Get(ctx, grant.CompanyID)
	if errors.Is(err, store.ErrNotFound) {
		return SignedIn{}, forbidden("OIDC_NO_RULE", "the rule that matches the account is of a company that is not there")
	}
	if err != nil {
		return SignedIn{}, err
	}
	a := store.AccountSignIn{Account: account, State: used, Rule: grant.Rule, Roles: grant.Roles, Groups: grant.Groups}
	if grant.PersonID != "" {
		n := newcomer(grant, claims)
		if n.check() != nil {
			return SignedIn{}, forbidden("OIDC_NO_RULE", "the rule that matches the account gives an ID that no person may have")
		}
		a.Create = &store.Person{ID: grant.PersonID}
		n.put(a.Create, at)
	}
	by, secret, err := o.Store.People.SignInWithAccount(ctx, company, a, maxPeople, at)
	switch {
	case errors.Is(err, store.ErrUsed):
		err = errOIDCState
	case errors.Is(err, store.ErrNotFound):
		err = forbidden("OIDC_NO_PERSON", "nobody of the company has this account; an admin must add it to a person")
	case errors.Is(err, store.ErrExists):
		err = forbidden("OIDC_NO_PERSON", "the company has another person of this ID, who does not have this account; an admin must add it to that person")
	case errors.Is(err, store.ErrDisabled):
		err = forbidden("PERSON_DISABLED", "the person is disabled")
	case errors.Is(err, store.ErrTooMany):
		err = TooMany("people", maxPeople)
	}
	if err != nil {
		return SignedIn{}, err
	}
	return signedIn(by, secret), nil
}

// newcomer is who is made at the first sign-in. A name or an address that nobody may have here is
// left out: neither says who somebody is.
func newcomer(grant federation.PersonGrant, claims idtoken.Claims) NewPerson {
	n := NewPerson{ID: &grant.PersonID, Name: &grant.PersonID, Roles: grant.Roles, Groups: grant.Groups}
	if n.Roles == nil {
		n.Roles = []string{store.PersonReader}
	}
	text := func(claim string) *string {
		value, _ := claims.At(claim)
		text, _ := strictjson.AsString(value)
		return &text
	}
	if name := text("name"); (NewPerson{Name: name}).check() == nil {
		n.Name = name
	}
	verified, _ := claims.At("email_verified")
	if email := text("email"); *email != "" && string(verified) == "true" && (NewPerson{Email: email}).check() == nil {
		n.Email = email
	}
	return n
}
