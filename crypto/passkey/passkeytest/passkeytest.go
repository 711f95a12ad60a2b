// Package passkeytest is an authenticator in software, for the tests of what people sign. No
// product code imports it.
package passkeytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"sync"
	"testing"

	"attestd/crypto/passkey"
)

// Algorithms are all that a passkey may have.
var Algorithms = []int{passkey.EdDSA, passkey.ES256, passkey.RS256}

// Authenticator holds one passkey. What it says can be changed between two uses.
type Authenticator struct {
	Flags   passkey.Flags // of what it signs next
	Counter uint32

	id  []byte
	key crypto.Signer
}

// rsaKey takes a second to make, so that all tests of a process share one.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New makes a passkey whose authenticator verifies its person.
func New(t testing.TB, algorithm int) *Authenticator {
	t.Helper()
	a := &Authenticator{Flags: passkey.UserPresent | passkey.UserVerified, id: make([]byte, 16)}
	_, err := rand.Read(a.id)
	ok(t, err)
	switch algorithm {
	case passkey.ES256:
		a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case passkey.EdDSA:
		_, a.key, err = ed25519.GenerateKey(rand.Reader)
	case passkey.RS256:
		a.key, err = rsaKey()
	default:
		t.Fatalf("no passkey has the algorithm %d", algorithm)
	}
	ok(t, err)
	return a
}

// ID is the credential ID, in base64url without padding.
func (a *Authenticator) ID() string { return base64.RawURLEncoding.EncodeToString(a.id) }

// Registration is what toJSON of the browser says after [Authenticator.Create].
func (a *Authenticator) Registration(clientData, object []byte) map[string]any {
	return a.credential(map[string]any{"clientDataJSON": base64url(clientData), "attestationObject": base64url(object), "transports": []string{"internal"}})
}

// Assertion is what toJSON of the browser says after [Authenticator.Get], with the handle of the
// user for whom the passkey was made.
func (a *Authenticator) Assertion(by *passkey.Assertion, userHandle string) map[string]any {
	return a.credential(map[string]any{
		"clientDataJSON": base64url(by.ClientDataJSON), "authenticatorData": base64url(by.AuthenticatorData), "signature": base64url(by.Signature), "userHandle": userHandle,
	})
}

func (a *Authenticator) credential(response map[string]any) map[string]any {
	return map[string]any{"id": a.ID(), "rawId": a.ID(), "type": "public-key", "clientExtensionResults": map[string]any{}, "authenticatorAttachment": "platform", "response": response}
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Key is the public key.
func (a *Authenticator) Key(t testing.TB) *passkey.Key {
	t.Helper()
	key, err := passkey.NewKey(a.key.Public())
	ok(t, err)
	return key
}

// Get signs a challenge for a page, as navigator.credentials.get has it done.
func (a *Authenticator) Get(t testing.TB, origin, rpID string, challenge []byte) *passkey.Assertion {
	t.Helper()
	return a.Sign(t, ClientData("webauthn.get", origin, challenge), a.data(rpID))
}

// Sign signs any clientDataJSON and authenticatorData, be they of no form.
func (a *Authenticator) Sign(t testing.TB, clientData, data []byte) *passkey.Assertion {
	t.Helper()
	sum := sha256.Sum256(clientData)
	message := append(append([]byte{}, data...), sum[:]...)
	var options crypto.SignerOpts = crypto.Hash(0) // Ed25519 hashes by itself
	if _, is := a.key.(ed25519.PrivateKey); !is {
		digest := sha256.Sum256(message)
		message, options = digest[:], crypto.SHA256
	}
	signature, err := a.key.Sign(rand.Reader, message, options)
	ok(t, err)
	return &passkey.Assertion{AuthenticatorData: data, ClientDataJSON: clientData, Signature: signature}
}

// Create enrols the passkey with a page, as navigator.credentials.create has it done: it returns
// clientDataJSON and the attestationObject without an attestation.
func (a *Authenticator) Create(t testing.TB, origin, rpID string, challenge []byte) (clientData, object []byte) {
	t.Helper()
	data := a.data(rpID)
	data[32] |= 0x40                         // AT
	data = append(data, make([]byte, 16)...) // AAGUID
	data = append(data, 0, byte(len(a.id)))  // length
	data = append(append(data, a.id...), a.Key(t).COSE()...)
	// {"fmt": "none", "attStmt": {}, "authData": data}
	object = append([]byte{0xa3, 0x63}, "fmt"...)
	object = append(append(object, 0x64), "none"...)
	object = append(append(object, 0x67), "attStmt"...)
	object = append(append(object, 0xa0, 0x68), "authData"...)
	object = binary.BigEndian.AppendUint16(append(object, 0x59), uint16(len(data)))
	return ClientData("webauthn.create", origin, challenge), append(object, data...)
}

// data is authenticatorData without an enrolment.
func (a *Authenticator) data(rpID string) []byte {
	sum := sha256.Sum256([]byte(rpID))
	return binary.BigEndian.AppendUint32(append(sum[:], byte(a.Flags)), a.Counter)
}

// ClientData is what a browser says of a ceremony.
func ClientData(kind, origin string, challenge []byte) []byte {
	text, _ := json.Marshal(map[string]any{ // of strings and a bool
		"type": kind, "challenge": base64.RawURLEncoding.EncodeToString(challenge), "origin": origin, "crossOrigin": false,
	})
	return text
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
