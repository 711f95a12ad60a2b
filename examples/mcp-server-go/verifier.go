package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
)

// verifier checks access tokens (RFC 9068) with the key set of their issuer.
type verifier struct {
	ctx              context.Context // of requests for the key set
	issuer, resource string
	keysURL          string
	// whether tokens are accepted with which somebody acts for their subject
	actors bool

	mu      sync.Mutex
	keys    *oidc.IDTokenVerifier
	expires time.Time
}

// newVerifier reads the metadata of the issuer, which must be its own.
func newVerifier(ctx context.Context, issuer, resource string, actors bool) (*verifier, error) {
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, err
	}
	var metadata struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, err
	}
	return &verifier{ctx: ctx, issuer: issuer, resource: resource, keysURL: metadata.KeysURL, actors: actors}, nil
}

// current returns a verifier with keys that are no older than the issuer allows: five minutes. A
// key that was stolen is then known no longer.
func (v *verifier) current() *oidc.IDTokenVerifier {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.After(v.expires) {
		v.expires = now.Add(5 * time.Minute)
		v.keys = oidc.NewVerifier(v.issuer, oidc.NewRemoteKeySet(v.ctx, v.keysURL), &oidc.Config{
			ClientID: v.resource, SupportedSigningAlgs: []string{oidc.ES256},
		})
	}
	return v.keys
}

// verify implements auth.TokenVerifier.
func (v *verifier) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	// go-oidc verifies ID tokens too, so the type of the token is checked here.
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType] != "at+jwt" {
		return nil, fmt.Errorf("%w: it must be an at+jwt, signed with ES256", auth.ErrInvalidToken)
	}
	// Signature, issuer, audience and expiry.
	verified, err := v.current().Verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not of this issuer, for this server and valid now", auth.ErrInvalidToken)
	}
	var claims struct {
		Scope   string `json:"scope"`
		Confirm any    `json:"cnf"`
		Act     *struct {
			Subject string `json:"sub"`
		} `json:"act"`
	}
	if err := verified.Claims(&claims); err != nil {
		return nil, auth.ErrInvalidToken
	}
	switch {
	case len(verified.Audience) != 1: // another server that has it could use it here
		return nil, fmt.Errorf("%w: it must be for this server alone", auth.ErrInvalidToken)
	case claims.Confirm != nil:
		return nil, fmt.Errorf("%w: it is bound to a key (DPoP), whose proof is not checked here", auth.ErrInvalidToken)
	case claims.Act != nil && !v.actors: // who presents it is not its subject
		return nil, fmt.Errorf("%w: somebody acts for its subject, which this server is not told to accept", auth.ErrInvalidToken)
	}
	caller := verified.Subject
	if claims.Act != nil { // the outermost is the current actor (RFC 8693 §4.1)
		caller = claims.Act.Subject + " for " + verified.Subject
	}
	return &auth.TokenInfo{Scopes: covered(claims.Scope), Expiration: verified.Expiry, UserID: caller}, nil
}

// covered returns the scopes of a token with those that they cover. An agent may write here.
func covered(scope string) []string {
	var all []string
	for name := range strings.FieldsSeq(scope) {
		switch name {
		case "admin", "writer", "agent":
			all = append(all, name, "writer", "reader")
		case "reader":
			all = append(all, name)
		}
	}
	return all
}
