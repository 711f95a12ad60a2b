// Package passkey verifies what a person has signed with a passkey: an assertion of WebAuthn level
// 3. It needs no server and no state, so that whoever has the record of an assertion can verify it.
//
// An authenticator signs authenticatorData and then the SHA-256 of clientDataJSON (§6.3.3). An
// assertion is valid if
//
//   - clientDataJSON is strict JSON with the type webauthn.get, the challenge in base64url without
//     padding, and an expected origin; crossOrigin is absent or false, and there is no topOrigin.
//     Other members are ignored;
//   - authenticatorData begins with the SHA-256 of the relying party's ID, has the flags UP (a
//     person was there) and UV (it was the right one), has BS only with BE, and has 37 bytes, or
//     more where it says that it has extensions;
//   - the signature is the key's: DER for ES256, 64 bytes for EdDSA, PKCS #1 v1.5 for RS256.
//
// The counter is not judged: synced passkeys count nothing.
//
// A key is stored and recorded as the canonical CBOR of its COSE form (CTAP2, "CTAP2 canonical CBOR
// encoding form"). For the three algorithms here that is a fixed frame around the numbers, so that
// it is read without a CBOR library, and in one way alone.
package passkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"

	"attestd/crypto/strictjson"
)

// Bounds of what is read, in bytes.
const (
	MaxClientData        = 4 << 10
	MaxAuthenticatorData = 1 << 10

	maxDepth     = 8
	minData      = 37 // of authenticatorData
	ed25519Bytes = 64
	maxSignature = maxModulus
)

// Flags are those of authenticatorData.
type Flags byte

const (
	UserPresent    Flags = 0x01 // UP
	UserVerified   Flags = 0x04 // UV
	BackupEligible Flags = 0x08 // BE: it can be synced
	BackedUp       Flags = 0x10 // BS: it is
	attested       Flags = 0x40 // AT
	extensions     Flags = 0x80 // ED
)

// Assertion is what an authenticator and the browser before it have made.
type Assertion struct {
	AuthenticatorData, ClientDataJSON, Signature []byte
}

// Expected is what an assertion must be about.
type Expected struct {
	RPID      string   // ID of the relying party, a domain
	Origins   []string // the pages that may ask, each scheme, host and port; one of them
	Challenge []byte
}

// Verify returns the flags of a valid assertion. Its error says which demand is not met.
func (k *Key) Verify(a *Assertion, want Expected) (Flags, error) {
	if err := checkClientData(a.ClientDataJSON, want); err != nil {
		return 0, err
	}
	flags, err := checkData(a.AuthenticatorData, want.RPID)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(a.ClientDataJSON)
	signed := append(slices.Clip(a.AuthenticatorData), sum[:]...)
	if len(a.Signature) > maxSignature || !k.signed(signed, a.Signature) {
		return 0, errors.New("the signature is not that of the passkey")
	}
	return flags, nil
}

func (k *Key) signed(message, signature []byte) bool {
	sum := sha256.Sum256(message)
	switch public := k.public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, sum[:], signature)
	case ed25519.PublicKey:
		return len(signature) == ed25519Bytes && ed25519.Verify(public, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// checkData checks authenticatorData (§6.1).
func checkData(data []byte, rpID string) (Flags, error) {
	if len(data) < minData || len(data) > MaxAuthenticatorData {
		return 0, errors.New("authenticatorData is too short or too long")
	}
	flags := Flags(data[32])
	sum := sha256.Sum256([]byte(rpID))
	switch {
	case subtle.ConstantTimeCompare(data[:32], sum[:]) != 1:
		return 0, errors.New("rpIdHash is that of another relying party")
	case flags&UserPresent == 0:
		return 0, errors.New("the flag UP is missing: no person was there")
	case flags&UserVerified == 0:
		return 0, errors.New("the flag UV is missing: the person was not verified")
	case flags&BackedUp != 0 && flags&BackupEligible == 0:
		return 0, errors.New("the flag BS is there without BE")
	case flags&attested != 0:
		return 0, errors.New("authenticatorData is that of an enrolment")
	case (len(data) > minData) != (flags&extensions != 0):
		return 0, errors.New("the flag ED and the length of authenticatorData differ")
	}
	return flags, nil
}

// checkClientData checks clientDataJSON (§5.8.1).
func checkClientData(text []byte, want Expected) error {
	if len(text) > MaxClientData {
		return errors.New("clientDataJSON is too long")
	}
	var kind, challenge, origin, cross []byte
	var top bool
	err := strictjson.EachMember(text, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "type":
			kind = value
		case "challenge":
			challenge = value
		case "origin":
			origin = value
		case "crossOrigin":
			cross = value
		case "topOrigin":
			top = true
		}
	})
	if err != nil {
		return errors.New("clientDataJSON is no JSON object without duplicate members")
	}
	is := func(value []byte, want string) bool {
		text, ok := strictjson.AsString(value)
		return ok && text == want
	}
	switch {
	case !is(kind, "webauthn.get"):
		return errors.New("type is not webauthn.get")
	case len(want.Challenge) == 0 || !is(challenge, base64.RawURLEncoding.EncodeToString(want.Challenge)):
		return errors.New("challenge is another one")
	case !slices.ContainsFunc(want.Origins, func(allowed string) bool { return is(origin, allowed) }):
		return errors.New("origin is that of another page")
	case cross != nil && string(cross) != "false", top:
		return errors.New("another page had the passkey asked for in a frame")
	}
	return nil
}
