// Package atrest defines how the secrets of a database are stored: in plaintext, or sealed under a
// master key, each bound to its table, company and row. It does not use SQL.
package atrest

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"attestd/crypto/seal"
)

var (
	// ErrMasterKey means that the master key is missing, is not the one of the file, or was given
	// for a file whose keys are in plaintext.
	ErrMasterKey = errors.New("master key")
	// ErrCorrupt means that a stored secret is malformed or cannot be opened.
	ErrCorrupt = errors.New("database is corrupt")
)

// Sealing has the settings about the secrets of a database.
type Sealing struct {
	KeyID string // ID of the master key; "" if secrets are in plaintext
	Salt  []byte
	// key of the HMAC for looking up credentials, sealed like the other secrets; nil in a file that
	// was never sealed
	Lookup []byte
	Scrub  bool // free pages may still contain secrets in plaintext or under an earlier master key
}

// ParseSealing reads the settings of a database. It returns ErrCorrupt if they are malformed.
func ParseSealing(settings map[string]string) (f Sealing, err error) {
	f.KeyID = settings["master_key_id"]
	_, f.Scrub = settings["scrub"]
	for name, into := range map[string]*[]byte{"seal_salt": &f.Salt, "lookup_key": &f.Lookup} {
		text, is := settings[name]
		if *into, err = hex.DecodeString(text); err != nil || is && text == "" || !is && f.KeyID != "" {
			return f, fmt.Errorf("%w: the setting %s is not what it was", ErrCorrupt, name)
		}
		if !is {
			*into = nil
		}
	}
	return f, nil
}

// HasLookup reports whether credentials are stored as HMACs instead of hashes.
func (f Sealing) HasLookup() bool { return f.Lookup != nil }

// String describes the sealing for people and control records, where its text MUST NOT change.
func (f Sealing) String() string {
	if f.KeyID == "" {
		return "in clear"
	}
	return "sealed with master key " + f.KeyID
}

// Secrets encodes and decodes the secrets of a database. Each is bound to its table, company and
// row.
type Secrets struct {
	sealed bool
	key    *seal.Key // nil if the secrets are in plaintext, or the master key is unknown
	lookup []byte    // as in Sealing, in plaintext
}

// New returns Secrets that are sealed under master, or in plaintext if master is nil, with the
// settings to store. The lookup key outlives every master key, because HMACs without their inputs
// cannot be recomputed: it is the one of former, or a new one. A database that was never sealed
// needs none: then former and master are nil.
func New(master *seal.Master, former *Secrets) (s Secrets, settings map[string]string) {
	settings = map[string]string{}
	if former != nil {
		s.lookup = former.lookup
	}
	if s.lookup == nil && (former != nil || master != nil) {
		s.lookup = make([]byte, sha256.Size)
		_, _ = rand.Read(s.lookup) // never returns an error: without randomness the process ends
	}
	switch {
	case master != nil:
		salt := seal.NewSalt()
		s.sealed, s.key = true, master.Key(salt)
		settings["master_key_id"] = master.ID()
		settings["seal_salt"] = hex.EncodeToString(salt)
		settings["lookup_key"] = hex.EncodeToString(s.key.Seal(s.lookup, lookupPlace))
	case s.lookup != nil:
		settings["lookup_key"] = hex.EncodeToString(s.lookup)
	}
	return s, settings
}

// lookupPlace is the place of the HMAC's key.
const lookupPlace = "setting\n0\nlookup_key"

// Locked returns the secrets without a master key, which can read plaintext only.
func (f Sealing) Locked() Secrets {
	if f.KeyID != "" {
		return Secrets{sealed: true}
	}
	return Secrets{lookup: f.Lookup}
}

// Unseal returns Secrets that can read the file. It returns ErrMasterKey unless master is the key
// of a sealed file, or nil for one in plaintext.
func (f Sealing) Unseal(path string, master *seal.Master) (Secrets, error) {
	switch {
	case f.KeyID == "" && master != nil:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are in plaintext; attestd rekey seals them", ErrMasterKey, path)
	case f.KeyID == "":
		return Secrets{lookup: f.Lookup}, nil
	case master == nil:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s; --master-key-file or --master-key-command gives it", ErrMasterKey, path, f.KeyID)
	case master.ID() != f.KeyID:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s, and not with %s", ErrMasterKey, path,
			f.KeyID, master.ID())
	}
	s := Secrets{sealed: true, key: master.Key(f.Salt)}
	var err error
	if s.lookup, err = s.key.Open(f.Lookup, lookupPlace); err != nil {
		return Secrets{}, fmt.Errorf("%w: %s: the key by which credentials are found: %w", ErrCorrupt, path, err)
	}
	return s, nil
}

// HasLookup reports whether credentials are stored as HMACs instead of hashes.
func (s Secrets) HasLookup() bool { return s.lookup != nil }

// Keep encodes a secret for storage at a place, and Open decodes it. Open returns ErrMasterKey if
// the key is missing, and ErrCorrupt if the stored value cannot be opened.
func (s Secrets) Keep(secret []byte, place string) []byte {
	if !s.sealed {
		return secret
	}
	return s.key.Seal(secret, place)
}

func (s Secrets) Open(stored []byte, place string) ([]byte, error) {
	switch {
	case !s.sealed:
		return stored, nil
	case s.key == nil:
		return nil, fmt.Errorf("%w: the keys in this file are sealed; --master-key-file or --master-key-command gives the master key", ErrMasterKey)
	}
	secret, err := s.key.Open(stored, place)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return secret, nil
}

// Index returns the value by which a credential is stored and found, from the SHA-256 of its text.
// In a file that was never sealed, it is the SHA-256 itself.
func (s Secrets) Index(hash [sha256.Size]byte) []byte {
	if s.lookup == nil {
		return hash[:]
	}
	mac := hmac.New(sha256.New, s.lookup)
	mac.Write(hash[:])
	return mac.Sum(nil)
}

// TokenIndex is Index for access tokens. It begins as their hash does, with the time of their
// issue; see keys.HashSecret. Programs before this one have stored tokens by Index.
func (s Secrets) TokenIndex(hash [sha256.Size]byte) []byte {
	index := s.Index(hash)
	if s.lookup != nil {
		copy(index[4:], index)
		copy(index, hash[:4])
	}
	return index
}

func seedPlace(company, generation int64) string {
	return fmt.Sprintf("company_key\n%d\n%d", company, generation)
}

// KeepSeed encodes the seed of a private key for storage.
func (s Secrets) KeepSeed(company, generation int64, private ed25519.PrivateKey) []byte {
	return s.Keep(private.Seed(), seedPlace(company, generation))
}

// PrivateKey decodes a private key and checks that it belongs to its stored public key. Otherwise
// its signatures would never verify.
func (s Secrets) PrivateKey(company, generation int64, stored, public []byte) (ed25519.PrivateKey, error) {
	seed, err := s.Open(stored, seedPlace(company, generation))
	if err != nil {
		return nil, fmt.Errorf("private key of a company: %w", err)
	}
	if key, ok := keyOf(seed, public); ok {
		return key, nil
	}
	return nil, fmt.Errorf("%w: the seed of a company's key does not fit its public key", ErrCorrupt)
}

// keyOf returns the private key of a seed, and whether it belongs to a public key.
func keyOf(seed, public []byte) (ed25519.PrivateKey, bool) {
	if len(seed) != ed25519.SeedSize {
		return nil, false
	}
	key := ed25519.NewKeyFromSeed(seed)
	return key, key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(public))
}

// SigningTokenKeyPlace is the place of the private part of a key with which a company signs tokens
// for others.
func SigningTokenKeyPlace(company int64, kid string) string {
	return fmt.Sprintf("token_key\n%d\n%s", company, kid)
}

// TokenKeyPlace is the place of the key for the HMACs over access tokens.
const TokenKeyPlace = "setting\n0\ntoken_key"

// CosignerPlace is the place of the cosigner's private key, which belongs to no company.
const CosignerPlace = "witness_key\n0\n1"

// CosignerKey decodes the cosigner's private key and checks that it belongs to its stored public
// key.
func (s Secrets) CosignerKey(stored, public []byte) (ed25519.PrivateKey, error) {
	seed, err := s.Open(stored, CosignerPlace)
	if err != nil {
		return nil, err
	}
	if key, ok := keyOf(seed, public); ok {
		return key, nil
	}
	return nil, fmt.Errorf("%w: the seed does not fit the public key", ErrCorrupt)
}

// An API key is stored as text, even if sealed. Its place contains its index.
func apiKeyPlace(company int64, index []byte) string {
	return fmt.Sprintf("api_key\n%d\n%s", company, hex.EncodeToString(index))
}

// KeepAPIKey encodes the text of an API key for storage; OpenAPIKey decodes it.
func (s Secrets) KeepAPIKey(company int64, index []byte, key string) string {
	if !s.sealed {
		return key
	}
	return base64.StdEncoding.EncodeToString(s.Keep([]byte(key), apiKeyPlace(company, index)))
}

func (s Secrets) OpenAPIKey(company int64, index []byte, stored string) (string, error) {
	if !s.sealed {
		return stored, nil
	}
	sealed, err := base64.StdEncoding.Strict().DecodeString(stored)
	if err != nil {
		return "", fmt.Errorf("%w: an API key is not sealed as the others are", ErrCorrupt)
	}
	key, err := s.Open(sealed, apiKeyPlace(company, index))
	return string(key), err
}

// The current and the previous secret of a webhook have different places.
func webhookPlaces(company int64, id string) (secret, former string) {
	secret = fmt.Sprintf("webhook\n%d\n%s", company, id)
	return secret, secret + "\nformer"
}

// KeepWebhook encodes the secret of a webhook and the previous one, nil for none, for storage;
// OpenWebhook decodes them.
func (s Secrets) KeepWebhook(company int64, id string, secret, former []byte) (storedSecret, storedFormer []byte) {
	place, formerPlace := webhookPlaces(company, id)
	if former != nil {
		former = s.Keep(former, formerPlace)
	}
	return s.Keep(secret, place), former
}

func (s Secrets) OpenWebhook(
	company int64, id string, storedSecret, storedFormer []byte,
) (secret, former []byte, err error) {
	place, formerPlace := webhookPlaces(company, id)
	if secret, err = s.Open(storedSecret, place); err == nil && storedFormer != nil {
		former, err = s.Open(storedFormer, formerPlace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("secret of a webhook: %w", err)
	}
	return secret, former, nil
}
