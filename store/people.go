package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// People are the people of companies, their passkeys, the invitations with which they enrol them,
// and where they are signed in. Nothing of them is cached, so that what ends has ended everywhere.
type People struct {
	db        *base
	keys      rowKeys
	companies Companies
}

// Person is a person of a company.
type Person struct {
	ID         string
	Name       string
	Email      *string
	Roles      []string // ascending, as Groups
	Groups     []string
	CreatedAt  string
	DisabledAt string // "" while the person is not

	company                 int64
	roles, groups, subjects string // JSON arrays in the form of RFC 8785
	madeBy                  string
}

// The roles of people.
const (
	PersonAdmin    = "admin"
	PersonApprover = "approver"
	PersonReader   = "reader"
)

// role is what a person may do at the routes that credentials have too.
func (p *Person) role() Role {
	if slices.Contains(p.Roles, PersonAdmin) {
		return Admin
	}
	return Reader
}

var people = right[Person, projection.Person]{
	table: projection.TablePerson, subject: "person:", title: "person_id", order: "person_id",
	columns: func(p *Person) []column {
		return []column{
			plain("company", &p.company),
			plain("person_id", &p.ID).as("personId"),
			plain("name", &p.Name).as("name"),
			nullable("email", &p.Email).as("email"),
			plain("roles", &p.roles).asJSON("roles"),
			plain("groups", &p.groups).asJSON("groups"),
			plain("subjects", &p.subjects).asJSON("subjects"),
			plain("created_at", &p.CreatedAt).as("createdAt"),
			optional("made_by", &p.madeBy),
			optional("disabled_at", &p.DisabledAt).as("disabledAt").ifAny(),
		}
	},
	row: func(p *Person) projection.Person {
		return projection.Person{
			Name: p.Name, Email: valueOrEmpty(p.Email), Roles: p.roles, Groups: p.groups, Subjects: p.subjects, CreatedAt: p.CreatedAt, DisabledAt: p.DisabledAt,
		}
	},
}

// read fills the lists of a person from the columns.
func (p *Person) read() (err error) {
	if p.Roles, err = stringsIn(p.roles); err == nil {
		p.Groups, err = stringsIn(p.groups)
	}
	return err
}

// write fills the columns from the lists of a person.
func (p *Person) write() {
	p.Roles, p.Groups = ascending(p.Roles), ascending(p.Groups)
	p.roles, p.groups = canonicalStrings(p.Roles), canonicalStrings(p.Groups)
}

// ascending is a sorted copy, which is never nil.
func ascending(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return list
}

// Create creates a person. ErrExists, or ErrTooMany where the company has most people.
func (s People) Create(ctx context.Context, by Caller, p Person, most int) (Person, error) {
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		created, err := s.insert(w, by, &p, most)
		return []controlEvent{created}, err
	})
	if err != nil {
		return Person{}, fmt.Errorf("create person %q: %w", p.ID, err)
	}
	return p, nil
}

func (s People) insert(w *db.Conn, by Caller, p *Person, most int) (created controlEvent, err error) {
	p.company, p.CreatedAt, p.madeBy, p.subjects = by.Company.Chain, chain.FormatTime(by.At), by.Credential, "[]"
	p.write()
	if err := checkCount(w, most, `SELECT count(*) FROM person WHERE company = ?`, p.company); err != nil {
		return created, err
	}
	n, err := people.insert(w, p, "ON CONFLICT (company, person_id) DO NOTHING")
	if err == nil && n == 0 {
		err = ErrExists
	}
	return people.created(PersonCreated, p, nil), err
}

// List yields the people of the caller's company in the order of their IDs.
func (s People) List(ctx context.Context, by Caller) iter.Seq2[Person, error] {
	scan := func(rows *sql.Rows) (Person, error) {
		p, err := people.scan(rows)
		if err == nil {
			err = p.read()
		}
		return p, err
	}
	return db.List(ctx, s.db.DB, "people", scan, "SELECT "+people.list("person")+" FROM person WHERE company = ? AND person_id > ? ORDER BY person_id",
		func(last Person) []any { return []any{by.Company.Chain, last.ID} })
}

// Get returns a person of the caller's company; ErrNotFound.
func (s People) Get(ctx context.Context, by Caller, personID string) (p Person, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		p, err = s.load(r, by.Company, personID)
		return err
	})
	if err != nil {
		return Person{}, fmt.Errorf("person %q: %w", personID, err)
	}
	return p, nil
}

// load reads a person and compares the row with the newest control record about it.
func (s People) load(r *db.Conn, company *Company, personID string) (Person, error) {
	found, err := people.knownOne(r, "company = ? AND person_id = ?", company.Chain, personID)
	if err != nil {
		return Person{}, err
	}
	l, err := controlRecord(r, company, found.latest)
	if err != nil {
		return Person{}, s.db.noted(company, err)
	}
	p := found.row
	if err = s.db.checked(company, l.Person(p.ID, people.row(&p))); err == nil {
		err = p.read()
	}
	return p, err
}

// loadEnabled is load for a person who may do something.
func (s People) loadEnabled(r *db.Conn, company *Company, personID string) (Person, error) {
	p, err := s.load(r, company, personID)
	if err == nil && p.DisabledAt != "" {
		err = ErrDisabled
	}
	return p, err
}

// Change changes a person: the members that change sets. It ends the sessions of one who is
// disabled, which it returns, and the approvals that are not used up. ErrNotFound; ErrLastAdmin
// where nobody would be left who is an admin, enabled and has a passkey.
func (s People) Change(ctx context.Context, by Caller, personID string, change func(*Person)) (p Person, ended []string, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if p, err = s.load(w, by.Company, personID); err != nil {
			return nil, err
		}
		before := people.row(&p)
		change(&p)
		if p.write(); people.row(&p) == before {
			return nil, nil
		}
		had, err := s.hasAdmin(w, by.Company)
		if err != nil {
			return nil, err
		}
		_, err = w.Exec(`UPDATE person SET name = ?, email = ?, roles = ?, groups = ?, disabled_at = ? WHERE company = ? AND person_id = ?`,
			p.Name, p.Email, p.roles, p.groups, sql.NullString{String: p.DisabledAt, Valid: p.DisabledAt != ""}, by.Company.Chain, personID)
		if err == nil {
			err = s.leavesAdmin(w, by.Company, had)
		}
		events := []controlEvent{}
		if err == nil && p.DisabledAt != "" {
			if events, err = s.withdrawApprovals(w, by, personID); err == nil {
				ended, err = s.endSessions(w, by.Company, personID)
			}
		}
		events = append(events, signedOut(personID, ended)...)
		return append(events, people.created(PersonChanged, &p, nil)), err
	})
	if err != nil {
		return Person{}, nil, fmt.Errorf("change person %q: %w", personID, err)
	}
	return p, ended, nil
}

// Delete deletes a person, revokes the passkeys, and ends the approvals that are not used up and
// the sessions, which it returns. ErrNotFound, ErrLastAdmin.
func (s People) Delete(ctx context.Context, by Caller, personID string) (ended []string, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		had, err := s.hasAdmin(w, by.Company)
		if err != nil {
			return nil, err
		}
		n, err := w.Exec(`DELETE FROM person WHERE company = ? AND person_id = ?`, by.Company.Chain, personID)
		if err == nil && n == 0 {
			err = db.ErrNotFound
		}
		if err == nil {
			err = s.leavesAdmin(w, by.Company, had)
		}
		if err != nil {
			return nil, err
		}
		held, err := s.passkeysOf(w, by.Company, personID)
		for _, k := range held {
			if err == nil && k.RevokedAt == "" {
				var revoked controlEvent
				revoked, err = s.revoke(w, by, k)
				events = append(events, revoked)
			}
		}
		if err == nil {
			ended, err = s.endSessions(w, by.Company, personID)
		}
		if err == nil {
			var withdrawn []controlEvent
			withdrawn, err = s.withdrawApprovals(w, by, personID)
			events = append(events, withdrawn...)
		}
		events = append(events, signedOut(personID, ended)...)
		return append(events, controlEvent{PersonDeleted, people.about(personID), map[string]any{"personId": personID}}), err
	})
	if err != nil {
		return nil, fmt.Errorf("delete person %q: %w", personID, err)
	}
	return ended, nil
}

// hasAdmin reports whether somebody can sign in with a passkey and do everything.
func (s People) hasAdmin(r *db.Conn, company *Company) (has bool, err error) {
	// the role is a whole member of the array, and no other role holds it
	err = r.One([]any{&has}, `SELECT EXISTS (SELECT 1 FROM person p WHERE p.company = ?1 AND p.disabled_at IS NULL AND p.roles LIKE '%"admin"%'
		AND EXISTS (SELECT 1 FROM passkey k WHERE k.company = p.company AND k.person_id = p.person_id AND k.revoked_at IS NULL))`, company.Chain)
	return has, err
}

// leavesAdmin refuses a change after which hasAdmin is false, and was true before.
func (s People) leavesAdmin(w *db.Conn, company *Company, had bool) error {
	has, err := s.hasAdmin(w, company)
	if err == nil && had && !has {
		err = ErrLastAdmin
	}
	return err
}

// Passkey is a passkey of a person.
type Passkey struct {
	CredentialID string // base64url
	PersonID     string
	PublicKey    string // the canonical form of the COSE key, in base64url
	Algorithm    int64  // of COSE
	Transports   []string
	Flags        int64 // BackupEligible and BackedUp, at the enrolment
	AAGUID       string
	CreatedAt    string
	RevokedAt    string // "" while it is not

	id, company int64
	transports  string // a JSON array
}

// Flags of a passkey, as authenticatorData has them.
const (
	BackupEligible = 0x08
	BackedUp       = 0x10
)

var passkeys = right[Passkey, projection.Passkey]{
	table: projection.TablePasskey, subject: "passkey:", title: "credential_id", order: "id",
	columns: func(k *Passkey) []column {
		return []column{
			rowID(&k.id), plain("company", &k.company),
			plain("credential_id", &k.CredentialID).as("credentialId"),
			plain("person_id", &k.PersonID).as("personId"),
			plain("public_key", &k.PublicKey).as("publicKey"),
			plain("algorithm", &k.Algorithm).as("algorithm"),
			plain("transports", &k.transports).asJSON("transports"),
			plain("flags", &k.Flags),
			plain("aaguid", &k.AAGUID).as("aaguid"),
			plain("created_at", &k.CreatedAt),
			optional("revoked_at", &k.RevokedAt),
		}
	},
	row: func(k *Passkey) projection.Passkey {
		return projection.Passkey{PersonID: k.PersonID, PublicKey: k.PublicKey, Algorithm: k.Algorithm, Transports: k.transports, Flags: k.Flags, AAGUID: k.AAGUID, RevokedAt: k.RevokedAt}
	},
}

// MaxPasskeys is how many passkeys a person has at most that are not revoked.
const MaxPasskeys = 16

// Passkeys returns the passkeys of a person in the order of their enrolment, revoked ones too.
func (s People) Passkeys(ctx context.Context, by Caller, personID string) (list []Passkey, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		list, err = s.passkeysOf(r, by.Company, personID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("passkeys of person %q: %w", personID, err)
	}
	return list, nil
}

// maxListedPasskeys bounds the passkeys of a person that are read, with revoked ones: the newest.
const maxListedPasskeys = 1000

func (s People) passkeysOf(r *db.Conn, company *Company, personID string) ([]Passkey, error) {
	found, err := passkeys.known(r, "company = ? AND person_id = ? ORDER BY id DESC LIMIT ?", company.Chain, personID, maxListedPasskeys)
	list := make([]Passkey, len(found))
	for i := range found {
		if err == nil {
			list[len(found)-1-i], err = s.checkPasskey(r, company, found[i])
		}
	}
	return list, err
}

// checkPasskey compares a passkey with the newest control record about it.
func (s People) checkPasskey(r *db.Conn, company *Company, found known[Passkey]) (Passkey, error) {
	k := found.row
	l, err := controlRecord(r, company, found.latest)
	if err != nil {
		return k, s.db.noted(company, err)
	}
	if err = s.db.checked(company, l.Passkey(k.CredentialID, passkeys.row(&k))); err == nil {
		k.Transports, err = stringsIn(k.transports)
	}
	return k, err
}

// FindPasskey returns a passkey that is not revoked, with a caller who is its person but has not
// signed in. ErrNotFound where it is none, or of somebody who is disabled.
func (s People) FindPasskey(ctx context.Context, credentialID string, now time.Time) (k Passkey, by Caller, err error) {
	if by.Company, err = s.companyOf(ctx, `SELECT company FROM passkey WHERE credential_id = ?`, credentialID); err != nil {
		return Passkey{}, Caller{}, fmt.Errorf("passkey: %w", err)
	}
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found, err := passkeys.knownOne(r, "credential_id = ? AND company = ?", credentialID, by.Company.Chain)
		if err != nil {
			return err
		}
		if k, err = s.checkPasskey(r, by.Company, found); err != nil {
			return err
		}
		p, err := s.loadEnabled(r, by.Company, k.PersonID)
		if errors.Is(err, ErrDisabled) || err == nil && k.RevokedAt != "" {
			err = db.ErrNotFound
		}
		by.Person, by.Credential, by.Role, by.At = p.ID, people.about(p.ID), p.role(), now
		return err
	})
	if err != nil {
		return Passkey{}, Caller{}, fmt.Errorf("passkey: %w", err)
	}
	return k, by, nil
}

// companyOf returns the company that a query finds by one argument; ErrNotFound. It is read before
// the row is, because no read waits for another.
func (s People) companyOf(ctx context.Context, query string, arg any) (*Company, error) {
	var number int64
	if err := s.db.Read(ctx, func(r *db.Conn) error { return r.One([]any{&number}, query, arg) }); err != nil {
		return nil, err
	}
	return s.companies.now(ctx, number)
}

// RevokePasskey revokes a passkey of a person, for good. It ends the sessions in which the person
// was signed in with it, and returns them. ErrNotFound, ErrLastAdmin.
func (s People) RevokePasskey(ctx context.Context, by Caller, personID, credentialID string) (k Passkey, ended []string, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		found, err := passkeys.knownOne(w, "company = ? AND person_id = ? AND credential_id = ?", by.Company.Chain, personID, credentialID)
		if err == nil {
			k, err = s.checkPasskey(w, by.Company, found)
		}
		if err != nil || k.RevokedAt != "" {
			return nil, err
		}
		had, err := s.hasAdmin(w, by.Company)
		if err != nil {
			return nil, err
		}
		revoked, err := s.revoke(w, by, k)
		if err == nil {
			err = s.leavesAdmin(w, by.Company, had)
		}
		if err == nil {
			ended, err = s.endWhere(w, "company = ? AND person_id = ? AND passkey = ?", by.Company.Chain, personID, credentialID)
		}
		k.RevokedAt = chain.FormatTime(by.At)
		return append(signedOut(personID, ended), revoked), err
	})
	if err != nil {
		return Passkey{}, nil, fmt.Errorf("revoke a passkey of person %q: %w", personID, err)
	}
	return k, ended, nil
}

func (s People) revoke(w *db.Conn, by Caller, k Passkey) (controlEvent, error) {
	at := chain.FormatTime(by.At)
	_, err := w.Exec(`UPDATE passkey SET revoked_at = ? WHERE company = ? AND credential_id = ?`, at, by.Company.Chain, k.CredentialID)
	return controlEvent{PasskeyRevoked, passkeys.about(k.CredentialID), map[string]any{"personId": k.PersonID, "credentialId": k.CredentialID, "revokedAt": at}}, err
}

// Invitation is a link with which a person enrols one passkey.
type Invitation struct {
	PersonID    string
	Fingerprint string
	CreatedAt   string
	ExpiresAt   time.Time

	id, company int64
	hash        []byte // SHA-256 of the secret
	passkey     string // that was enrolled with it; "" for none yet
}

var invitations = right[Invitation, projection.Invitation]{
	table: projection.TableInvitation, subject: "invitation:", title: "fingerprint", order: "id",
	columns: func(i *Invitation) []column {
		return []column{
			rowID(&i.id), plain("company", &i.company), plain("hash", &i.hash),
			plain("fingerprint", &i.Fingerprint).as("fingerprint"),
			plain("person_id", &i.PersonID).as("personId"),
			plain("created_at", &i.CreatedAt).as("createdAt"),
			end("expires_at", &i.ExpiresAt).as("expiresAt"),
			optional("passkey", &i.passkey),
		}
	},
	row: func(i *Invitation) projection.Invitation {
		return projection.Invitation{PersonID: i.PersonID, CreatedAt: i.CreatedAt, ExpiresAt: formatEnd(i.ExpiresAt), Passkey: i.passkey}
	},
	wrong: func(_ *base, _ *Company, i *Invitation) string {
		if !isHashOf(i.hash, i.Fingerprint) {
			return "its hash is of another secret"
		}
		return ""
	},
}

// InvitationPrefix begins the secret of every invitation.
const InvitationPrefix = "inv_"

// Invite makes an invitation of a person until a time, of which only the hash of its secret is
// stored. With create it makes the person first, unless that is there: most people a company has.
// ErrNotFound and ErrDisabled of the person.
func (s People) Invite(ctx context.Context, by Caller, personID string, expires time.Time, create *Person, most int) (secret string, err error) {
	secret = keys.NewSecret(strings.TrimSuffix(InvitationPrefix, "_"))
	hash := keys.HashSecret(secret)
	i := Invitation{PersonID: personID, Fingerprint: keys.Fingerprint(hash), CreatedAt: chain.FormatTime(by.At), ExpiresAt: expires, company: by.Company.Chain, hash: hash[:]}
	err = s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		_, err = s.loadEnabled(w, by.Company, personID)
		if errors.Is(err, db.ErrNotFound) && create != nil {
			var created controlEvent
			created, err = s.insert(w, by, create, most)
			events = append(events, created)
		}
		if err == nil {
			_, err = invitations.insert(w, &i, "")
		}
		return append(events, invitations.created(InvitationCreated, &i, nil)), err
	})
	if err != nil {
		return "", fmt.Errorf("invite person %q: %w", personID, err)
	}
	return secret, nil
}

// Invited returns the person whose invitation has a secret with this hash, with a caller who is
// that person but has not signed in. ErrBadInvitation where there is none, or it was spent or has
// ended.
func (s People) Invited(ctx context.Context, hash [32]byte, now time.Time) (p Person, by Caller, err error) {
	by.Company, err = s.companyOf(ctx, `SELECT company FROM invitation WHERE hash = ?`, hash[:])
	if errors.Is(err, db.ErrNotFound) {
		err = ErrBadInvitation
	}
	if err == nil {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			p, _, err = s.invited(r, by.Company, hash, now)
			return err
		})
	}
	if err != nil {
		return Person{}, Caller{}, fmt.Errorf("invitation: %w", err)
	}
	by.Person, by.Credential, by.Role, by.At = p.ID, people.about(p.ID), p.role(), now
	return p, by, nil
}

func (s People) invited(r *db.Conn, company *Company, hash [32]byte, now time.Time) (p Person, i Invitation, err error) {
	found, err := invitations.knownOne(r, "hash = ? AND company = ?", hash[:], company.Chain)
	if errors.Is(err, db.ErrNotFound) {
		err = ErrBadInvitation
	}
	if err != nil {
		return p, i, err
	}
	i = found.row
	l, err := controlRecord(r, company, found.latest)
	if err != nil {
		return p, i, s.db.noted(company, err)
	}
	if err := s.db.checked(company, l.Invitation(i.Fingerprint, invitations.row(&i))); err != nil {
		return p, i, err
	}
	p, err = s.loadEnabled(r, company, i.PersonID)
	// a person who was made later under the same ID is another one
	if errors.Is(err, ErrDisabled) || errors.Is(err, db.ErrNotFound) ||
		err == nil && (i.passkey != "" || !now.Before(i.ExpiresAt) || i.Fingerprint != keys.Fingerprint(hash) || i.CreatedAt < p.CreatedAt) {
		err = ErrBadInvitation
	}
	return p, i, err
}

// PasskeyEnrolment is what a passkey is enrolled with.
type PasskeyEnrolment struct {
	Passkey Passkey
	// hash of the secret of the invitation; nil for a person who has signed in
	Invitation *[32]byte
	RPID       string      // the relying party for which it was made
	Challenge  [32]byte    // names the challenge, which counts once
	Ends       time.Time   // of that
	Session    *NewSession // which begins with the enrolment; nil for none

	isNew bool // the person is made in the same transaction
}

// Enrol adds a passkey of the caller, who is a person. ErrBadInvitation, ErrUsed of the challenge,
// ErrExists where some company has the passkey, ErrTooMany, and a *RelyingPartyError.
func (s People) Enrol(ctx context.Context, by Caller, e PasskeyEnrolment) (k Passkey, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		k, events, err = s.enrol(w, by, e)
		return events, err
	})
	if err != nil {
		return Passkey{}, fmt.Errorf("enrol a passkey of person %q: %w", by.Person, err)
	}
	return k, nil
}

func (s People) enrol(w *db.Conn, by Caller, e PasskeyEnrolment) (k Passkey, events []controlEvent, err error) {
	if err := useProofs(w, by.At, []UsedProof{{e.Challenge, e.Ends}}); err != nil {
		return k, nil, err
	}
	if err := s.claimRelyingParty(w, e.RPID); err != nil {
		return k, nil, err
	}
	k = e.Passkey
	k.company, k.PersonID, k.CreatedAt, k.transports = by.Company.Chain, by.Person, chain.FormatTime(by.At), canonicalStrings(k.Transports)
	details := map[string]any{"invitation": nil, "formerPasskey": textOrNil(by.Passkey), "backupEligible": k.Flags&BackupEligible != 0, "backedUp": k.Flags&BackedUp != 0}
	if e.Invitation != nil {
		if details["invitation"], err = s.spend(w, by, k, *e.Invitation); err != nil {
			return k, nil, err
		}
	} else if !e.isNew {
		if _, err := s.loadEnabled(w, by.Company, by.Person); err != nil {
			return k, nil, err
		}
	}
	err = checkCount(w, MaxPasskeys, `SELECT count(*) FROM passkey WHERE company = ? AND person_id = ? AND revoked_at IS NULL`, k.company, k.PersonID)
	if err != nil {
		return k, nil, err
	}
	var other int64
	switch err := w.One([]any{&other}, `SELECT id FROM passkey WHERE credential_id = ?`, k.CredentialID); {
	case err == nil:
		return k, nil, ErrExists
	case !errors.Is(err, db.ErrNotFound):
		return k, nil, err
	}
	_, err = passkeys.insert(w, &k, "")
	events = []controlEvent{passkeys.created(PasskeyEnrolled, &k, details)}
	if err == nil && e.Session != nil {
		var began []controlEvent
		began, err = s.begin(w, by, k, e.Session)
		events = append(events, began...)
	}
	return k, events, err
}

// spend spends an invitation on a passkey, and returns its fingerprint.
func (s People) spend(w *db.Conn, by Caller, k Passkey, hash [32]byte) (fingerprint string, err error) {
	p, i, err := s.invited(w, by.Company, hash, by.At)
	if err == nil && p.ID != by.Person {
		err = ErrBadInvitation
	}
	if err == nil {
		err = s.checkUnspent(w, by.Company, i)
	}
	if err != nil {
		return "", err
	}
	n, err := w.Exec(`UPDATE invitation SET passkey = ? WHERE hash = ? AND passkey IS NULL`, k.CredentialID, hash[:])
	if err == nil && n == 0 {
		err = ErrBadInvitation
	}
	return i.Fingerprint, err
}

// checkUnspent requires that no passkey of the person was enrolled with an invitation.
func (s People) checkUnspent(w *db.Conn, company *Company, i Invitation) error {
	return s.db.checkUnspent(w, company, projection.TableInvitation, i.Fingerprint, "passkey",
		func(l *projection.Latest) *string { return l.Payload.Invitation },
		"SELECT "+aboutSubject("passkey.company", passkeys.subjectSQL("passkey"), "", "ASC")+" FROM passkey WHERE company = ? AND person_id = ?", company.Chain, i.PersonID)
}

// relyingPartySetting names the setting with the ID of the relying party, a host name, for which
// all passkeys of the database were made (WebAuthn §4). Its hash is signed by every passkey.
const relyingPartySetting = "relying_party"

// RelyingPartyError means that the passkeys of the database were made for another host name.
type RelyingPartyError struct{ Has, Wants string }

func (e *RelyingPartyError) Error() string {
	return fmt.Sprintf("the passkeys of this database are of the host %q, and none of them works for %q: start with --base-url of that host", e.Has, e.Wants)
}

// RelyingParty returns the host for which the passkeys were made; "" before the first one.
func (s People) RelyingParty(ctx context.Context) (rpID string, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		rpID, err = relyingParty(r)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("relying party of the passkeys: %w", err)
	}
	return rpID, nil
}

func relyingParty(r *db.Conn) (rpID string, err error) {
	err = r.One([]any{&rpID}, `SELECT value FROM setting WHERE name = ?`, relyingPartySetting)
	if errors.Is(err, db.ErrNotFound) {
		err = nil
	}
	return rpID, err
}

// claimRelyingParty makes the host of the first passkey that of all.
func (s People) claimRelyingParty(w *db.Conn, rpID string) error {
	_, err := w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, relyingPartySetting, rpID)
	if err != nil {
		return err
	}
	has, err := relyingParty(w)
	if err == nil && has != rpID {
		err = &RelyingPartyError{has, rpID}
	}
	return err
}
