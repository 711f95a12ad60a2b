package mcpproxy

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/sdk/attestd"
)

// Service is the Authority that the company of a client's credential is. Its keys come from the
// service and are kept in a file, so that a session can begin while the service is away.
type Service struct {
	client *attestd.Client
	cache  string // path
	pinned string // fingerprint of one of the company's keys, or ""

	mu      sync.Mutex
	issuer  attestd.Issuer
	fetched time.Time
}

// issuerFile is what the cache holds.
type issuerFile struct {
	Issuer attestd.Issuer
	Pinned string // the fingerprint that was held against the keys
}

// NewService fetches the company's keys, or takes those of the cache where the service cannot be
// reached. With pinned, the fingerprint of a key that came another way, the keys must follow from
// that one.
func NewService(ctx context.Context, c *attestd.Client, cache, pinned string) (*Service, error) {
	s := &Service{client: c, cache: cache, pinned: pinned}
	err := s.fetch(ctx)
	if answer := (*attestd.Error)(nil); err == nil || errors.As(err, &answer) || errors.Is(err, errNotPinned) {
		return s, err
	}
	text, unread := os.ReadFile(cache)
	var known issuerFile
	if unread != nil || json.Unmarshal(text, &known) != nil || known.Pinned != pinned {
		return nil, err
	}
	s.issuer = known.Issuer
	return s, nil
}

var errNotPinned = errors.New("the company's keys do not follow from the pinned one")

// fetch reads the company's keys from the service. s.mu is held, or nobody else has s.
func (s *Service) fetch(ctx context.Context) error {
	// that of the credential: no other company's passport counts
	company, err := s.client.Company(ctx)
	if err != nil {
		return err
	}
	d, err := s.client.Discovery(ctx, company.CompanyID)
	if err != nil {
		return err
	}
	issuer := attestd.Issuer{CompanyID: company.CompanyID, TrustDomain: d.TrustDomain, Service: d.PassportFormat.ClaimsNamespace}
	var keys []ed25519.PublicKey
	for _, k := range d.Keys {
		key, err := attestd.ParsePublicKey(k.X)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return errors.New("the service names no key")
	}
	issuer.Key = keys[0]
	if s.pinned != "" || len(keys) > 1 {
		all, err := s.client.PublicKeys(ctx, company.CompanyID)
		if err != nil {
			return err
		}
		if issuer.Former, err = all.Former(); err != nil {
			return err
		}
		if err := s.compare(all, keys); err != nil {
			return err
		}
	}
	s.issuer, s.fetched = issuer, time.Now()
	return s.keep()
}

// compare demands, where a key is pinned, that those of which tokens are taken follow from it, and
// that the service signs with the last.
func (s *Service) compare(all attestd.PublicKeys, keys []ed25519.PublicKey) error {
	if s.pinned != "" {
		ring, err := all.Pin(s.pinned)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotPinned, err)
		}
		for i, key := range keys {
			at := slices.IndexFunc(ring, func(r chain.KeyRange) bool { return key.Equal(r.Key) })
			if at < 0 || i == 0 && at != len(ring)-1 {
				return fmt.Errorf("%w: the service signs with another", errNotPinned)
			}
		}
	}
	return nil
}

// keep writes the cache.
func (s *Service) keep() error {
	text, err := json.Marshal(issuerFile{s.issuer, s.pinned})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.cache), 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(s.cache), "issuer-*")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), s.cache)
	}
	if err != nil {
		_ = os.Remove(part.Name()) // what matters is the error before
	}
	return err
}

// CheckPassport implements Authority. A passport whose key is not known may be of a key that is
// newer than what was fetched.
func (s *Service) CheckPassport(token string, now time.Time) (cred.PassportClaims, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, err := s.verify(token, now)
	if refused := (*cred.Error)(nil); errors.As(err, &refused) && refused.Code == cred.CodeSignatureInvalid && time.Since(s.fetched) >= statusLife {
		ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
		defer cancel()
		s.fetched = time.Now() // whatever comes of it
		if s.fetch(ctx) == nil {
			return s.verify(token, now)
		}
	}
	return claims, err
}

func (s *Service) verify(token string, now time.Time) (cred.PassportClaims, error) {
	claims, _, err := s.issuer.VerifyPassport(token, "", now)
	if refused := (*cred.Error)(nil); errors.As(err, &refused) {
		err = refused // without what the client says around it
	}
	return claims, err
}

// Revoked implements Authority. It fetches the keys too, for one that was declared compromised
// signs no valid passport any more. The signed status is of an ID alone: whether this passport is
// the one that was issued under it, the service says without a signature.
func (s *Service) Revoked(ctx context.Context, token, jti string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fetch(ctx); err != nil {
		return false, err
	}
	status, err := s.client.PassportStatus(ctx, jti)
	if err != nil {
		return false, err
	}
	if err := status.Verify(s.issuer.Key); err != nil {
		return false, err
	}
	if status.JTI != jti || status.CompanyID != s.issuer.CompanyID || status.Status != "valid" {
		return true, nil
	}
	verdict, err := s.client.VerifyPassport(ctx, token, "")
	return !verdict.Valid, err
}
