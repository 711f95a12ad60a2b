package store

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"attestd/crypto/seal"
)

// sealing is what the settings say of the secrets of a file.
type sealing struct {
	keyID string // of the master key; "" where secrets stand in clear
	salt  []byte
	// the key of the HMAC by which credentials are found, sealed like all others; nil in a file
	// that was never sealed
	lookup []byte
	scrub  bool // free pages may still hold what an earlier master key has sealed, or none
}

// lookupPlace is where the key of the HMAC stands.
const lookupPlace = "setting\n0\nlookup_key"

// secrets is how the secrets of a file are kept: in clear, or sealed under a master key. Each is
// bound to its table, company and row.
type secrets struct {
	sealed bool
	key    *seal.Key // nil where the secrets are in clear, or nobody has said the master key
	lookup []byte    // as in sealing, in clear
}

// unseal makes the secrets of a file readable; ErrMasterKey unless master is the key that it was
// sealed with, and nil where it was not.
func (f sealing) unseal(path string, master *seal.Master) (secrets, error) {
	switch {
	case f.keyID == "" && master != nil:
		return secrets{}, fmt.Errorf("%w: the keys in %s are in clear; attestd rekey seals them", ErrMasterKey, path)
	case f.keyID == "":
		return secrets{lookup: f.lookup}, nil
	case master == nil:
		return secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s; --master-key-file or --master-key-command gives it", ErrMasterKey, path, f.keyID)
	case master.ID() != f.keyID:
		return secrets{}, fmt.Errorf("%w: the keys in %s are sealed with master key %s, and not with %s", ErrMasterKey, path, f.keyID, master.ID())
	}
	s := secrets{sealed: true, key: master.Key(f.salt)}
	var err error
	if s.lookup, err = s.key.Open(f.lookup, lookupPlace); err != nil {
		return secrets{}, fmt.Errorf("%w: %s: the key by which credentials are found: %w", ErrCorrupt, path, err)
	}
	return s, nil
}

// keep is a secret as it is stored at a place, and open is the way back; ErrMasterKey where the key
// is missing, ErrCorrupt where what is stored does not open.
func (s secrets) keep(secret []byte, place string) []byte {
	if !s.sealed {
		return secret
	}
	return s.key.Seal(secret, place)
}

func (s secrets) open(stored []byte, place string) ([]byte, error) {
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

// index is what a credential is stored and found by, of the SHA-256 of its text. A file that was
// never sealed holds that itself.
func (s secrets) index(hash [sha256.Size]byte) []byte {
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

// keepSeed is how the seed of a private key is stored.
func (s secrets) keepSeed(company, generation int64, private ed25519.PrivateKey) []byte {
	return s.keep(private.Seed(), seedPlace(company, generation))
}

// privateKey returns the private key that belongs to a stored public one. A seed that does not
// would sign what never verifies.
func (s secrets) privateKey(company, generation int64, stored, public []byte) (ed25519.PrivateKey, error) {
	seed, err := s.open(stored, seedPlace(company, generation))
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

// cosignerPlace is where the private key of the witness stands, which is no company's.
const cosignerPlace = "witness_key\n0\n1"

// cosignerKey returns the private key of the witness that belongs to a stored public one.
func (s secrets) cosignerKey(stored, public []byte) (ed25519.PrivateKey, error) {
	seed, err := s.open(stored, cosignerPlace)
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

// keepAPIKey is how the text of an API key is stored; openAPIKey is how it is read.
func (s secrets) keepAPIKey(company int64, index []byte, key string) string {
	if !s.sealed {
		return key
	}
	return base64.StdEncoding.EncodeToString(s.keep([]byte(key), apiKeyPlace(company, index)))
}

func (s secrets) openAPIKey(company int64, index []byte, stored string) (string, error) {
	if !s.sealed {
		return stored, nil
	}
	sealed, err := base64.StdEncoding.Strict().DecodeString(stored)
	if err != nil {
		return "", fmt.Errorf("%w: an API key is not sealed as the others are", ErrCorrupt)
	}
	key, err := s.open(sealed, apiKeyPlace(company, index))
	return string(key), err
}

// The secret of a webhook stands at another place than the one before it.
func webhookPlaces(company int64, id string) (secret, former string) {
	secret = fmt.Sprintf("webhook\n%d\n%s", company, id)
	return secret, secret + "\nformer"
}

// keepWebhook is how the secret of a webhook and the one before it, nil for none, are stored;
// openWebhook is how they are read.
func (s secrets) keepWebhook(company int64, id string, secret, former []byte) (storedSecret, storedFormer []byte) {
	place, formerPlace := webhookPlaces(company, id)
	if former != nil {
		former = s.keep(former, formerPlace)
	}
	return s.keep(secret, place), former
}

func (s secrets) openWebhook(company int64, id string, storedSecret, storedFormer []byte) (secret, former []byte, err error) {
	place, formerPlace := webhookPlaces(company, id)
	if secret, err = s.open(storedSecret, place); err == nil && storedFormer != nil {
		former, err = s.open(storedFormer, formerPlace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("secret of a webhook: %w", err)
	}
	return secret, former, nil
}
