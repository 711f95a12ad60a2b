package httpapi

import (
	"errors"
	"net/http"

	"attestd/crypto/dpop"
	"attestd/service"
	"attestd/store"
)

// prove requires that a request whose access token is bound to a key has a proof of that (RFC 9449
// §7.1). See useProof.
func (c *Call) prove(thumbprint string) error {
	if c.proof == nil {
		request := dpop.Request{Method: c.Method, URL: c.OwnURL(), AccessToken: c.Bearer}
		proof, err := service.CheckProof(c.sentProof, request, thumbprint, c.receivedAt)
		if err != nil {
			return invalidProof(err.Error())
		}
		if err := c.api.Nonces.Check(c.Context(), proof.Nonce, c.receivedAt); err != nil {
			return useNonce(err)
		}
		c.proof = &proof
	}
	if c.proof.Key.Thumbprint != thumbprint { // of the token when it was looked up before
		return invalidProof("DPoP proof is of another key than the one that is bound")
	}
	return nil
}

// useNonce is the answer to a proof without a nonce that counts (RFC 9449 §9).
func useNonce(err error) error {
	var nonce *service.NonceError
	if !errors.As(err, &nonce) {
		return err
	}
	answer := &Error{Status: http.StatusUnauthorized, Code: "USE_DPOP_NONCE", Message: "Unauthorized: " + nonce.Error()}
	return answer.With("WWW-Authenticate", `DPoP error="use_dpop_nonce", algs="EdDSA Ed25519 ES256"`).With("DPoP-Nonce", nonce.Nonce)
}

// offerNonce sends the nonce that the next proof needs to a client that sends proofs (RFC 9449
// §8.2).
func (c *Call) offerNonce() {
	if len(c.Header["Dpop"]) == 0 {
		return
	}
	if nonce, err := c.api.Nonces.Current(c.Context(), c.receivedAt); err == nil && nonce != "" {
		c.W.Header().Set("DPoP-Nonce", nonce)
	}
}

// useProof requires that the proof of a request was not sent before. It comes after the limits,
// because it writes.
func (c *Call) useProof() error {
	if c.proof == nil || c.proofUsed {
		return nil
	}
	err := c.api.Store.Credentials.Use(c.Context(), service.UsedProof(c.proof), c.receivedAt)
	if errors.Is(err, store.ErrUsed) {
		return invalidProof("DPoP proof was used before: make one for each request")
	}
	c.proofUsed = err == nil
	return err
}

// invalidProof is the answer to a bad DPoP proof that accompanies an access token.
func invalidProof(why string) *Error {
	answer := &Error{Status: http.StatusUnauthorized, Code: "INVALID_DPOP_PROOF", Message: "Unauthorized: " + why}
	return answer.With("WWW-Authenticate", `DPoP error="invalid_dpop_proof", algs="EdDSA Ed25519 ES256"`)
}

// invalidToken is the answer to an access token that came by the wrong scheme.
func invalidToken(why string) *Error {
	return Fail(http.StatusUnauthorized, "Unauthorized: "+why).With("WWW-Authenticate", `DPoP error="invalid_token", algs="EdDSA Ed25519 ES256"`)
}
