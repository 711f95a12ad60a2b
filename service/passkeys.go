package service

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/crypto/passkey"
	"attestd/store"
)

// relyingParty is the relying party of a ceremony (WebAuthn §4): the host and the one page that may
// ask.
type relyingParty struct {
	rpID, origin string
	web          *webauthn.WebAuthn
}

// party returns the relying party at an address of this service, "" for none that is known. Its
// host is a name: no passkey is made for an IP address.
func (s *People) party(ctx context.Context, base string) (p relyingParty, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return p, refuse(Conflict, "Conflict: this request has come under another name than that of this service: "+ErrNoName.Error())
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return p, &Error{Kind: Conflict, Code: "RELYING_PARTY",
			Message: "Conflict: no passkey works for an IP address: open the console under a name, as http://localhost of this machine, or as --base-url says"}
	}
	p.rpID, p.origin = u.Hostname(), u.Scheme+"://"+u.Host
	has, err := s.Store.People.RelyingParty(ctx)
	if err == nil && has != "" && has != p.rpID {
		err = &store.RelyingPartyError{Has: has, Wants: p.rpID}
	}
	if err != nil {
		return p, err
	}
	within := webauthn.TimeoutConfig{Enforce: true, Timeout: store.ChallengeLifetime, TimeoutUVD: store.ChallengeLifetime}
	required := true
	p.web, err = webauthn.New(&webauthn.Config{
		RPID: p.rpID, RPDisplayName: "attestd", RPOrigins: []string{p.origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: &required, UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: within, Registration: within},
	})
	return p, err
}

// user is a person as package webauthn knows one.
type user struct {
	handle      []byte
	name, shown string
	credentials []webauthn.Credential
}

func (u *user) WebAuthnID() []byte                         { return u.handle }
func (u *user) WebAuthnName() string                       { return u.name }
func (u *user) WebAuthnDisplayName() string                { return u.shown }
func (u *user) WebAuthnCredentials() []webauthn.Credential { return u.credentials }

var base64url = base64.RawURLEncoding

// Options are what a page hands to the browser: of navigator.credentials.create or get.
type Options struct {
	PublicKey any `json:"publicKey"`
	// of an invitation: for whom it is
	CompanyID string `json:"companyId,omitempty"`
	PersonID  string `json:"personId,omitempty"`
	Name      string `json:"name,omitempty"`
}

// The purposes of challenges. Each names whose the challenge is, so that it counts for nobody else.
const purposeSignIn = "sign-in"

func purposeReauthenticate(by store.Caller) string {
	return "reauthenticate\n" + by.Company.ID + "\n" + by.Person + "\n" + by.Session
}

func purposeAdd(by store.Caller) string {
	return "add\n" + by.Company.ID + "\n" + by.Person + "\n" + by.Session
}

func purposeInvited(secret [32]byte, companyID, personID string) string {
	return "enrol\n" + hex.EncodeToString(secret[:]) + "\n" + companyID + "\n" + personID
}

// creation returns the options for a new passkey of somebody.
func (s *People) creation(ctx context.Context, p relyingParty, purpose, companyID, personID, name string, has []store.Passkey, at time.Time) (any, error) {
	challenge, err := s.Store.People.Challenge(ctx, purpose, at)
	if err != nil {
		return nil, err
	}
	u := &user{name: personID, shown: name}
	if u.handle, err = s.Store.People.UserHandle(ctx, companyID, personID); err != nil {
		return nil, err
	}
	u.credentials = credentials(has)
	exclude := make([]protocol.CredentialDescriptor, len(u.credentials))
	for i := range u.credentials {
		exclude[i] = u.credentials[i].Descriptor()
	}
	made, _, err := p.web.BeginRegistration(u, webauthn.WithExclusions(exclude), webauthn.WithCredentialParameters(webauthn.CredentialParametersRecommendedL3()),
		func(o *protocol.PublicKeyCredentialCreationOptions) error {
			o.Challenge = challenge
			return nil
		})
	if err != nil {
		return nil, err
	}
	return made.Response, nil
}

// credentials are the passkeys that count, as package webauthn knows them.
func credentials(held []store.Passkey) (list []webauthn.Credential) {
	for _, k := range held {
		if k.RevokedAt != "" {
			continue
		}
		id, _ := base64url.DecodeString(k.CredentialID) // as it was written by enrolled
		public, _ := base64url.DecodeString(k.PublicKey)
		c := webauthn.Credential{ID: id, PublicKey: public, AttestationFormat: "none", Flags: webauthn.CredentialFlags{
			UserPresent: true, UserVerified: true, BackupEligible: k.Flags&store.BackupEligible != 0, BackupState: k.Flags&store.BackedUp != 0,
		}}
		for _, t := range k.Transports {
			c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
		}
		list = append(list, c)
	}
	return list
}

// maxTransports bounds what a browser says of how an authenticator is reached.
const maxTransports = 16

var (
	errChallenge = &Error{Kind: Untrusted, Code: "PASSKEY_CHALLENGE", Message: "Unauthorized: the challenge has ended, was used, or is of another ceremony; ask for options again"}
	errInvited   = &Error{Kind: Untrusted, Code: "INVITATION_INVALID", Message: "Unauthorized: the invitation is unknown, was used or has ended; ask for another one"}
	errPasskey   = &Error{Kind: Untrusted, Code: "PASSKEY_REFUSED", Message: "Unauthorized: the passkey is unknown here, or was revoked"}
)

func errBadPasskey(what string) *Error {
	return &Error{Kind: Invalid, Code: "PASSKEY_INVALID", Message: "Invalid field: credential " + what, Pointer: "/credential"}
}

// enrolled reads a new passkey, which the browser has made by options with a challenge of a
// purpose.
func (s *People) enrolled(ctx context.Context, p relyingParty, purpose, companyID, id string, credential json.RawMessage, at time.Time) (e store.PasskeyEnrolment, err error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return e, errBadPasskey("is no PublicKeyCredential of navigator.credentials.create in the form of toJSON")
	}
	challenge, proof, err := s.challenge(ctx, purpose, parsed.Response.CollectedClientData.Challenge, at)
	if err != nil {
		return e, err
	}
	u := &user{name: id, shown: id}
	if u.handle, err = s.Store.People.UserHandle(ctx, companyID, id); err != nil {
		return e, err
	}
	made, err := p.web.CreateCredential(u, webauthn.SessionData{
		Challenge: base64url.EncodeToString(challenge), RelyingPartyID: p.rpID, UserID: u.handle, Expires: proof.Ends,
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersRecommendedL3(),
	}, parsed)
	if err != nil {
		return e, errBadPasskey("is refused: " + reasonOf(err))
	}
	key, err := passkey.ParseKey(made.PublicKey)
	if err != nil {
		return e, errBadPasskey(err.Error())
	}
	k := store.Passkey{CredentialID: base64url.EncodeToString(made.ID), PublicKey: base64url.EncodeToString(key.COSE()), Algorithm: int64(key.Algorithm())}
	if made.Flags.BackupEligible {
		k.Flags |= store.BackupEligible
	}
	if made.Flags.BackupState {
		k.Flags |= store.BackedUp
	}
	if aaguid, err := uuid.FromBytes(made.Authenticator.AAGUID); err == nil {
		k.AAGUID = aaguid.String()
	}
	k.Transports = []string{}
	for _, t := range made.Transport {
		if len(k.Transports) == maxTransports || !isName(string(t)) {
			return e, errBadPasskey("has transports of another form")
		}
		k.Transports = append(k.Transports, string(t))
	}
	return store.PasskeyEnrolment{Passkey: k, RPID: p.rpID, Challenge: proof.Name, Ends: proof.Ends}, nil
}

// challenge reads the challenge that a browser has put into clientDataJSON.
func (s *People) challenge(ctx context.Context, purpose, text string, at time.Time) ([]byte, store.UsedProof, error) {
	challenge, err := base64url.DecodeString(text)
	if err != nil {
		return nil, store.UsedProof{}, errChallenge
	}
	proof, err := s.Store.People.CheckChallenge(ctx, purpose, challenge, at)
	if errors.Is(err, store.ErrUsed) {
		err = errChallenge
	}
	return challenge, proof, err
}

// reasonOf is what package webauthn says of a response, without what it says to developers.
func reasonOf(err error) string {
	var said *protocol.Error
	if errors.As(err, &said) && said.Details != "" {
		return said.Details
	}
	return "it does not verify"
}

// asserted returns the passkey that has signed a challenge of a purpose, its person, and what uses
// the challenge up. isEligible says that the passkey can be synced, which it could not before.
func (s *People) asserted(ctx context.Context, p relyingParty, purpose string, credential json.RawMessage, at time.Time) (k store.Passkey, by store.Caller, proof store.UsedProof, isEligible bool, err error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil {
		return k, by, proof, false, errBadPasskey("is no PublicKeyCredential of navigator.credentials.get in the form of toJSON")
	}
	challenge, proof, err := s.challenge(ctx, purpose, parsed.Response.CollectedClientData.Challenge, at)
	if err == nil {
		k, by, isEligible, err = s.verified(ctx, p, parsed, challenge, proof.Ends, at)
	}
	return k, by, proof, isEligible, err
}

// verified returns the passkey that has signed a challenge, which counts until a time, and its
// person. isEligible is as of asserted.
func (s *People) verified(ctx context.Context, p relyingParty, parsed *protocol.ParsedCredentialAssertionData, challenge []byte, ends, at time.Time) (k store.Passkey, by store.Caller, isEligible bool, err error) {
	k, by, err = s.Store.People.FindPasskey(ctx, base64url.EncodeToString(parsed.RawID), at)
	if errors.Is(err, store.ErrNotFound) {
		err = errPasskey
	}
	if err != nil {
		return k, by, false, err
	}
	// by our own reader, as whoever verifies a record does it
	public, err := base64url.DecodeString(k.PublicKey)
	if err != nil {
		return k, by, false, err
	}
	key, err := passkey.ParseKey(public)
	if err != nil {
		return k, by, false, err
	}
	raw := parsed.Raw.AssertionResponse
	flags, err := key.Verify(&passkey.Assertion{AuthenticatorData: raw.AuthenticatorData, ClientDataJSON: raw.ClientDataJSON, Signature: raw.Signature},
		passkey.Expected{RPID: p.rpID, Origins: []string{p.origin}, Challenge: challenge})
	if err != nil {
		return k, by, false, &Error{Kind: Untrusted, Code: "PASSKEY_REFUSED", Message: "Unauthorized: the assertion does not count: " + err.Error()}
	}
	// and by the library. A passkey may become one that is synced, and no other way round.
	u := &user{credentials: credentials([]store.Passkey{k})}
	if isEligible = flags&passkey.BackupEligible != 0 && k.Flags&store.BackupEligible == 0; isEligible {
		u.credentials[0].Flags.BackupEligible = true
	}
	if u.handle, err = s.Store.People.UserHandle(ctx, by.Company.ID, by.Person); err != nil {
		return k, by, false, err
	}
	session := webauthn.SessionData{Challenge: base64url.EncodeToString(challenge), RelyingPartyID: p.rpID, Expires: ends, UserVerification: protocol.VerificationRequired}
	if _, _, err = p.web.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) { return u, nil }, session, parsed); err != nil {
		return k, by, false, &Error{Kind: Untrusted, Code: "PASSKEY_REFUSED", Message: "Unauthorized: the assertion does not count: " + reasonOf(err)}
	}
	return k, by, isEligible, nil
}

// get returns the options for an assertion: of any passkey of this host, or of those that are
// given.
func (s *People) get(ctx context.Context, p relyingParty, purpose string, of []store.Passkey, at time.Time) (Options, error) {
	challenge, err := s.Store.People.Challenge(ctx, purpose, at)
	if err != nil {
		return Options{}, err
	}
	var allowed []protocol.CredentialDescriptor
	for _, c := range credentials(of) {
		allowed = append(allowed, c.Descriptor())
	}
	made, _, err := p.web.BeginDiscoverableLogin(webauthn.WithChallenge(challenge), webauthn.WithAllowedCredentials(allowed))
	if err != nil {
		return Options{}, err
	}
	return Options{PublicKey: made.Response}, nil
}

// SignInOptions are those of a sign-in with any passkey of this host.
func (s *People) SignInOptions(ctx context.Context, base string, at time.Time) (Options, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Options{}, err
	}
	return s.get(ctx, p, purposeSignIn, nil, at)
}

// SignedIn is somebody who has signed in. Secret is for the cookie alone.
type SignedIn struct {
	CompanyID string `json:"companyId"`
	PersonID  string `json:"personId"`
	ExpiresAt string `json:"expiresAt"`
	Secret    string `json:"-"`
}

func signedIn(by store.Caller, secret string) SignedIn {
	return SignedIn{by.Company.ID, by.Person, chain.FormatTime(by.At.Add(store.SessionLifetime)), secret}
}

// SignIn begins a session of whose passkey has signed.
func (s *People) SignIn(ctx context.Context, base string, credential json.RawMessage, at time.Time) (SignedIn, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return SignedIn{}, err
	}
	k, by, proof, isEligible, err := s.asserted(ctx, p, purposeSignIn, credential, at)
	if err != nil {
		return SignedIn{}, err
	}
	secret, err := s.Store.People.SignIn(ctx, by, k, proof, store.NewSession{SignedIn: store.ByPasskey, BackupEligible: isEligible})
	return signedIn(by, secret), ceremonyError(err)
}

// ceremonyError says what a transaction at the end of a ceremony has found.
func ceremonyError(err error) error {
	switch {
	case errors.Is(err, store.ErrUsed):
		return errChallenge
	case errors.Is(err, store.ErrBadInvitation):
		return errInvited
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrDisabled):
		return errPasskey
	case errors.Is(err, store.ErrTooMany):
		return TooMany("passkeys of a person", store.MaxPasskeys)
	case errors.Is(err, store.ErrExists):
		return &Error{Kind: Conflict, Code: "PASSKEY_EXISTS", Message: "Conflict: the passkey or the company is there already"}
	}
	return err
}

// ReauthenticateOptions are those with which the caller's passkeys sign again.
func (s *People) ReauthenticateOptions(ctx context.Context, by store.Caller, base string) (Options, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Options{}, err
	}
	held, err := s.Store.People.Passkeys(ctx, by, by.Person)
	if err != nil {
		return Options{}, err
	}
	return s.get(ctx, p, purposeReauthenticate(by), held, by.At)
}

// Reauthenticated says until when changes of rights are possible.
type Reauthenticated struct {
	Until string `json:"until"`
}

// Reauthenticate has a passkey of the caller sign again.
func (s *People) Reauthenticate(ctx context.Context, by store.Caller, base string, credential json.RawMessage) (Reauthenticated, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Reauthenticated{}, err
	}
	k, found, proof, _, err := s.asserted(ctx, p, purposeReauthenticate(by), credential, by.At)
	if err == nil && (found.Company.Chain != by.Company.Chain || found.Person != by.Person) {
		err = &Error{Kind: Untrusted, Code: "PASSKEY_REFUSED", Message: "Unauthorized: the passkey is another person's"}
	}
	if err == nil {
		err = ceremonyError(s.Store.People.Reauthenticate(ctx, by, k, proof))
	}
	if err != nil {
		return Reauthenticated{}, err
	}
	return Reauthenticated{chain.FormatTime(by.At.Add(store.ReauthenticationLifetime))}, nil
}

// AddOptions are those of another passkey of the caller.
func (s *People) AddOptions(ctx context.Context, by store.Caller, base string) (Options, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Options{}, err
	}
	me, err := s.Store.People.Get(ctx, by, by.Person)
	if err != nil {
		return Options{}, personError(by.Person, err)
	}
	held, err := s.Store.People.Passkeys(ctx, by, by.Person)
	if err != nil {
		return Options{}, err
	}
	o, err := s.creation(ctx, p, purposeAdd(by), by.Company.ID, by.Person, me.Name, held, by.At)
	return Options{PublicKey: o}, err
}

// Add enrols another passkey of the caller.
func (s *People) Add(ctx context.Context, by store.Caller, base string, credential json.RawMessage) (Passkey, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Passkey{}, err
	}
	e, err := s.enrolled(ctx, p, purposeAdd(by), by.Company.ID, by.Person, credential, by.At)
	if err != nil {
		return Passkey{}, err
	}
	k, err := s.Store.People.Enrol(ctx, by, e)
	return shownPasskey(k), ceremonyError(err)
}

// Invited is who opens an invitation. The company, the person and the name are of the first
// invitation of a database alone, which makes them.
type Invited struct {
	Secret                    string
	CompanyID, PersonID, Name string
}

// invitation is what an invitation is for.
type invitation struct {
	Invited
	hash  [32]byte
	by    store.Caller // who has not signed in; without a company where that is to be made
	first bool
}

// read looks an invitation up.
func (s *People) read(ctx context.Context, i Invited, at time.Time) (found invitation, err error) {
	found = invitation{Invited: i, hash: keys.HashSecret(i.Secret)}
	p, by, err := s.Store.People.Invited(ctx, found.hash, at)
	if err == nil {
		found.by, found.CompanyID, found.PersonID, found.Name = by, by.Company.ID, p.ID, p.Name
		return found, nil
	}
	if errors.Is(err, store.ErrBadInvitation) {
		if err = s.Store.People.CheckSetup(ctx, found.hash, at); errors.Is(err, store.ErrBadInvitation) {
			return found, errInvited
		}
		if err == nil {
			found.first = true
			err = found.checkFirst()
		}
	}
	return found, err
}

// checkFirst requires what the first person says of the company and themselves.
func (i *invitation) checkFirst() error {
	if i.CompanyID == "" || i.PersonID == "" || i.Name == "" {
		return &Error{Kind: Invalid, Code: "COMPANY_REQUIRED", Message: "Missing field: this invitation makes the first company: companyId, personId and name are required"}
	}
	if err := cred.CheckSegment(i.CompanyID); err != nil {
		return &Error{Kind: Invalid, Message: "Invalid field: companyId: " + err.Error(), Pointer: "/companyId"}
	}
	return NewPerson{ID: &i.PersonID, Name: &i.Name}.check()
}

// EnrolOptions are those of the passkey of somebody who was invited.
func (s *People) EnrolOptions(ctx context.Context, base string, invited Invited, at time.Time) (Options, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return Options{}, err
	}
	i, err := s.read(ctx, invited, at)
	if err != nil {
		return Options{}, err
	}
	var held []store.Passkey
	if !i.first {
		if held, err = s.Store.People.Passkeys(ctx, i.by, i.PersonID); err != nil {
			return Options{}, err
		}
	}
	o, err := s.creation(ctx, p, purposeInvited(i.hash, i.CompanyID, i.PersonID), i.CompanyID, i.PersonID, i.Name, held, at)
	return Options{o, i.CompanyID, i.PersonID, i.Name}, err
}

// Enrol enrols the passkey of somebody who was invited, and signs that person in.
func (s *People) Enrol(ctx context.Context, base string, invited Invited, credential json.RawMessage, at time.Time) (SignedIn, error) {
	p, err := s.party(ctx, base)
	if err != nil {
		return SignedIn{}, err
	}
	i, err := s.read(ctx, invited, at)
	if err != nil {
		return SignedIn{}, err
	}
	e, err := s.enrolled(ctx, p, purposeInvited(i.hash, i.CompanyID, i.PersonID), i.CompanyID, i.PersonID, credential, at)
	if err != nil {
		return SignedIn{}, err
	}
	e.Session = &store.NewSession{SignedIn: store.ByPasskey}
	by := i.by
	if i.first {
		person := store.Person{ID: i.PersonID, Name: i.Name, Roles: []string{store.PersonAdmin}, Groups: []string{}}
		by, _, err = s.Store.People.CreateFirst(ctx, i.hash, i.CompanyID, person, e, at)
	} else {
		// the person was verified just now, by the authenticator of the new passkey
		by.Reauthenticated, e.Invitation = at, &i.hash
		_, err = s.Store.People.Enrol(ctx, by, e)
	}
	if err != nil {
		return SignedIn{}, ceremonyError(err)
	}
	return signedIn(by, e.Session.Secret), nil
}

func shownPasskey(k store.Passkey) Passkey {
	shown := Passkey{CredentialID: k.CredentialID, Algorithm: k.Algorithm, Transports: k.Transports, BackupEligible: k.Flags&store.BackupEligible != 0, AAGUID: k.AAGUID,
		CreatedAt: k.CreatedAt, RevokedAt: k.RevokedAt}
	if public, err := base64url.DecodeString(k.PublicKey); err == nil {
		if key, err := passkey.ParseKey(public); err == nil {
			shown.Fingerprint = key.Fingerprint()
		}
	}
	return shown
}
