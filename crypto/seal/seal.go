// Package seal keeps secrets unreadable in a file that others may come to see: a backup, a disk, a
// snapshot.
//
// Everything follows from one master key of 32 random bytes, which never stands in the file, and a
// salt of 16, which does:
//
//	key id  = HKDF-SHA256(master, salt none, info "attestd/master-key-id/v1", 8 bytes)
//	AES key = HKDF-SHA256(master, salt, info "attestd/seal/v1", 32 bytes)
//	sealed  = 0x01 ‖ nonce (12 random bytes) ‖ AES-256-GCM(AES key, nonce, secret, associated data)
//
// The associated data names the place of the secret, so that one that was moved does not open. The
// key id says which master key a file asks for, and tells nothing of it.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const (
	// MasterSize is the length of a master key in bytes.
	MasterSize = 32
	// SaltSize is the length of a salt in bytes.
	SaltSize = 16

	version = 1 // the first byte of what is sealed
)

// ErrSealed says that something does not open: it was sealed under another key or for another
// place, or was changed.
var ErrSealed = errors.New("a sealed secret does not open")

// Master is the key that all others follow from.
type Master struct{ key [MasterSize]byte }

// NewMaster makes a master key of 32 random bytes.
func NewMaster() (m Master) {
	_, _ = rand.Read(m.key[:]) // never returns an error: without randomness the process ends
	return m
}

// ParseMaster reads a master key as a file or a program of a key store gives it: the 32 bytes, or
// those in standard base64, with a line end or without.
func ParseMaster(b []byte) (m Master, err error) {
	if len(b) != MasterSize {
		text := bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
		if len(text) != base64.StdEncoding.EncodedLen(MasterSize) {
			return m, fmt.Errorf("a master key is 32 bytes or their base64, and not %d bytes", len(b))
		}
		if b, err = base64.StdEncoding.Strict().DecodeString(string(text)); err != nil || len(b) != MasterSize {
			return m, errors.New("a master key of 44 characters must be 32 bytes in base64")
		}
	}
	return Master{[MasterSize]byte(b)}, nil
}

// Bytes are the 32 bytes, for the file in which the key is kept.
func (m Master) Bytes() []byte { return bytes.Clone(m.key[:]) }

// Format keeps the key out of whatever prints it by mistake.
func (m Master) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "master key "+m.ID()) }

// ID names the key: 16 hex digits.
func (m Master) ID() string { return hex.EncodeToString(m.derive(nil, "attestd/master-key-id/v1", 8)) }

func (m Master) derive(salt []byte, info string, size int) []byte {
	key, err := hkdf.Key(sha256.New, m.key[:], salt, info, size)
	if err != nil {
		panic("seal: " + err.Error()) // cannot be, for these sizes
	}
	return key
}

// NewSalt makes a salt.
func NewSalt() []byte {
	salt := make([]byte, SaltSize)
	_, _ = rand.Read(salt) // as in NewMaster
	return salt
}

// Key seals and opens secrets. It may be used by many goroutines.
type Key struct{ aead cipher.AEAD }

// Key derives the key of a file with a salt.
func (m Master) Key(salt []byte) *Key {
	block, err := aes.NewCipher(m.derive(salt, "attestd/seal/v1", 32))
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &Key{aead}
		}
	}
	panic("seal: " + err.Error()) // cannot be, for a key of 32 bytes
}

// Seal returns secret as it may be kept at the place that place names: 29 bytes longer.
func (k *Key) Seal(secret []byte, place string) []byte {
	return k.aead.Seal([]byte{version}, nil, secret, []byte(place))
}

// Open returns the secret that was sealed for place; ErrSealed.
func (k *Key) Open(sealed []byte, place string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, ErrSealed
	}
	secret, err := k.aead.Open(nil, nil, sealed[1:], []byte(place))
	if err != nil {
		return nil, ErrSealed
	}
	return secret, nil
}
