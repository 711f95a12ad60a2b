package server

import (
	"errors"
	"net/http"

	"attestd/crypto/dpop"
	"attestd/service"
	"attestd/store"
)

// prove requires that a request whose access token came by the scheme DPoP has a proof of the key
// that the token is bound to (RFC 9449 §7.1). See useProof.
func (c *call) prove() {
	switch {
	case c.authErr != nil:
		return
	case c.caller.Company == nil || c.caller.JKT == "":
		c.caller, c.authErr = store.Caller{}, invalidToken("the access token is unknown, has ended, or is bound to no key")
		return
	}
	request := dpop.Request{Method: c.Method, URL: c.s.ownURL(c.Request), AccessToken: c.bearer}
	proof, err := service.CheckProof(c.Header.Get("DPoP"), request, c.caller.JKT, c.came)
	if err != nil {
		c.caller, c.authErr = store.Caller{}, invalidProof(err.Error())
		return
	}
	if err := c.s.nonces.Check(c.Context(), proof.Nonce, c.came); err != nil {
		c.caller, c.authErr = store.Caller{}, useNonce(err)
		return
	}
	c.proof = &proof
}

// useNonce is the answer to a proof without a nonce that counts (RFC 9449 §9).
func useNonce(err error) error {
	var nonce *service.NonceError
	if !errors.As(err, &nonce) {
		return err
	}
	answer := &apiError{Status: http.StatusUnauthorized, Code: "USE_DPOP_NONCE", Message: "Unauthorized: " + nonce.Error()}
	return answer.with("WWW-Authenticate", `DPoP error="use_dpop_nonce", algs="EdDSA Ed25519 ES256"`).with("DPoP-Nonce", nonce.Nonce)
}

// offerNonce says which nonce the next proof needs, to whoever sends proofs (RFC 9449 §8.2).
func (c *call) offerNonce() {
	if len(c.Header["Dpop"]) == 0 {
		return
	}
	if nonce, err := c.s.nonces.Current(c.Context(), c.came); err == nil && nonce != "" {
		c.w.Header().Set("DPoP-Nonce", nonce)
	}
}

// useProof requires that the proof of a request was not sent before. It comes after the limits,
// because it writes.
func (c *call) useProof() error {
	if c.proof == nil {
		return nil
	}
	err := c.s.Store.Credentials.Use(c.Context(), service.UsedProof(c.proof), c.came)
	if errors.Is(err, store.ErrUsed) {
		return invalidProof("DPoP proof was used before: make one for each request")
	}
	return err
}

// invalidProof is the answer to a bad DPoP proof beside an access token.
func invalidProof(why string) *apiError {
	answer := &apiError{Status: http.StatusUnauthorized, Code: "INVALID_DPOP_PROOF", Message: "Unauthorized: " + why}
	return answer.with("WWW-Authenticate", `DPoP error="invalid_dpop_proof", algs="EdDSA Ed25519 ES256"`)
}

// invalidToken is the answer to an access token that came by the wrong scheme.
func invalidToken(why string) *apiError {
	return fail(http.StatusUnauthorized, "Unauthorized: "+why).with("WWW-Authenticate", `DPoP error="invalid_token", algs="EdDSA Ed25519 ES256"`)
}
