package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// People are the people of a company, and how they sign in.
type People struct {
	API    *httpapi.API
	Store  *store.Store
	People *service.People
	Hub    *stream.Hub
}

type createPersonRequest struct {
	_        struct{}        `missing:"Missing or invalid field: personId and name are required"`
	PersonID string          `json:"personId" must:"string"`
	Name     string          `json:"name" must:"name"`
	Email    *string         `json:"email" must:"given"`
	Roles    []string        `json:"roles" must:"names"`
	Groups   []string        `json:"groups" must:"texts"`
	Subjects json.RawMessage `json:"subjects"`
}

// Create and the endpoints below are additions to the specification.
func (s *People) Create(ctx context.Context, by store.Caller, r createPersonRequest) (service.Person, error) {
	if r.Roles == nil {
		r.Roles = []string{store.PersonReader}
	}
	subjects, err := service.ParseSubjects(r.Subjects)
	if err != nil {
		return service.Person{}, err
	}
	return s.People.Create(ctx, by, service.NewPerson{ID: &r.PersonID, Name: &r.Name, Email: r.Email, Roles: r.Roles, Groups: r.Groups, Subjects: subjects})
}

func (s *People) List(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Person], error) {
	return httpapi.List[service.Person]{Name: "people", Items: service.Map(s.Store.People.List(ctx, by), service.ShowPerson)}, nil
}

// personRequest is a request about the person in the path.
type personRequest struct {
	PersonID string `path:"personId"`
}

func (s *People) Get(ctx context.Context, by store.Caller, r personRequest) (service.Person, error) {
	return s.People.Get(ctx, by, r.PersonID)
}

type changePersonRequest struct {
	PersonID string          `path:"personId"`
	Name     *string         `json:"name" must:"given"`
	Email    *string         `json:"email" must:"text"`
	Roles    []string        `json:"roles" must:"names"`
	Groups   []string        `json:"groups" must:"texts"`
	Subjects json.RawMessage `json:"subjects"`
	Disabled *bool           `json:"disabled" must:"choice"`
}

// Change changes the members that the request names.
func (s *People) Change(ctx context.Context, by store.Caller, r changePersonRequest) (service.Person, error) {
	subjects, err := service.ParseSubjects(r.Subjects)
	if err != nil {
		return service.Person{}, err
	}
	p, ended, err := s.People.Change(ctx, by, r.PersonID, service.NewPerson{Name: r.Name, Email: r.Email, Roles: r.Roles, Groups: r.Groups, Subjects: subjects, Disabled: r.Disabled})
	s.end(ended)
	return p, err
}

func (s *People) Delete(ctx context.Context, by store.Caller, r personRequest) (deletion, error) {
	ended, err := s.People.Delete(ctx, by, r.PersonID)
	s.end(ended)
	return deletion{err == nil}, err
}

// end ends the streams of sessions that have ended. Those at other servers end when they are
// checked.
func (s *People) end(sessions []string) {
	for _, id := range sessions {
		s.Hub.End(personSession(id))
	}
}

type inviteRequest struct {
	PersonID  string `path:"personId"`
	ExpiresIn int    `json:"expiresIn" must:"number 1..604800" default:"3600"`
}

func (s *People) Invite(ctx context.Context, by store.Caller, r inviteRequest) (service.NewInvitation, error) {
	return s.People.Invite(ctx, by, r.PersonID, time.Duration(r.ExpiresIn)*time.Second)
}

type revokePasskeyRequest struct {
	PersonID     string `path:"personId"`
	CredentialID string `path:"credentialId"`
}

func (s *People) RevokePasskey(ctx context.Context, by store.Caller, r revokePasskeyRequest) (service.Passkey, error) {
	k, ended, err := s.People.RevokePasskey(ctx, by, r.PersonID, r.CredentialID)
	s.end(ended)
	return k, err
}

// invitedRequest is of somebody with an invitation. Its secret is in the body, so that it is in no
// request line.
type invitedRequest struct {
	_          struct{} `missing:"Missing or invalid field: invitation is required"`
	Invitation string   `json:"invitation" must:"string"`
	// of the first person of a database alone
	CompanyID *string `json:"companyId" must:"given"`
	PersonID  *string `json:"personId" must:"given"`
	Name      *string `json:"name" must:"given"`
	*http.Request
}

func invited(secret string, companyID, personID, name *string) service.Invited {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return service.Invited{Secret: secret, CompanyID: text(companyID), PersonID: text(personID), Name: text(name)}
}

func (s *People) EnrolOptions(ctx context.Context, by store.Caller, r invitedRequest) (service.Options, error) {
	return s.People.EnrolOptions(ctx, s.API.OwnBase(r.Request), invited(r.Invitation, r.CompanyID, r.PersonID, r.Name), by.At)
}

type enrolRequest struct {
	_          struct{}        `missing:"Missing or invalid field: invitation and credential are required"`
	Invitation string          `json:"invitation" must:"string"`
	CompanyID  *string         `json:"companyId" must:"given"`
	PersonID   *string         `json:"personId" must:"given"`
	Name       *string         `json:"name" must:"given"`
	Credential json.RawMessage `json:"credential" must:"present"`
	*http.Request
}

// signedIn sets the cookie of a session.
type signedIn struct{ service.SignedIn }

func (a signedIn) SetHeader(h http.Header) { h.Set("Set-Cookie", httpapi.SessionCookie(a.Secret)) }

// Enrol enrols a passkey by an invitation, and begins a session.
func (s *People) Enrol(ctx context.Context, by store.Caller, r enrolRequest) (signedIn, error) {
	in, err := s.People.Enrol(ctx, s.API.OwnBase(r.Request), invited(r.Invitation, r.CompanyID, r.PersonID, r.Name), r.Credential, by.At)
	return signedIn{in}, err
}

// pageRequest is a request without members.
type pageRequest struct{ *http.Request }

func (s *People) SignInOptions(ctx context.Context, by store.Caller, r pageRequest) (service.Options, error) {
	return s.People.SignInOptions(ctx, s.API.OwnBase(r.Request), by.At)
}

type credentialRequest struct {
	_          struct{}        `missing:"Missing or invalid field: credential is required"`
	Credential json.RawMessage `json:"credential" must:"present"`
	*http.Request
}

// SignIn begins a session. A cookie of the request counts for nothing, so that nobody fixes the
// session of another.
func (s *People) SignIn(ctx context.Context, by store.Caller, r credentialRequest) (signedIn, error) {
	in, err := s.People.SignIn(ctx, s.API.OwnBase(r.Request), r.Credential, by.At)
	return signedIn{in}, err
}

// me is the caller, with the present session.
type me struct {
	CompanyID string `json:"companyId"`
	service.Person
	Session service.PersonSession `json:"session"`
}

// Me returns who has signed in.
func (s *People) Me(ctx context.Context, by store.Caller, _ httpapi.None) (me, error) {
	p, err := s.People.Get(ctx, by, by.Person)
	if err != nil {
		return me{}, err
	}
	sessions, err := s.People.Sessions(ctx, by)
	for _, one := range sessions {
		if one.Present {
			return me{by.Company.ID, p, one}, err
		}
	}
	if err == nil { // it has ended since
		err = httpapi.Unauthorized()
	}
	return me{}, err
}

func (s *People) AddOptions(ctx context.Context, by store.Caller, r pageRequest) (service.Options, error) {
	return s.People.AddOptions(ctx, by, s.API.OwnBase(r.Request))
}

// Add enrols another passkey of the caller.
func (s *People) Add(ctx context.Context, by store.Caller, r credentialRequest) (service.Passkey, error) {
	return s.People.Add(ctx, by, s.API.OwnBase(r.Request), r.Credential)
}

type revokeOwnRequest struct {
	CredentialID string `path:"credentialId"`
}

func (s *People) RevokeOwn(ctx context.Context, by store.Caller, r revokeOwnRequest) (service.Passkey, error) {
	return s.RevokePasskey(ctx, by, revokePasskeyRequest{by.Person, r.CredentialID})
}

func (s *People) ReauthenticateOptions(ctx context.Context, by store.Caller, r pageRequest) (service.Options, error) {
	return s.People.ReauthenticateOptions(ctx, by, s.API.OwnBase(r.Request))
}

func (s *People) Reauthenticate(ctx context.Context, by store.Caller, r credentialRequest) (service.Reauthenticated, error) {
	return s.People.Reauthenticate(ctx, by, s.API.OwnBase(r.Request), r.Credential)
}

type sessionsBody struct {
	Sessions []service.PersonSession `json:"sessions"`
}

func (s *People) Sessions(ctx context.Context, by store.Caller, _ httpapi.None) (sessionsBody, error) {
	list, err := s.People.Sessions(ctx, by)
	return sessionsBody{list}, err
}

// signedOut ends the cookie too.
type signedOut struct {
	Deleted bool `json:"deleted"`
	present bool
}

func (a signedOut) SetHeader(h http.Header) {
	if a.present {
		h.Set("Set-Cookie", httpapi.SessionCookie(""))
	}
}

// EndSessions signs the caller out everywhere.
func (s *People) EndSessions(ctx context.Context, by store.Caller, _ httpapi.None) (signedOut, error) {
	return s.endSession(ctx, by, "")
}

type endSessionRequest struct {
	SessionID string `path:"sessionId"`
}

func (s *People) EndSession(ctx context.Context, by store.Caller, r endSessionRequest) (signedOut, error) {
	return s.endSession(ctx, by, r.SessionID)
}

func (s *People) endSession(ctx context.Context, by store.Caller, id string) (signedOut, error) {
	ended, err := s.People.EndSessions(ctx, by, id)
	s.end(ended)
	return signedOut{err == nil, id == "" || id == by.Session}, err
}
