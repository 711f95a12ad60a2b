package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/strictjson"
	"attestd/store"
)

// People are the people of companies: who they are, and how they sign in. See passkeys.go for the
// ceremonies.
type People struct {
	Store    *store.Store
	Refusals *Refusals
	// address of the console's page with an invitation, for the secret of one
	Link func(secret string) string
}

const (
	// people of a company
	maxPeople = 1000
	// groups of a person
	maxPersonGroups = 64
	// accounts of a person
	maxSubjects   = 16
	maxPersonName = 256
	maxEmail      = 254

	// InvitationLifetime is how long an invitation counts where nothing else is said.
	InvitationLifetime = time.Hour
	// MaxInvitationLifetime bounds it.
	MaxInvitationLifetime = 7 * 24 * time.Hour
)

// Person is a person as the API shows it.
type Person struct {
	PersonID string   `json:"personId"`
	Name     string   `json:"name"`
	Email    *string  `json:"email"`
	Roles    []string `json:"roles"`
	Groups   []string `json:"groups"`
	// accounts at an identity provider
	Subjects   []store.Subject `json:"subjects"`
	CreatedAt  string          `json:"createdAt"`
	DisabledAt string          `json:"disabledAt,omitempty"`
	Passkeys   []Passkey       `json:"passkeys,omitzero"` // of one person alone
}

// Passkey is a passkey as the API shows it.
type Passkey struct {
	CredentialID   string   `json:"credentialId"`
	Fingerprint    string   `json:"fingerprint"` // of the key
	Algorithm      int64    `json:"algorithm"`
	Transports     []string `json:"transports"`
	BackupEligible bool     `json:"backupEligible"`
	AAGUID         string   `json:"aaguid"`
	CreatedAt      string   `json:"createdAt"`
	RevokedAt      string   `json:"revokedAt,omitempty"`
}

// NewPerson is a person to be made, or what is changed of one: nil leaves a member as it is.
type NewPerson struct {
	ID, Name      *string
	Email         *string
	Roles, Groups []string
	Subjects      []store.Subject
	Disabled      *bool
}

// InvitationPage is the address of the page of a console that takes an invitation. The secret is in
// the fragment, which no browser sends.
func InvitationPage(console, secret string) string {
	return strings.TrimRight(console, "/") + "/#/join/" + secret
}

// SignedInPage is the address of the page of a console that takes up a session that has begun.
func SignedInPage(console string) string {
	return strings.TrimRight(console, "/") + "/#/join/signed-in"
}

// isName reports whether a text can name a person or a group. Its form is that of the ID of a
// policy.
func isName(text string) bool { return decision.IsID(text) }

// reservedIDs are those that paths below /v1/people have another meaning for.
var reservedIDs = []string{"me", "enrol", "sign-in", "oidc", ".", ".."}

// check refuses what a person may not be.
func (n NewPerson) check() error {
	wrong := func(member, what string) error {
		return &Error{Kind: Invalid, Message: "Invalid field: " + member + " " + what, Pointer: "/" + member}
	}
	switch {
	case n.ID != nil && !isName(*n.ID):
		return wrong("personId", "must have 1 to 64 characters, of letters, digits, dots, underscores and hyphens")
	case n.ID != nil && slices.Contains(reservedIDs, *n.ID):
		return wrong("personId", "must be another name: this one is reserved")
	case n.Name != nil && (*n.Name == "" || utf8.RuneCountInString(*n.Name) > maxPersonName):
		return wrong("name", fmt.Sprintf("must have 1 to %d characters", maxPersonName))
	case n.Roles != nil && (len(n.Roles) == 0 || !distinct(n.Roles) || slices.ContainsFunc(n.Roles, isNoRole)):
		return wrong("roles", "must be one or more of admin, approver and reader")
	case n.Groups != nil && (len(n.Groups) > maxPersonGroups || !distinct(n.Groups) || slices.ContainsFunc(n.Groups, func(g string) bool { return !isName(g) })):
		return wrong("groups", fmt.Sprintf("must be at most %d different names, each as a personId", maxPersonGroups))
	}
	if len(n.Subjects) > maxSubjects || len(slices.Compact(slices.SortedFunc(slices.Values(n.Subjects), store.Subject.Compare))) != len(n.Subjects) {
		return wrong("subjects", fmt.Sprintf("must be at most %d different accounts", maxSubjects))
	}
	for _, s := range n.Subjects {
		if !isVisible(s.Issuer) || len(s.Issuer) > maxFederationURI || !isVisible(s.Sub) || len(s.Sub) > maxSubjectSub {
			return wrong("subjects", fmt.Sprintf("must be objects of issuer, 1 to %d visible ASCII characters, and sub, 1 to %d", maxFederationURI, maxSubjectSub))
		}
	}
	if n.Email != nil && *n.Email != "" {
		read, err := mail.ParseAddress(*n.Email)
		if err != nil || read.Address != *n.Email || len(*n.Email) > maxEmail {
			return wrong("email", "must be an address without a name")
		}
	}
	return nil
}

// ParseSubjects reads a list of accounts, nil where it is absent.
func ParseSubjects(text json.RawMessage) ([]store.Subject, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	list := []store.Subject{}
	wrong := false
	err := strictjson.EachElement(text, 2, func(value []byte) {
		var one store.Subject
		members := 0
		err := strictjson.EachMember(value, 1, func(name, value []byte) {
			members++
			switch string(name) {
			case "issuer":
				one.Issuer, _ = strictjson.AsString(value)
			case "sub":
				one.Sub, _ = strictjson.AsString(value)
			}
		})
		wrong = wrong || err != nil || members != 2 || one.Issuer == "" || one.Sub == "" || len(list) > maxSubjects
		if !wrong {
			list = append(list, one)
		}
	})
	if err != nil || wrong {
		return nil, &Error{Kind: Invalid, Message: fmt.Sprintf("Invalid field: subjects must be an array of at most %d objects of issuer and sub", maxSubjects), Pointer: "/subjects"}
	}
	return list, nil
}

func isNoRole(role string) bool {
	return role != store.PersonAdmin && role != store.PersonApprover && role != store.PersonReader
}

func distinct(list []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(list)))) == len(list)
}

// put writes what is named into a person.
func (n NewPerson) put(p *store.Person, at time.Time) {
	if n.Name != nil {
		p.Name = *n.Name
	}
	if n.Email != nil {
		p.Email = n.Email
		if *n.Email == "" {
			p.Email = nil
		}
	}
	if n.Roles != nil {
		p.Roles = n.Roles
	}
	if n.Groups != nil {
		p.Groups = n.Groups
	}
	if n.Subjects != nil {
		p.Subjects = n.Subjects
	}
	switch {
	case n.Disabled == nil:
	case !*n.Disabled:
		p.DisabledAt = ""
	case p.DisabledAt == "":
		p.DisabledAt = chain.FormatTime(at)
	}
}

// Create creates a person without a passkey.
func (s *People) Create(ctx context.Context, by store.Caller, n NewPerson) (Person, error) {
	if err := n.check(); err != nil {
		return Person{}, err
	}
	p := store.Person{ID: *n.ID, Groups: []string{}}
	n.put(&p, by.At)
	made, err := s.Store.People.Create(ctx, by, p, maxPeople)
	return shownPerson(made), personError(p.ID, err)
}

// personError says of an error of the store which person it is about.
func personError(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrExists):
		return &Error{Kind: Conflict, Code: "PERSON_EXISTS", Message: "Person already exists: " + id}
	case errors.Is(err, store.ErrSubjectTaken):
		return &Error{Kind: Conflict, Code: "SUBJECT_TAKEN", Message: "Conflict: another person of the company has one of these accounts"}
	case errors.Is(err, store.ErrTooMany):
		return TooMany("people", maxPeople)
	case errors.Is(err, store.ErrNotFound):
		return refuse(NotFound, "Person not found: "+id)
	case errors.Is(err, store.ErrDisabled):
		return &Error{Kind: Conflict, Code: "PERSON_DISABLED", Message: "Person is disabled: " + id}
	}
	return err
}

// ShowPerson is a person as the API lists it.
func ShowPerson(p store.Person) Person { return shownPerson(p) }

func shownPerson(p store.Person) Person {
	return Person{PersonID: p.ID, Name: p.Name, Email: p.Email, Roles: p.Roles, Groups: p.Groups, Subjects: p.Subjects, CreatedAt: p.CreatedAt, DisabledAt: p.DisabledAt}
}

// Get returns a person with the passkeys.
func (s *People) Get(ctx context.Context, by store.Caller, id string) (Person, error) {
	p, err := s.Store.People.Get(ctx, by, id)
	if err != nil {
		return Person{}, personError(id, err)
	}
	shown := shownPerson(p)
	held, err := s.Store.People.Passkeys(ctx, by, id)
	shown.Passkeys = make([]Passkey, len(held))
	for i, k := range held {
		shown.Passkeys[i] = shownPasskey(k)
	}
	return shown, err
}

// Change changes a person, and returns the sessions that it has ended.
func (s *People) Change(ctx context.Context, by store.Caller, id string, n NewPerson) (Person, []string, error) {
	if err := n.check(); err != nil {
		return Person{}, nil, err
	}
	p, ended, err := s.Store.People.Change(ctx, by, id, func(p *store.Person) { n.put(p, by.At) })
	return shownPerson(p), ended, personError(id, err)
}

// Delete deletes a person, and returns the sessions that it has ended.
func (s *People) Delete(ctx context.Context, by store.Caller, id string) ([]string, error) {
	ended, err := s.Store.People.Delete(ctx, by, id)
	return ended, personError(id, err)
}

// NewInvitation is an invitation, whose link is shown once.
type NewInvitation struct {
	URL       string `json:"url"`
	ExpiresAt string `json:"expiresAt"`
}

// Invite makes a link with which a person enrols a passkey.
func (s *People) Invite(ctx context.Context, by store.Caller, id string, lifetime time.Duration) (NewInvitation, error) {
	ends := by.At.Add(lifetime)
	secret, err := s.Store.People.Invite(ctx, by, id, ends, nil, maxPeople)
	if err != nil {
		return NewInvitation{}, personError(id, err)
	}
	return NewInvitation{s.Link(secret), chain.FormatTime(ends)}, nil
}

// InviteFirst is Invite for an operator, who makes the person with a role where it is not there.
func (s *People) InviteFirst(ctx context.Context, by store.Caller, id, role string, lifetime time.Duration) (NewInvitation, error) {
	n := NewPerson{ID: &id, Name: &id, Roles: []string{role}}
	if err := n.check(); err != nil {
		return NewInvitation{}, err
	}
	p := store.Person{ID: id, Groups: []string{}}
	n.put(&p, by.At)
	ends := by.At.Add(lifetime)
	secret, err := s.Store.People.Invite(ctx, by, id, ends, &p, maxPeople)
	if err != nil {
		return NewInvitation{}, personError(id, err)
	}
	return NewInvitation{s.Link(secret), chain.FormatTime(ends)}, nil
}

// RevokePasskey revokes a passkey of a person, and returns the sessions that it has ended.
func (s *People) RevokePasskey(ctx context.Context, by store.Caller, id, credentialID string) (Passkey, []string, error) {
	k, ended, err := s.Store.People.RevokePasskey(ctx, by, id, credentialID)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(NotFound, "Passkey not found: "+credentialID)
	}
	if err != nil {
		return Passkey{}, nil, err
	}
	return shownPasskey(k), ended, nil
}

// PersonSession is where a person is signed in, as the API shows it.
type PersonSession struct {
	SessionID string `json:"sessionId"`
	SignedIn  string `json:"signedIn"`
	// absent where no passkey has signed in it, and when it has signed last
	Passkey           string `json:"passkey,omitempty"`
	CreatedAt         string `json:"createdAt"`
	LastUsedAt        string `json:"lastUsedAt"`
	ReauthenticatedAt string `json:"reauthenticatedAt,omitempty"`
	ExpiresAt         string `json:"expiresAt"`
	Present           bool   `json:"present"` // it is the caller's own
}

// Sessions returns where the caller is signed in.
func (s *People) Sessions(ctx context.Context, by store.Caller) ([]PersonSession, error) {
	found, err := s.Store.People.Sessions(ctx, by, by.Person)
	list := make([]PersonSession, len(found))
	for i, one := range found {
		list[i] = PersonSession{SessionID: one.ID, SignedIn: one.SignedIn, Passkey: one.Passkey, CreatedAt: chain.FormatTime(one.CreatedAt),
			LastUsedAt: chain.FormatTime(one.LastUsedAt), ExpiresAt: chain.FormatTime(one.Expiry), Present: one.ID == by.Session}
		if !one.Reauthenticated.IsZero() {
			list[i].ReauthenticatedAt = chain.FormatTime(one.Reauthenticated)
		}
	}
	return list, err
}

// EndSessions ends a session of the caller, or with "" all, and returns them.
func (s *People) EndSessions(ctx context.Context, by store.Caller, id string) ([]string, error) {
	ended, err := s.Store.People.EndSessions(ctx, by, id)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(NotFound, "Session not found: "+id)
	}
	return ended, err
}
