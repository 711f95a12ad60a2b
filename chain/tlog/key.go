package tlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// Types of signatures, as c2sp.org/signed-note assigns them.
const (
	TypeEd25519     = 0x01
	TypeCosignature = 0x04 // timestamped Ed25519, c2sp.org/tlog-cosignature
)

const (
	maxName = 255                                                   // bytes of a name or an origin
	maxVKey = maxName + 1 + 8 + 1 + (1+ed25519.PublicKeySize+2)/3*4 // bytes
)

var errVKey = fmt.Errorf("%w vkey", ErrMalformed)

// VKey is a verifier key of c2sp.org/signed-note: the name of a log or witness, its public key, and
// the type of its signatures.
type VKey struct {
	Name   string
	Type   byte
	Public ed25519.PublicKey
}

// ID returns the key ID. It proves nothing: it says only which key a signature claims to be by.
func (k VKey) ID() uint32 {
	preimage := append([]byte(k.Name), '\n', k.Type)
	digest := sha256.Sum256(append(preimage, k.Public...))
	return binary.BigEndian.Uint32(digest[:])
}

// String returns the vkey.
func (k VKey) String() string {
	key := append([]byte{k.Type}, k.Public...)
	return fmt.Sprintf("%s+%08x+%s", k.Name, k.ID(), base64.StdEncoding.EncodeToString(key))
}

// ParseVKey parses a vkey of type Ed25519 or Cosignature. Errors wrap ErrMalformed.
func ParseVKey(vkey string) (VKey, error) {
	if len(vkey) > maxVKey {
		return VKey{}, errVKey
	}
	name, rest, _ := strings.Cut(vkey, "+")
	_, encoded, _ := strings.Cut(rest, "+") // base64 may have a + too
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) != 1+ed25519.PublicKeySize || !validName(name) {
		return VKey{}, errVKey
	}
	k := VKey{name, key[0], key[1:]}
	if k.Type != TypeEd25519 && k.Type != TypeCosignature || k.String() != vkey { // key ID
		return VKey{}, errVKey
	}
	return k, nil
}

// validName reports whether a signature line may have the name.
func validName(name string) bool {
	return validOrigin(name) && !strings.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) })
}

// validOrigin reports whether a checkpoint may have the origin. Origins of other people's logs may
// contain spaces.
func validOrigin(origin string) bool {
	return origin != "" && len(origin) <= maxName && utf8.ValidString(origin) && !strings.ContainsFunc(origin, unicode.IsControl)
}

// signer is the note.Signer of a log. Package note makes one only from a private key as text.
type signer struct {
	vkey    VKey
	private ed25519.PrivateKey
}

func newSigner(name string, private ed25519.PrivateKey) signer {
	return signer{VKey{name, TypeEd25519, private.Public().(ed25519.PublicKey)}, private}
}

func (s signer) Name() string                    { return s.vkey.Name }
func (s signer) KeyHash() uint32                 { return s.vkey.ID() }
func (s signer) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.private, msg), nil }

// matches reports whether a signature claims to be by this key.
func (k VKey) matches(s note.Signature) bool { return s.Name == k.Name && s.Hash == k.ID() }

// verifies reports whether a signature is by this key and over text.
func (k VKey) verifies(text string, s note.Signature) bool {
	if len(k.Public) != ed25519.PublicKeySize {
		return false
	}
	switch k.Type {
	case TypeEd25519:
		blob, ok := parseBase64(s.Base64)
		return ok && len(blob) == keyIDSize+ed25519.SignatureSize && ed25519.Verify(k.Public, []byte(text), blob[keyIDSize:])
	case TypeCosignature:
		seconds, signature := timestamp(s)
		return signature != nil && ed25519.Verify(k.Public, cosigned(text, seconds), signature)
	}
	return false
}
