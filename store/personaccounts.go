package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/store/db"
)

// AccountLifetime is how long somebody has for signing in at the identity provider.
const AccountLifetime = 10 * time.Minute

// AccountSignIn is a sign-in with an account at the identity provider of this service.
type AccountSignIn struct {
	Account Subject
	State   UsedProof // which counts once
	Rule    int       // of the service, which has admitted the account
	// the person who is made where nobody of the company has the account; nil for none
	Create *Person
	// what the person is from now on; nil leaves it as it is
	Roles, Groups []string
}

// AccountState returns a new state for a browser that has a secret with this hash, and is sent to
// the identity provider. As with challenges, no server remembers it, and any server knows it again.
func (s People) AccountState(ctx context.Context, browser [sha256.Size]byte, now time.Time) ([]byte, error) {
	return s.signedText(ctx, purposeAccount(browser), now.Add(AccountLifetime))
}

// CheckAccountState returns what uses a state up, if it is one of the browser that counts at a
// time: otherwise ErrUsed.
func (s People) CheckAccountState(ctx context.Context, browser [sha256.Size]byte, state []byte, now time.Time) (UsedProof, error) {
	return s.CheckChallenge(ctx, purposeAccount(browser), state, now)
}

func purposeAccount(browser [sha256.Size]byte) string {
	return "account\n" + hex.EncodeToString(browser[:])
}

// SignInWithAccount begins a session of the person of the company who has an account, and makes or
// changes the person as the rule says, in one transaction. ErrNotFound where nobody has the account
// and nobody is to be made; ErrExists where the one to be made is there without it; ErrDisabled,
// ErrUsed of the state, ErrTooMany, ErrLastAdmin, ErrSuspended.
func (s People) SignInWithAccount(ctx context.Context, company *Company, a AccountSignIn, most int, now time.Time) (by Caller, secret string, err error) {
	by = Caller{Company: company, At: now}
	if err := s.companies.Active(ctx, by); err != nil {
		return Caller{}, "", fmt.Errorf("sign in with an account: %w", err)
	}
	err = s.db.Read(ctx, func(r *db.Conn) error {
		by.Person, err = s.holder(r, company, a)
		return err
	})
	n := NewSession{SignedIn: ByOIDC, Account: &a.Account}
	if err == nil {
		by.Credential = people.about(by.Person)
		acts := by
		acts.Reauthenticated = now // the rule changes the person, and not the person
		err = s.db.controlled(ctx, acts, func(w *db.Conn) ([]controlEvent, error) {
			p, events, err := s.followRule(w, acts, a, most)
			if err != nil {
				return nil, err
			}
			by.Role = p.role()
			began, err := s.begin(w, acts, Passkey{}, &n)
			return append(events, began...), err
		})
	}
	if err != nil {
		return Caller{}, "", fmt.Errorf("sign in with an account: %w", err)
	}
	return by, n.Secret, nil
}

// holder returns the ID of the person who has an account, or who is to be made for it; ErrNotFound.
func (s People) holder(r *db.Conn, company *Company, a AccountSignIn) (string, error) {
	held, err := s.holders(r, company.Chain)
	id := held[a.Account]
	if err == nil && id == "" && a.Create != nil {
		id = a.Create.ID
	}
	if err == nil && id == "" {
		err = db.ErrNotFound
	}
	return id, err
}

// followRule makes the caller, or has the caller become what the rule says, where nothing else has
// happened to the account since it was looked up.
func (s People) followRule(w *db.Conn, by Caller, a AccountSignIn, most int) (p Person, events []controlEvent, err error) {
	if err := useProofs(w, by.At, []UsedProof{a.State}); err != nil {
		return p, nil, err
	}
	switch id, err := s.holder(w, by.Company, a); {
	case err != nil:
		return p, nil, err
	case id != by.Person: // the account was given to somebody else meanwhile
		return p, nil, db.ErrNotFound
	}
	p, err = s.loadEnabled(w, by.Company, by.Person)
	if errors.Is(err, db.ErrNotFound) && a.Create != nil {
		p = *a.Create
		p.Subjects = []Subject{a.Account}
		created, err := s.insert(w, by, &p, most)
		return p, []controlEvent{followed(created, a)}, err
	}
	if err == nil && !slices.Contains(p.Subjects, a.Account) {
		err = ErrExists
	}
	if err != nil {
		return p, nil, err
	}
	before := people.row(&p)
	if a.Roles != nil {
		p.Roles = a.Roles
	}
	if a.Groups != nil {
		p.Groups = a.Groups
	}
	if p.write(); people.row(&p) == before {
		return p, nil, nil
	}
	if events, _, err = s.change(w, by, &p); err != nil {
		return p, nil, err
	}
	events[len(events)-1] = followed(events[len(events)-1], a)
	return p, events, nil
}

// followed says of a change that it follows from a sign-in, and by which rule of the service.
func followed(e controlEvent, a AccountSignIn) controlEvent {
	e.details["signedIn"], e.details["account"], e.details["rule"] = ByOIDC, a.Account, a.Rule
	return e
}
