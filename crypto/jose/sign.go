package jose

import (
	"context"
	"errors"
	"fmt"

	"attestd/crypto/jcs"
)

// Signer signs with a key that may be elsewhere: in memory ([PrivateKey]), a TPM, a keychain or a
// KMS.
type Signer interface {
	// Key is the public key with which the signatures verify. It is always the same one.
	Key() *Key

	// Sign signs input, the first two parts of a compact JWS. The signature is 64 bytes: that of
	// Ed25519 over input, or R and S of ECDSA over its SHA-256, 32 bytes each, big-endian. (A KMS
	// returns the latter in DER; its two integers are to be taken out.)
	Sign(ctx context.Context, input string) ([]byte, error)
}

// Sign makes a compact JWS with the header {"alg","typ"} and then kid, the thumbprint. payload is
// the text of the payload.
func Sign(ctx context.Context, s Signer, typ string, payload []byte) (string, error) {
	return sign(ctx, s, typ, jcs.AppendString([]byte(`,"kid":`), s.Key().Thumbprint), payload)
}

// SignWithJWK makes a compact JWS with the header {"alg","typ"} and then jwk, the public key.
func SignWithJWK(ctx context.Context, s Signer, typ string, payload []byte) (string, error) {
	return sign(ctx, s, typ, append([]byte(`,"jwk":`), s.Key().jwk...), payload)
}

// sign verifies what the signer returns, so that a signer of another key, or of another form, is
// found here and not by whoever checks.
func sign(ctx context.Context, s Signer, typ string, naming, payload []byte) (string, error) {
	key := s.Key()
	header := jcs.AppendString([]byte(`{"alg":`), key.Algorithm)
	header = jcs.AppendString(append(header, `,"typ":`...), typ)
	header = append(append(header, naming...), '}')

	length := base64url.EncodedLen(len(header)) + 1 + base64url.EncodedLen(len(payload))
	buf := make([]byte, 0, length+1+base64url.EncodedLen(SignatureSize))
	buf = base64url.AppendEncode(buf, header)
	buf = base64url.AppendEncode(append(buf, '.'), payload)
	input := string(buf)
	signature, err := s.Sign(ctx, input)
	if err != nil {
		return "", fmt.Errorf("sign with key %s: %w", key.Thumbprint, err)
	}
	made := Token{Header: Header{Algorithm: key.Algorithm}, Signed: input, Signature: signature}
	if key.Verify(made) != nil {
		return "", errors.New("the signer of key " + key.Thumbprint + " returned what is no signature of it: " +
			"64 bytes are due, of Ed25519, or R and S of ES256")
	}
	return string(base64url.AppendEncode(append(buf, '.'), signature)), nil
}
