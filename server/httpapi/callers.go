package httpapi

import (
	"time"

	"attestd/store"
)

// Kinds is a set of kinds of callers. The zero value has none: a route that forgets to name its
// callers is closed to everybody.
type Kinds uint16

const (
	// Anonymous is a request without a credential. A route for this kind alone reads no credential.
	Anonymous Kinds = 1 << iota
	IsReader        // by an API key or a client's access token of this role
	IsWriter
	IsAdmin
	IsClient    // an OAuth client of any role, by its secret, an assertion or an access token
	IsAgent     // an agent for itself, by a key of its own, a federation or a certificate
	IsForPerson // an agent for a person
	IsEnrolling // by an enrolment token
	IsPerson    // a person who has signed in, by the cookie of the session; of a role too
)

// Anybody is every kind that the route allows.
const Anybody = ^Kinds(0)

// kindsOf returns what a caller is. A client's access token has a role too.
func kindsOf(by store.Caller) (is Kinds) {
	if by.Company == nil {
		return Anonymous
	}
	switch by.Role {
	case store.Enrolling:
		return IsEnrolling
	case store.ActsAsAgent:
		if by.Delegation != "" {
			return IsForPerson
		}
		return IsAgent
	case store.Reader:
		is = IsReader
	case store.Writer:
		is = IsWriter
	case store.Admin:
		is = IsAdmin
	default: // unknown here: no caller
		return 0
	}
	if by.Client != "" {
		is |= IsClient
	}
	if by.Person != "" {
		is |= IsPerson
	}
	return is
}

// Role is the lowest role among the kinds. A caller of no kind needs it.
func (who Kinds) Role() store.Role {
	switch {
	case who&IsReader != 0:
		return store.Reader
	case who&IsWriter != 0:
		return store.Writer
	case who&IsAdmin != 0:
		return store.Admin
	}
	return store.Enrolling
}

// By returns the caller, who is of one of the kinds, and of one that the route names. It is the
// only way from a request to its caller. It reads the time of the request, so it is called when the
// request is complete: the body may have taken a minute, in which a key is deleted and a token
// expires. The check of the presumed caller only avoids reading an unauthenticated body; this check
// decides.
//
// If Anonymous is the only kind, no credential is read, and the Caller has only a time.
func (c *Call) By(who Kinds) (store.Caller, error) {
	now := time.Now()
	// the body of a public route is not decoded into anything large
	if c.needs.IsPublic() && c.decoded != nil {
		c.decoded()
		c.decoded = nil
	}
	if who &= c.needs.Who; who == Anonymous {
		return store.Caller{At: now}, nil
	}
	by, err := c.lookUp(now)
	if err == nil {
		err = c.permit(by, who)
	}
	// Elsewhere it was seen before the body was read. What was suspended since is refused where it
	// is written or issued.
	if err == nil && c.needs.IsPublic() && by.Company != nil {
		err = c.active(by)
	}
	if err == nil {
		err = c.useProof()
	}
	if err != nil {
		return store.Caller{}, err
	}
	c.presumed = by
	return by, nil
}

// permit requires that a caller is of one of the kinds and, if it is one agent, that it calls for
// no other one in the path. Agents that a body names are checked where the body is read.
func (c *Call) permit(by store.Caller, who Kinds) error {
	is := kindsOf(by)
	agent := c.PathValue("agentId")
	switch {
	case is == Anonymous && who&Anonymous == 0:
		return Unauthorized()
	case is == IsForPerson && who&(IsForPerson|IsAgent) == IsAgent:
		return forPerson()
	case is&who == 0 && who == IsPerson:
		return personRequired()
	case is&who == 0:
		return c.outsideRole(by, who.Role())
	case by.Agent != "" && agent != "" && agent != by.Agent:
		return forbiddenAgent()
	case is == IsEnrolling:
		return c.api.AgentKeys.MayEnrol(c.Context(), by)
	case c.fresh:
		return by.Fresh()
	}
	return nil
}

// admitCaller permits the presumed caller before the body of a request is read, unless the handler
// finds out whose it is.
func (c *Call) admitCaller() error {
	if c.needs.IsPublic() {
		return nil
	}
	err := c.authErr
	if err == nil {
		err = c.permit(c.presumed, c.needs.Who)
	}
	if err == nil {
		err = c.active(c.presumed)
	}
	return err
}

// active refuses a caller whose company is suspended, where the route writes or issues something.
func (c *Call) active(by store.Caller) error {
	if !c.writes {
		return nil
	}
	return c.api.Store.Companies.Active(c.Context(), by)
}
