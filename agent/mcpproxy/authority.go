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
	"attestd/internal/atomicfile"
	"attestd/sdk/attestd"
)

// Service is the Authority of the company of a client's credential. It fetches the company's keys
// and caches them in a file, so that a session can start while the service is unavailable.
type Service struct {
	client  *attestd.Client
	company string // ID, of an agent that has signed in; "" for the credential's
	cache   string // path
	pinned  func(company string) (fingerprint string, err error)

	mu      sync.Mutex
	issuer  attestd.Issuer
	fetched time.Time
}

// issuerFile is the content of the cache.
type issuerFile struct {
	Issuer attestd.Issuer
	Pinned string // the pinned fingerprint with which the keys were verified
}

// NewService fetches the company's keys, or reads the cache if the service is unavailable. If
// pinned returns the fingerprint of a key of the company, from another source, rotations from that
// key MUST lead to the keys; it returns "" where there is none. company is the ID of the company of
// an agent that has signed in; with "" it is the credential's.
func NewService(ctx context.Context, c *attestd.Client, company, cache string, pinned func(company string) (string, error)) (*Service, error) {
	s := &Service{client: c, company: company, cache: cache, pinned: pinned}
	err := s.fetch(ctx)
	if answer := (*attestd.Error)(nil); err == nil || errors.As(err, &answer) || errors.Is(err, errNotPinned) {
		return s, err
	}
	text, unread := os.ReadFile(cache)
	var known issuerFile
	if unread != nil || json.Unmarshal(text, &known) != nil {
		return nil, err
	}
	if key, unknown := pinned(known.Issuer.CompanyID); unknown != nil || known.Pinned != key {
		return nil, errors.Join(err, unknown)
	}
	s.issuer = known.Issuer
	return s, nil
}

var errNotPinned = errors.New("the company's keys do not follow from the pinned one")

// fetch reads the company's keys from the service. s.mu is held, or s is not yet shared.
func (s *Service) fetch(ctx context.Context) error {
	// the credential's company, whose passports alone are accepted
	id := s.company
	if id == "" {
		company, err := s.client.Company(ctx)
		if err != nil {
			return err
		}
		id = company.CompanyID
	}
	d, err := s.client.Discovery(ctx, id)
	if err != nil {
		return err
	}
	issuer := attestd.Issuer{CompanyID: id, TrustDomain: d.TrustDomain, Service: d.PassportFormat.ClaimsNamespace}
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
	pinned, err := s.pinned(id)
	if err != nil {
		return err
	}
	if pinned != "" || len(keys) > 1 {
		all, err := s.client.PublicKeys(ctx, id)
		if err != nil {
			return err
		}
		if issuer.Former, err = all.Former(); err != nil {
			return err
		}
		if err := checkPinned(pinned, all, keys); err != nil {
			return err
		}
	}
	s.issuer, s.fetched = issuer, time.Now()
	return s.writeCache(pinned)
}

// checkPinned checks that rotations lead from the pinned key, if there is one, to all keys, and
// that the service signs with the last.
func checkPinned(pinned string, all attestd.PublicKeys, keys []ed25519.PublicKey) error {
	if pinned != "" {
		ring, err := all.Pin(pinned)
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

// writeCache writes the cache atomically.
func (s *Service) writeCache(pinned string) error {
	text, err := json.Marshal(issuerFile{s.issuer, pinned})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.cache), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(s.cache, text, 0o600)
}

// CheckPassport implements Authority. It fetches the keys again for an unknown key, which may be a
// new one.
func (s *Service) CheckPassport(token string, now time.Time) (cred.PassportClaims, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, err := s.verify(token, now)
	if refused := (*cred.Error)(nil); errors.As(err, &refused) &&
		refused.Code == cred.CodeSignatureInvalid && time.Since(s.fetched) >= statusLife {
		ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
		defer cancel()
		s.fetched = time.Now() // even if the fetch fails
		if s.fetch(ctx) == nil {
			return s.verify(token, now)
		}
	}
	return claims, err
}

func (s *Service) verify(token string, now time.Time) (cred.PassportClaims, error) {
	claims, _, err := s.issuer.VerifyPassport(token, "", now)
	if refused := (*cred.Error)(nil); errors.As(err, &refused) {
		err = refused // without the client's context
	}
	return claims, err
}

// Revoked implements Authority. It also fetches the keys, because a compromised key signs no valid
// passports. The signed status covers only the ID; the service's unsigned answer says whether this
// passport is the issued one.
func (s *Service) Revoked(ctx context.Context, token, jti string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fetch(ctx); err != nil {
		return false, err
	}
	if s.company == "" { // an agent that has signed in may not ask for the status
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
	}
	verdict, err := s.client.VerifyPassport(ctx, token, "")
	return !verdict.Valid, err
}
