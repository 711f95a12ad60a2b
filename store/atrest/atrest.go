// Package atrest says how the secrets of a database are stored: in plaintext, or sealed under a
// master key, each bound to its table, company and row. It knows no SQL.
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
	// ErrMasterKey: missing, not the one of the file, or given for a file whose keys are in
	// plaintext.
	ErrMasterKey = errors.New("master key")
	// ErrCorrupt: what is stored does not open, or is not what it was.
	ErrCorrupt = errors.New("database is corrupt")
)

// Sealing is what the settings say of the secrets of a database.
type Sealing struct {
	KeyID string // of the master key; "" where secrets are in plaintext
	Salt  []byte
	// the key of the HMAC by which credentials are found, sealed like all others; nil in a file
	// that was never sealed
	Lookup []byte
	Scrub  bool // free pages may still hold what an earlier master key has sealed, or none
}

// ParseSealing reads the settings of a database, by name: ErrCorrupt.
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

// String describes the sealing for people and control records, where its text MUST NOT change.
func (f Sealing) String() string {
	if f.KeyID == "" {
		return "in clear"
	}
	return "sealed with master key " + f.KeyID
}

// Secrets stores and reads the secrets of a database. Each is bound to its table, company and row.
type Secrets struct {
	sealed bool
	key    *seal.Key // nil where the secrets are in plaintext, or nobody has said the master key
	lookup []byte    // as in Sealing, in plaintext
}

// New are secrets that are sealed under master, nil for plaintext, with the settings that say
// so. The lookup key outlives every master key, for what is kept as an HMAC only cannot be computed
// anew: that of former, or a new one. A database that was never sealed needs none: former is nil
// there, and so is master.
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

// lookupPlace is where the key of the HMAC stands.
const lookupPlace = "setting\n0\nlookup_key"

// Locked are the secrets before anybody has said a master key: those in plaintext can be read.
func (f Sealing) Locked() Secrets {
	if f.KeyID != "" {
		return Secrets{sealed: true}
	}
	return Secrets{lookup: f.Lookup}
}

// Unseal makes the secrets of a file readable; ErrMasterKey unless master is the key that it was
// sealed with, and nil where it was not.
func (f Sealing) Unseal(path string, master *seal.Master) (Secrets, error) {
	switch {
	case f.KeyID == "" && master != nil:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are in plaintext; attestd rekey seals them", ErrMasterKey, path)
	case f.KeyID == "":
		return Secrets{lookup: f.Lookup}, nil
	case master == nil:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s; --master-key-file or --master-key-command gives it", ErrMasterKey, path, f.KeyID)
	case master.ID() != f.KeyID:
		return Secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s, and not with %s", ErrMasterKey, path, f.KeyID, master.ID())
	}
	s := Secrets{sealed: true, key: master.Key(f.Salt)}
	var err error
	if s.lookup, err = s.key.Open(f.Lookup, lookupPlace); err != nil {
		return Secrets{}, fmt.Errorf("%w: %s: the key by which credentials are found: %w", ErrCorrupt, path, err)
	}
	return s, nil
}

// HasLookup says whether credentials are stored as HMACs, and not as their hashes.
func (s Secrets) HasLookup() bool { return s.lookup != nil }

// Keep is a secret as it is stored at a place, and Open is the way back; ErrMasterKey where the key
// is missing, ErrCorrupt where what is stored does not open.
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

// Index is what a credential is stored and found by, of the SHA-256 of its text. A file that was
// never sealed holds that itself.
func (s Secrets) Index(hash [sha256.Size]byte) []byte {
	if s.lookup == nil {
		return hash[:]
	}
	mac := hmac.New(sha256.New, s.lookup)
	mac.Write(hash[:])
	return mac.Sum(nil)
}

func seedPlace(company, generation int64) string {
	return fmt.Sprintf("company_key\n%d\n%d", company, generation)
}

// KeepSeed is how the seed of a private key is stored.
func (s Secrets) KeepSeed(company, generation int64, private ed25519.PrivateKey) []byte {
	return s.Keep(private.Seed(), seedPlace(company, generation))
}

// PrivateKey returns the private key that belongs to a stored public one. A seed that does not
// would sign what never verifies.
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

// keyOf is the private key of a seed, if it belongs to a public one.
func keyOf(seed, public []byte) (ed25519.PrivateKey, bool) {
	if len(seed) != ed25519.SeedSize {
		return nil, false
	}
	key := ed25519.NewKeyFromSeed(seed)
	return key, key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(public))
}

// TokenKeyPlace is where the key of the HMACs over the rows of access tokens stands.
const TokenKeyPlace = "setting\n0\ntoken_key"

// CosignerPlace is where the private key of the witness stands, which is no company's.
const CosignerPlace = "witness_key\n0\n1"

// CosignerKey returns the private key of the witness that belongs to a stored public one.
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

// An API key is text, also where it is sealed. Its row goes by the index.
func apiKeyPlace(company int64, index []byte) string {
	return fmt.Sprintf("api_key\n%d\n%s", company, hex.EncodeToString(index))
}

// KeepAPIKey is how the text of an API key is stored; OpenAPIKey is how it is read.
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

// The secret of a webhook stands at another place than the one before it.
func webhookPlaces(company int64, id string) (secret, former string) {
	secret = fmt.Sprintf("webhook\n%d\n%s", company, id)
	return secret, secret + "\nformer"
}

// KeepWebhook is how the secret of a webhook and the one before it, nil for none, are stored;
// OpenWebhook is how they are read.
func (s Secrets) KeepWebhook(company int64, id string, secret, former []byte) (storedSecret, storedFormer []byte) {
	place, formerPlace := webhookPlaces(company, id)
	if former != nil {
		former = s.Keep(former, formerPlace)
	}
	return s.Keep(secret, place), former
}

func (s Secrets) OpenWebhook(company int64, id string, storedSecret, storedFormer []byte) (secret, former []byte, err error) {
	place, formerPlace := webhookPlaces(company, id)
	if secret, err = s.Open(storedSecret, place); err == nil && storedFormer != nil {
		former, err = s.Open(storedFormer, formerPlace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("secret of a webhook: %w", err)
	}
	return secret, former, nil
}
