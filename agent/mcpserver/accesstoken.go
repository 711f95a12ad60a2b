package mcpserver

import (
	"context"
	"errors"
	"strings"
	"time"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
	"attestd/internal/keysets"
)

// Keys returns key sets of issuers. [keysets.Sets] does, and fetches them beside requests.
type Keys interface {
	// Check calls check with the key set at a source, and with a newer one where that has not
	// signed what is checked. The error is that of check, *keysets.Unavailable, or that of ctx.
	Check(ctx context.Context, of int64, from keysets.Source, check func(*idtoken.KeySet) error) error
}

// refusedToken says why an access token is refused. It contains nothing of the token.
type refusedToken string

func (r refusedToken) Error() string { return "the access token " + string(r) }

// authorize checks an access token (RFC 9068 §4) without asking the service: it must be signed with
// ES256 by a key of the company's issuer, for this resource alone, and be valid now. The error is a
// refusedToken, *keysets.Unavailable, or that of ctx.
func (r *Resource) authorize(ctx context.Context, compact string, now time.Time) (rights, error) {
	signed, err := jose.Parse(compact, idtoken.MaxSize)
	if err != nil {
		return rights{}, refusedToken("is not a signed JWT")
	}
	kind := strings.TrimPrefix(strings.ToLower(signed.Header.Type), "application/")
	switch {
	case kind != "at+jwt": // a token that says who an agent is gives no access
		return rights{}, refusedToken("must have the typ at+jwt: ask for one with resource=" + r.URL)
	case signed.Header.Algorithm != jose.ES256:
		return rights{}, refusedToken("must be signed with ES256")
	}
	token, err := idtoken.Parse(compact)
	if err != nil {
		return rights{}, refusedToken("must have iss, sub, exp and exactly one aud, no act, and no key in its header")
	}
	switch {
	case token.Issuer != r.Issuer:
		return rights{}, refusedToken("must be of the issuer " + r.Issuer)
	case !r.is(token.Audience):
		return rights{}, refusedToken("must be for " + r.URL + " alone: ask for one with that as resource")
	case !now.Before(token.Ends):
		return rights{}, refusedToken("has expired")
	}
	err = r.Keys.Check(ctx, 0, keysets.Source{Issuer: r.Issuer}, func(keys *idtoken.KeySet) error {
		return token.Check(keys, idtoken.Wanted{Issuer: r.Issuer, Audience: token.Audience}, now)
	})
	var refused *idtoken.Error
	switch {
	case errors.As(err, &refused):
		return rights{}, refusedToken("is not signed by a key of the issuer, or its times do not hold")
	case err != nil:
		return rights{}, err
	}
	return r.rightsOf(token.Claims)
}

// rightsOf returns what the claims of a verified token allow.
func (r *Resource) rightsOf(claims idtoken.Claims) (rights, error) {
	text := func(name string) string {
		value, _ := claims.At(name)
		s, _ := strictjson.AsString(value)
		return s
	}
	given := rights{limited: true, scopes: strings.Fields(text("scope")), agent: text("agent_id"), jkt: text("/cnf/jkt")}
	_, bound := claims.At("cnf")
	switch {
	case text("org") != r.Company:
		return rights{}, refusedToken("is of another company")
	case bound && given.jkt == "":
		return rights{}, refusedToken("is bound to something else than a key by DPoP")
	}
	return given, nil
}
