package server

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/keys"
	"attestd/server/limit"
	"attestd/store"
)

// call is the state of one request.
type call struct {
	*http.Request
	s       *Server
	w       *response
	id      string    // request ID
	came    time.Time // when its header was read
	needs   need      // of the route
	writes  bool      // the route is closed to a suspended company
	bearer  string    // credential as presented
	claimed bool      // whether one was presented, be it an empty one
	hash    [32]byte  // of bearer, or of the agent of the certificate
	authErr error     // that it could not be found out whose credential it is
	// who asks; its Company is nil without a valid credential, and never so on a route that needs a
	// role
	caller store.Caller
	client *store.Company // of the OAuth client that called by HTTP Basic, or nil
	// whether the connection has a client certificate, and whether nothing else was presented
	certified, onlyCertified bool
	certErr                  error // why it does not count, alone or beside the rest
	// of the key that its access token is bound to; nil without one
	proof *dpop.Proof
	body  *limit.Body // nil until it is read
	// releases the charge for decoding the body; nil if there is none
	decoded func()
	query   url.Values // declared parameters

	undeclared undeclared // policy of the route
	form       *requestForm
}

// handler implements a route.
type handler struct {
	serve func(c *call) error // nil means that it has responded
	form  *requestForm        // for an endpoint; nil if the request is read in another way
}

// authenticate looks up the presented credential, if any. After an error, public routes continue
// without it, so that the health check does not depend on the database.
func (c *call) authenticate() {
	scheme, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		c.identify(token)
		if c.caller.JKT != "" { // RFC 9449 §7.2
			c.caller, c.authErr = store.Caller{}, invalidToken("the access token is bound to a key: send it by the scheme DPoP, with a proof")
		}
	case strings.EqualFold(scheme, "DPoP"):
		c.identify(token)
		c.prove()
	case c.needs.client && strings.EqualFold(scheme, "Basic"):
		c.countClient()
	}
	c.certify()
}

// identify looks up the caller of a presented credential. There is none for an unknown credential.
func (c *call) identify(credential string) {
	c.bearer, c.claimed, c.hash = credential, true, keys.HashSecret(credential)
	if c.caller, c.authErr = c.lookUp(c.came); c.caller.Company == nil {
		c.caller = store.Caller{}
	}
}

// lookUp finds whose credential it is at a time: a caller without a company where it is nobody's.
func (c *call) lookUp(now time.Time) (caller store.Caller, err error) {
	if c.onlyCertified {
		return c.certifiedAgent(now)
	}
	caller, err = c.s.Store.Credentials.Authenticate(c.Context(), c.hash, now)
	if errors.Is(err, store.ErrNotFound) && strings.HasPrefix(c.bearer, store.EnrolmentPrefix) {
		caller, err = c.s.Store.AgentKeys.Enrolment(c.Context(), c.hash, now)
	}
	if errors.Is(err, store.ErrNotFound) {
		return store.Caller{At: now}, nil
	}
	return caller, err
}

// reauthenticate takes the time of the request, and looks at its credential again, once the request
// is whole: its body may have taken a minute, in which a key is deleted and a token expires. The
// first look keeps a stranger's body from being read; this one decides.
func (c *call) reauthenticate() error {
	now := time.Now()
	// the body of a public route is not decoded into anything large
	if c.needs.isPublic() && c.decoded != nil {
		c.decoded()
		c.decoded = nil
	}
	if c.caller.Company == nil {
		c.caller.At = now
		return nil
	}
	caller, err := c.lookUp(now)
	if err == nil && !c.onlyCertified {
		err = c.recertify(caller, now)
	}
	if err != nil {
		return err
	}
	c.caller = caller
	// That its company is not suspended was seen before the body was read. What was suspended since
	// is refused where it is written or issued.
	return c.permitRole()
}

// permit checks that the caller may use the route, and that its company is not suspended where that
// matters.
func (c *call) permit() error {
	if err := c.permitRole(); err != nil || c.needs.isPublic() {
		return err
	}
	return c.active(c.caller)
}

// active refuses a caller whose company is suspended, where the route writes or issues something.
func (c *call) active(by store.Caller) error {
	if !c.writes {
		return nil
	}
	return c.s.Store.Companies.Active(c.Context(), by)
}

func (c *call) permitRole() error {
	switch {
	case c.needs.isPublic(): // a handler of a client's route sees to it
		return nil
	case c.authErr != nil:
		return c.authErr
	case c.caller.Company == nil:
		return unauthorized()
	case c.caller.Delegation != "" && c.needs.role == store.Admin && (c.needs.agent || c.needs.enrolment):
		return forPerson()
	case c.caller.Role == store.ActsAsAgent && c.needs.agent, c.caller.Role == store.Enrolling && c.needs.enrolment:
		return c.permitAgent()
	case !c.caller.Role.Covers(c.needs.role):
		return c.outsideRole(c.needs.role)
	}
	return nil
}

// permitAgent says whether a caller that is one agent may use the route for the agent of its path,
// if it has one. What is said of agents in a body is checked where it is read.
func (c *call) permitAgent() error {
	if agent := c.PathValue("agentId"); agent != "" && agent != c.caller.Agent {
		return forbiddenAgent()
	}
	return nil
}

// log writes the log line of a request. It has the route's pattern instead of the path, because
// paths may contain API keys.
func (c *call) log(level slog.Level, cause error) {
	ctx, now := c.Context(), time.Now()
	if !c.s.Log.Enabled(ctx, level) {
		return
	}
	ok, skipped := c.s.hasLine(c.w.status, level, now)
	if !ok {
		return
	}
	// Log.LogAttrs would look for the caller's source line, which is the same for all requests.
	r := slog.NewRecord(now, level, "request", 0)
	r.AddAttrs(
		slog.String("id", c.id),
		slog.String("method", method(c.Method)),
		slog.String("route", c.Pattern[strings.IndexByte(c.Pattern, ' ')+1:]),
		slog.Int("status", c.w.status),
		slog.Duration("duration", now.Sub(c.came).Round(time.Microsecond)),
		slog.Int64("bytes", c.w.bytes))
	if skipped > 0 {
		r.AddAttrs(slog.Int("skipped", skipped))
	}
	if c.caller.Company != nil {
		r.AddAttrs(slog.String("company", c.caller.Company.ID))
	}
	if cause != nil {
		r.AddAttrs(slog.String("error", cause.Error()))
	}
	_ = c.s.Log.Handler().Handle(ctx, r) // as LogAttrs does: its failure could be logged nowhere
}

// method returns a known method, or "other", so that clients cannot put text into the log.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return m
	}
	return "other"
}
