package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/service"
	"attestd/store"
)

type rotateKeysRequest struct {
	Compromised bool `json:"compromised" must:"flag"`
}

// keyRotated is the response to a rotation. The fields Previous… are about the key that ended.
type keyRotated struct {
	KID                   string `json:"kid"`
	Fingerprint           string `json:"fingerprint"`
	PreviousKID           string `json:"previousKid"`
	Index                 int64  `json:"index"`
	CreatedAt             string `json:"createdAt"`
	PreviousEndedAt       string `json:"previousEndedAt"`
	PreviousCompromisedAt string `json:"previousCompromisedAt,omitempty"`
}

// RotateKeys is an addition to the specification. From its response on, a new key signs the
// company's records and tokens.
func (s *Companies) RotateKeys(ctx context.Context, by store.Caller, r rotateKeysRequest) (keyRotated, error) {
	old, next, err := s.Store.Companies.RotateKey(ctx, by, r.Compromised)
	if r.Compromised { // which ends the JWTs of this API too, even if the outcome is unknown
		_ = s.Hub.Recheck(by.Company.Chain) // those that could not be looked up are again, in time
	}
	if errors.Is(err, store.ErrTooMany) {
		return keyRotated{}, service.TooMany("signing keys", store.MaxCompanyKeys)
	}
	if err != nil {
		return keyRotated{}, err
	}
	public := keys.Describe(next.Public)
	return keyRotated{
		public.KID, public.Fingerprint, keys.Describe(old.Public).KID, next.From, next.CreatedAt, old.EndedAt,
		old.CompromisedAt,
	}, nil
}

// companyKeys has all keys of a company, oldest first.
type companyKeys struct {
	CompanyID string           `json:"companyId"`
	SPIFFEID  string           `json:"spiffeId"`
	Origin    string           `json:"origin"`
	Keys      []companyKeyBody `json:"keys"`
	Logs      []logKeysBody    `json:"logs"`
}

type companyKeyBody struct {
	KID           string        `json:"kid"`
	JWK           keys.JWK      `json:"jwk"`
	PEM           string        `json:"pem"`
	Fingerprint   string        `json:"fingerprint"`
	FromIndex     int64         `json:"fromIndex"`
	CreatedAt     string        `json:"createdAt"`
	EndedAt       string        `json:"endedAt,omitempty"`
	CompromisedAt string        `json:"compromisedAt,omitempty"`
	Rotation      *rotationBody `json:"rotation,omitempty"`
}

// logKeysBody lists the keys that sign a log other than the actions, for which companyKeyBody does.
type logKeysBody struct {
	Log    store.LogName `json:"log"`
	Origin string        `json:"origin"`
	Keys   []logKeyBody  `json:"keys"`
}

type logKeyBody struct {
	KID       string        `json:"kid"`
	FromIndex int64         `json:"fromIndex"`
	Rotation  *rotationBody `json:"rotation,omitempty"`
}

// rotationBody proves that a key follows the previous one. Both keys sign the bytes of the
// statement.
type rotationBody struct {
	Statement    string `json:"statement"`
	OldSignature string `json:"oldSignature"`
	NewSignature string `json:"newSignature"`
}

func (companyKeys) SetHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

// All is an addition to the specification. Like Current it needs no credential.
func (s *PublicKeys) All(ctx context.Context, _ store.Caller, r companyQuery) (companyKeys, error) {
	company, err := s.companyOf(ctx, r)
	if err != nil {
		return companyKeys{}, err
	}
	origin, ring, err := s.Store.KeyRing(ctx, company.Chain)
	if err != nil {
		return companyKeys{}, err
	}
	control := logKeysBody{Log: store.Control}
	var signing []keyring.Key
	if control.Origin, signing, err = s.Store.KeyRing(ctx, company.Control.Chain); err != nil {
		return companyKeys{}, err
	}
	answer := companyKeys{CompanyID: company.ID, SPIFFEID: company.Issuer.CompanyID(), Origin: origin,
		Keys: make([]companyKeyBody, len(ring))}
	for i, k := range ring {
		public := keys.Describe(k.Public)
		answer.Keys[i] = companyKeyBody{
			public.KID, public.JWK, public.PEM, public.Fingerprint, k.From, k.CreatedAt, k.EndedAt, k.CompromisedAt,
			newRotationBody(k.Rotation),
		}
	}
	for _, k := range signing {
		if k.Generation > ring[len(ring)-1].Generation {
			break // the key was rotated after the other keys were read
		}
		control.Keys = append(control.Keys, logKeyBody{keys.Describe(k.Public).KID, k.From, newRotationBody(k.Rotation)})
	}
	answer.Logs = []logKeysBody{control}
	return answer, nil
}

func newRotationBody(r *keyring.Rotation) *rotationBody {
	if r == nil {
		return nil
	}
	encode := base64.RawURLEncoding.EncodeToString
	return &rotationBody{r.Statement, encode(r.OldSignature), encode(r.NewSignature)}
}

// jwks returns a company's key set for verifying its tokens at a time: the signing key, then former
// keys whose tokens may still be valid.
func jwks(company *store.Company, now time.Time) (set []keys.JWK) {
	for _, k := range company.Issuer.Keys(now) {
		set = append(set, k.JWK)
	}
	return set
}
