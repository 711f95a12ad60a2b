// Package seal encrypts secrets in a file that others may read: a backup, a disk, a snapshot.
//
// All keys derive from one master key of 32 random bytes, which is never in the file, and a salt of
// 16, which is:
//
//	key id  = HKDF-SHA256(master, salt none, info "attestd/master-key-id/v1", 8 bytes)
//	MAC key = HKDF-SHA256(master, database ID, info "attestd/verified/v1", 32 bytes)
//	AES key = HKDF-SHA256(master, salt, info "attestd/seal/v1", 32 bytes)
//	sealed  = 0x01 ‖ nonce (12 random bytes) ‖ AES-256-GCM(AES key, nonce, secret, associated data)
//
// The associated data names the place of the secret, so that a moved secret does not open. The key
// id identifies the master key of a file without disclosing it.
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

// ErrSealed reports that a secret does not open: it was sealed with another key or for another
// place, or was changed.
var ErrSealed = errors.New("a sealed secret does not open")

// Master is the master key.
type Master struct{ key [MasterSize]byte }

// NewMaster makes a master key of 32 random bytes.
func NewMaster() (m Master) {
	_, _ = rand.Read(m.key[:]) // never returns an error: without randomness the process ends
	return m
}

// ParseMaster parses a master key from a file or a key store: 32 bytes, or their standard base64,
// with or without a line end.
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

// Bytes returns the 32 bytes, to be stored in a file.
func (m Master) Bytes() []byte { return bytes.Clone(m.key[:]) }

// Format prints a placeholder instead of the key.
func (m Master) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "master key "+m.ID()) }

// ID names the key: 16 hex digits.
func (m Master) ID() string { return hex.EncodeToString(m.derive(nil, "attestd/master-key-id/v1", 8)) }

// VerifiedKey derives the key of the MAC over what was verified of a database. It depends on the
// database's ID, and not on its salt, which is in the database.
func (m Master) VerifiedKey(database [16]byte) []byte {
	return m.derive(database[:], "attestd/verified/v1", 32)
}

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

// Key seals and opens secrets. It is safe for concurrent use.
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

// Seal returns the sealed form of secret for a place, which is 29 bytes longer.
func (k *Key) Seal(secret []byte, place string) []byte {
	return k.aead.Seal([]byte{version}, nil, secret, []byte(place))
}

// Open returns the secret that was sealed for place. The error is ErrSealed.
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
