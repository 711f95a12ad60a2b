package projection

import "fmt"

// The tables as differences and records name them.
const (
	TablePerson       = "person"
	TablePasskey      = "passkey"
	TableInvitation   = "invitation"
	TableChangePolicy = "change_policy"
	// which have an HMAC in place of a record
	TablePersonSession = "person_session"
)

// Person is a person of a company.
type Person struct {
	Name       string `json:"name"`
	Email      string `json:"email"`    // "" for none
	Roles      string `json:"roles"`    // a JSON array in the form of RFC 8785, as the next two
	Groups     string `json:"groups"`   // of people
	Subjects   string `json:"subjects"` // of other issuers
	CreatedAt  string `json:"createdAt"`
	DisabledAt string `json:"disabledAt"` // "" while the person is not
}

func (d *details) person() (Person, error) {
	return Person{
		Name: d.Name, Email: valueOf(d.Email), Roles: list(d.Roles), Groups: list(d.Groups), Subjects: list(d.Subjects), CreatedAt: d.CreatedAt, DisabledAt: d.DisabledAt,
	}, nil
}

// Person compares a person. Each record about one that is not the last has all of the person.
func (l *Latest) Person(personID string, has Person) *Difference {
	return against(l, TablePerson, personID, has, func(d *details) (Person, bool, error) {
		want, err := d.person()
		return want, l.ActionType != "person.created" && l.ActionType != "person.changed", err
	})
}

// Passkey is a passkey of a person.
type Passkey struct {
	PersonID   string `json:"personId"`
	PublicKey  string `json:"publicKey"` // the COSE key in base64url
	Algorithm  int64  `json:"algorithm"` // of COSE
	Transports string `json:"transports"`
	Flags      int64  `json:"flags"` // BE and BS at the enrolment
	AAGUID     string `json:"aaguid"`
	RevokedAt  string `json:"revokedAt"` // "" while it is not
}

// The flags of authenticatorData that a passkey has (WebAuthn §6.1).
const (
	flagBackupEligible = 0x08
	flagBackedUp       = 0x10
)

func (d *details) passkey() (Passkey, error) {
	p := Passkey{PersonID: d.PersonID, PublicKey: d.PublicKey, Algorithm: d.COSEAlgorithm, Transports: list(d.Transports), AAGUID: d.AAGUID}
	if d.BackupEligible {
		p.Flags |= flagBackupEligible
	}
	if d.BackedUp {
		p.Flags |= flagBackedUp
	}
	return p, nil
}

// Passkey compares a passkey. The record of a revocation says no more than that, and more is asked
// of no passkey that is revoked.
func (l *Latest) Passkey(credentialID string, has Passkey) *Difference {
	return against(l, TablePasskey, credentialID, has, func(d *details) (want Passkey, gone bool, err error) {
		switch l.ActionType {
		case "passkey.enrolled":
			want, err = d.passkey()
		case "passkey.revoked":
			want = has
			want.PersonID, want.RevokedAt = d.PersonID, d.RevokedAt
		default:
			gone = true
		}
		return want, gone, err
	})
}

// Invitation is a link with which a person enrols one passkey.
type Invitation struct {
	PersonID  string `json:"personId"`
	CreatedAt string `json:"createdAt"`
	ExpiresAt string `json:"expiresAt"`
	Passkey   string `json:"passkey"` // credential ID of the passkey; "" while it is not spent
}

func (d *details) invitation() (Invitation, error) {
	end, err := d.grantEnd()
	return Invitation{PersonID: d.PersonID, CreatedAt: d.CreatedAt, ExpiresAt: end}, err
}

// invite says with which passkey an invitation was spent. None is spent twice.
func (s *State) invite(fingerprint, credentialID string, index int64) error {
	before := s.Invitations[fingerprint].Row.Passkey
	err := alter(s, s.Invitations, fingerprint, index, func(i *Invitation) { i.Passkey = credentialID })
	if err == nil && before != "" {
		err = fmt.Errorf("spends the invitation %q again, which was spent on the passkey %s", fingerprint, before)
	}
	return err
}

// Invitation compares an invitation, except whether it was spent: the record of the passkey says
// that, and the replay compares it.
func (l *Latest) Invitation(fingerprint string, has Invitation) *Difference {
	if l == nil {
		return unrecorded(TableInvitation, fingerprint, has)
	}
	want, gone, is, err := row[Invitation](l)
	if !is && err == nil {
		want, err = l.Payload.invitation()
	}
	want.Passkey = has.Passkey
	return l.compare(TableInvitation, fingerprint, gone, err, func() *Difference {
		return differs(TableInvitation, fingerprint, has, Entry[Invitation]{want, l.Index})
	})
}

// ChangePolicy says who may change what control records tell of.
type ChangePolicy struct {
	Changes string `json:"changes"` // any or people; "" for any
}

// ChangePolicy compares the policy of a company; the zero one means a missing row.
func (l *Latest) ChangePolicy(has ChangePolicy) *Difference {
	return againstOrNone(l, TableChangePolicy, "", has, ChangePolicy{}, (*details).changePolicy)
}

func (d *details) changePolicy() ChangePolicy { return ChangePolicy{d.Changes} }

// subjectChanges is of company.policy-changed where that is about ChangePolicy.
const subjectChanges = "changes"

// changePeople applies a change of a person, a passkey or an invitation.
func (s *State) changePeople(index int64, action string, d *details) error {
	switch action {
	case "person.created", "person.changed":
		return put(s.People, d.PersonID, index, d.person)
	case "person.deleted":
		delete(s.People, d.PersonID)
	case "passkey.enrolled":
		err := put(s.Passkeys, d.CredentialID, index, d.passkey)
		if err == nil && d.Invitation != nil {
			err = s.invite(*d.Invitation, d.CredentialID, index)
		}
		return err
	case "passkey.revoked":
		return alter(s, s.Passkeys, d.CredentialID, index, func(p *Passkey) { p.RevokedAt = d.RevokedAt })
	case "invitation.created":
		return put(s.Invitations, d.Fingerprint, index, d.invitation)
	}
	return nil
}
