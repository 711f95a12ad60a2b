package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/db"
)

// A challenge for a passkey says itself until when it counts, and has an HMAC with the key of
// access tokens. So a stranger who asks for challenges makes no server remember any, and any server
// of the database knows them again. Its use is written into used_proof with what the assertion
// brings about.
const (
	// ChallengeLifetime is how long a challenge counts.
	ChallengeLifetime = 5 * time.Minute

	challengeRandom = 16
	challengeSize   = challengeRandom + 8 + sha256.Size
)

// Challenge returns a new challenge for a purpose, which names whose it is.
func (s People) Challenge(ctx context.Context, purpose string, now time.Time) ([]byte, error) {
	return s.signedText(ctx, purpose, now.Add(ChallengeLifetime))
}

// signedText returns a new challenge that counts until a time.
func (s People) signedText(ctx context.Context, purpose string, ends time.Time) ([]byte, error) {
	key, err := s.challengeKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	c := make([]byte, challengeRandom, challengeSize)
	_, _ = rand.Read(c) // never returns an error
	c = binary.BigEndian.AppendUint64(c, uint64(ends.UnixMilli()))
	return append(c, challengeMAC(key, purpose, c)...), nil
}

// CheckChallenge returns what uses a challenge up, if it is one for the purpose that counts at a
// time: otherwise ErrUsed.
func (s People) CheckChallenge(ctx context.Context, purpose string, challenge []byte, now time.Time) (UsedProof, error) {
	key, err := s.challengeKey(ctx)
	if err != nil {
		return UsedProof{}, fmt.Errorf("challenge: %w", err)
	}
	if len(challenge) != challengeSize {
		return UsedProof{}, ErrUsed
	}
	said, mac := challenge[:challengeSize-sha256.Size], challenge[challengeSize-sha256.Size:]
	ends := time.UnixMilli(int64(binary.BigEndian.Uint64(said[challengeRandom:])))
	if !hmac.Equal(mac, challengeMAC(key, purpose, said)) || !now.Before(ends) {
		return UsedProof{}, ErrUsed
	}
	return UsedProof{Name: sha256.Sum256(append([]byte("challenge of a passkey\n"), challenge...)), Ends: ends}, nil
}

func challengeMAC(key []byte, purpose string, said []byte) []byte {
	mac := hmac.New(sha256.New, key)
	writePart(mac, 't', []byte("challenge of a passkey"))
	writePart(mac, 't', []byte(purpose))
	writePart(mac, 'b', said)
	return mac.Sum(nil)
}

// challengeKey returns the key of the HMACs, and makes it if there is none.
func (s People) challengeKey(ctx context.Context) (key []byte, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		key, err = s.keys.tokenKey(r)
		return err
	})
	if errors.Is(err, db.ErrNotFound) {
		err = s.db.Write(ctx, func(w *db.Conn) error {
			key, err = s.keys.needTokenKey(w)
			return err
		})
	}
	return key, err
}

// UserHandle is by which an authenticator knows a person (WebAuthn §5.4.3): it differs between
// databases, which may have people of the same names for the same host.
func (s People) UserHandle(ctx context.Context, companyID, personID string) ([]byte, error) {
	var id string
	err := s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&id}, `SELECT value FROM setting WHERE name = 'database_id'`)
	})
	if err != nil {
		return nil, fmt.Errorf("ID of the database: %w", err)
	}
	sum := sha256.Sum256([]byte("attestd person\n" + id + "\n" + companyID + "\n" + personID))
	return sum[:], nil
}

// setupSetting names the setting with the hash of the secret with which somebody makes the first
// company of a database, and its first person. It is there while there is no company.
const setupSetting = "first_person"

// SetupPrefix begins that secret.
const SetupPrefix = "setup_"

type setup struct {
	Hash    string `json:"hash"`
	Expires int64  `json:"expires"` // Unix milliseconds
}

// OfferSetup returns a secret with which somebody makes the first company until a time, in the
// place of the one before; "" where there is a company.
func (s People) OfferSetup(ctx context.Context, expires time.Time) (secret string, err error) {
	secret = keys.NewSecret(strings.TrimSuffix(SetupPrefix, "_"))
	hash := keys.HashSecret(secret)
	text, err := json.Marshal(setup{hex.EncodeToString(hash[:]), expires.UnixMilli()})
	if err != nil {
		return "", err
	}
	err = s.db.Write(ctx, func(w *db.Conn) error {
		var is bool
		if err := w.One([]any{&is}, `SELECT EXISTS (SELECT 1 FROM company WHERE id <> ?)`, int64(db.Installation)); err != nil || is {
			secret = ""
			return err
		}
		_, err := w.Exec(`DELETE FROM setting WHERE name = ?`, setupSetting)
		if err == nil {
			_, err = w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, setupSetting, string(text))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("offer the first company: %w", err)
	}
	return secret, nil
}

// CheckSetup returns ErrBadInvitation unless somebody may make the first company with a secret of
// this hash.
func (s People) CheckSetup(ctx context.Context, hash [32]byte, now time.Time) error {
	err := s.db.Read(ctx, func(r *db.Conn) error { return checkSetup(r, hash, now, 0) })
	if err != nil {
		return fmt.Errorf("first company: %w", err)
	}
	return nil
}

// checkSetup is CheckSetup in a transaction that has made so many companies.
func checkSetup(r *db.Conn, hash [32]byte, now time.Time, made int) error {
	var text string
	var companies int
	err := r.One([]any{&text, &companies}, `SELECT value, (SELECT count(*) FROM company WHERE id <> ?1) FROM setting WHERE name = ?2`, int64(db.Installation), setupSetting)
	if errors.Is(err, db.ErrNotFound) {
		return ErrBadInvitation
	}
	var offered setup
	if err == nil {
		err = json.Unmarshal([]byte(text), &offered)
	}
	if err == nil && (companies != made || offered.Hash != hex.EncodeToString(hash[:]) || now.UnixMilli() >= offered.Expires) {
		err = ErrBadInvitation
	}
	return err
}

// CreateFirst makes the first company of the database with a secret of OfferSetup, its first
// person, an admin, and the passkey and session of that, in one transaction. ErrBadInvitation;
// otherwise as Create of Companies and Enrol.
func (s People) CreateFirst(ctx context.Context, secret [32]byte, companyID string, p Person, e PasskeyEnrolment, now time.Time) (by Caller, k Passkey, err error) {
	e.isNew = true
	c, _, err := s.companies.create(ctx, companyID, nil, now, func(w *db.Conn, c *Company) ([]chain.Draft, error) {
		if err := checkSetup(w, secret, now, 1); err != nil {
			return nil, err
		}
		if _, err := w.Exec(`DELETE FROM setting WHERE name = ?`, setupSetting); err != nil {
			return nil, err
		}
		by = Caller{Company: c, Person: p.ID, Credential: people.about(p.ID), Role: Admin, At: now, Reauthenticated: now}
		created, err := s.insert(w, by, &p, 1)
		if err != nil {
			return nil, err
		}
		var enrolled []controlEvent
		if k, enrolled, err = s.enrol(w, by, e); err != nil {
			return nil, err
		}
		return s.db.controlDrafts(by, append([]controlEvent{created}, enrolled...)...)
	})
	if err != nil {
		return Caller{}, Passkey{}, err
	}
	by.Company = c
	return by, k, nil
}
