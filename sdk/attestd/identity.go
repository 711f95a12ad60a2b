package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/dpop"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/internal/atomicfile"
	"attestd/internal/regular"
)

// IdentityConfig configures an Identity. Key and SPIFFEID are required.
type IdentityConfig struct {
	Key      *AgentKey
	SPIFFEID string // of the agent: spiffe://example.org/company/acme/agent/bot
	// Log is the origin of the company's log of actions, as the service named it when the key was
	// enrolled ([EnrolledKey].Log, [AgentFile].Log). Statements name it, so that they count in no
	// other log, and a service that names another one is an [OtherLogError]. With "" the identity
	// learns it when it signs in, and signs without it before; a key that was enrolled since
	// November 2026 needs it.
	Log string
	// DPoP binds access tokens to the key (RFC 9449): each request carries a proof, and a stolen
	// token is of no use.
	DPoP bool
	// Known are thumbprints of further keys of the agent: those of its other machines, and former
	// ones.
	Known []string
	// Alarm is called at a sign-in for each key that the agent has and does not know (an
	// *UnknownKeyError), for a service that names another log (an *OtherLogError), and when the
	// list of its keys cannot be read. nil logs with slog.
	Alarm func(error)
	// TokenFile is where an access token is stored for the next process, which then need not sign
	// in. "" stores none. It is readable by its owner alone.
	TokenFile string
}

// Identity is an agent with its key. As the credential of a Client it signs in as the agent: the
// service then records in this agent's name alone. It also signs what the agent does; see [Session]
// and package spool. It is safe for concurrent use.
type Identity struct {
	config  IdentityConfig
	agentID string
	company string // ID
	parent  string // SPIFFE ID of the company

	// a lock for the fields below, whose acquisition ends with the context
	turn   chan struct{}
	stored storedToken
	loaded bool

	mu       sync.Mutex
	known    map[string]bool // thumbprints
	nonce    string          // that the next proof has to repeat; "" for none
	log      string          // origin; "" until it is known
	otherLog *OtherLogError  // the service's answer; nil while it names this log
}

// rememberNonce remembers the nonce of an answer, and reports whether it is another than before.
func (i *Identity) rememberNonce(answer http.Header) bool {
	nonce := answer.Get("DPoP-Nonce")
	i.mu.Lock()
	defer i.mu.Unlock()
	changed := nonce != "" && nonce != i.nonce
	if changed {
		i.nonce = nonce
	}
	return changed
}

func (i *Identity) lastNonce() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nonce
}

// NewIdentity returns an Identity. It sends no request.
func NewIdentity(c IdentityConfig) (*Identity, error) {
	parent, agentID, ok := strings.Cut(c.SPIFFEID, "/agent/")
	_, company, ok2 := strings.Cut(parent, "/company/")
	if !ok || !ok2 || !strings.HasPrefix(parent, "spiffe://") || agentID == "" || company == "" || strings.Contains(agentID+company, "/") {
		return nil, errors.New("the SPIFFE ID of an agent must look like spiffe://example.org/company/acme/agent/bot")
	}
	if c.Key == nil {
		return nil, errors.New("an identity needs an agent key")
	}
	if c.Log != "" && !isLog(c.Log) {
		return nil, errNoLog
	}
	i := &Identity{
		config: c, agentID: agentID, company: company, parent: parent, turn: make(chan struct{}, 1),
		known: map[string]bool{c.Key.Thumbprint(): true}, log: c.Log,
	}
	for _, thumbprint := range c.Known {
		i.known[thumbprint] = true
	}
	return i, nil
}

// AgentID is the agent's ID.
func (i *Identity) AgentID() string { return i.agentID }

// CompanyID is the ID of the agent's company.
func (i *Identity) CompanyID() string { return i.company }

// SPIFFEID is the agent's SPIFFE ID.
func (i *Identity) SPIFFEID() string { return i.config.SPIFFEID }

// Key is the agent's key.
func (i *Identity) Key() *AgentKey { return i.config.Key }

// Format prints the agent and the thumbprint of its key.
func (i *Identity) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "(agent "+i.config.SPIFFEID+" with key "+i.config.Key.Thumbprint()+")")
}

// UnknownKeyError reports a key of the agent that the agent does not know. Its enroller can sign in
// the agent's name.
type UnknownKeyError struct {
	Agent string // SPIFFE ID
	Key   EnrolledKey
}

func (e *UnknownKeyError) Error() string {
	state := "can sign in its name"
	if e.Key.RevokedAt != "" {
		state = "could sign in its name until " + e.Key.RevokedAt
	}
	return fmt.Sprintf("ALARM: the agent %s has the key %s, enrolled at %s, which this client does not know: its holder %s. "+
		"If it is not yours, revoke it and find out who enrolled it: the control log says by which credential", e.Agent, e.Key.Thumbprint, e.Key.CreatedAt, state)
}

// storedToken is an access token and until when it is used.
type storedToken struct {
	Token   string    `json:"token"`
	KeyID   string    `json:"kid"`
	DPoP    bool      `json:"dpop"`
	Expires time.Time `json:"expires"`
	Log     string    `json:"log,omitempty"` // that the service named at this sign-in
}

func (i *Identity) fits(t storedToken, refused string) bool {
	return t.Token != "" && t.Token != refused && t.KeyID == i.config.Key.Thumbprint() && t.DPoP == i.config.DPoP && time.Now().Before(t.Expires)
}

func (i *Identity) bearer(ctx context.Context, c *Client, refused string) (string, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if !i.loaded && i.config.TokenFile != "" {
		i.loaded = true
		i.stored = readToken(i.config.TokenFile)
		if i.stored.Log != "" && i.fits(i.stored, refused) && !i.adoptLog(i.stored.Log) {
			i.stored = storedToken{}
		}
	}
	if i.fits(i.stored, refused) {
		return i.stored.Token, nil
	}
	made, err := i.signIn(ctx, c)
	if err != nil {
		return "", err
	}
	life := time.Duration(made.ExpiresIn) * time.Second
	i.stored = storedToken{
		Token: made.AccessToken, KeyID: i.config.Key.Thumbprint(), DPoP: i.config.DPoP, Expires: time.Now().Add(life - min(early, life/2)),
	}
	i.stored.Log = i.compare(ctx, c, i.stored.Token)
	// Each process hears of another log by itself.
	if i.config.TokenFile != "" && i.wrongLog() == nil {
		if err := writeToken(i.config.TokenFile, i.stored); err != nil {
			i.alarm(fmt.Errorf("the access token cannot be stored, so that each process signs in again: %w", err))
		}
	}
	return i.stored.Token, nil
}

// assertionLife is how long a client assertion is valid; the service allows five minutes.
const assertionLife = 2 * time.Minute

// signIn gets an access token. An assertion is good once, so each retry makes another.
func (i *Identity) signIn(ctx context.Context, c *Client) (t Token, err error) {
	once := *c
	once.retry = Retry{}
	nonceRetried := false
	for n := 0; ; n++ {
		var assertion, proof string
		if assertion, err = i.assertion(ctx, c); err != nil {
			return t, err
		}
		if i.config.DPoP {
			r := request{route: "/v1/oauth/token"}
			proof, err = dpop.Make(ctx, i.config.Key.signer, dpop.Request{Method: http.MethodPost, URL: r.target(c.base), Nonce: i.lastNonce()}, time.Now())
			if err != nil {
				return t, err
			}
		}
		if t, err = once.AgentToken(ctx, assertion, proof); err == nil || ctx.Err() != nil {
			return t, err
		}
		var refused *Error
		if !nonceRetried && i.config.DPoP && errors.As(err, &refused) && strings.Contains(refused.Message, "use_dpop_nonce") {
			nonceRetried = true // which nonce the next proof has to repeat
			n--
			continue
		}
		wait, retry := c.retry.wait(n, err, true)
		if !retry || rest(ctx, wait) != nil {
			return t, fmt.Errorf("sign in as the agent %s: %w", i.agentID, err)
		}
	}
}

// assertion is what the agent signs to get an access token (RFC 7523 §3).
func (i *Identity) assertion(ctx context.Context, c *Client) (string, error) {
	r := request{route: "/v1/oauth/token"}
	now := time.Now()
	claims := jcs.AppendString([]byte(`{"iss":`), i.config.SPIFFEID)
	claims = jcs.AppendString(append(claims, `,"sub":`...), i.config.SPIFFEID)
	claims = jcs.AppendString(append(claims, `,"aud":`...), r.target(c.base))
	claims = jcs.AppendString(append(claims, `,"jti":`...), uuid.NewString())
	claims = fmt.Appendf(claims, `,"iat":%d,"exp":%d}`, now.Unix(), now.Add(assertionLife).Unix())
	return jose.Sign(ctx, i.config.Key.signer, "JWT", claims)
}

// endorse is what the agent signs so that the next key follows from the present one.
func (i *Identity) endorse(ctx context.Context, next *AgentKey) (string, error) {
	if err := i.wrongLog(); err != nil {
		return "", err
	}
	claims := jcs.AppendString([]byte(`{"iss":`), i.config.SPIFFEID)
	claims = jcs.AppendString(append(claims, `,"aud":`...), i.parent)
	claims = fmt.Appendf(claims, `,"iat":%d`, time.Now().Unix())
	claims = jcs.AppendString(append(claims, `,"jkt":`...), next.Thumbprint())
	return jose.Sign(ctx, i.config.Key.signer, "agent-key+jwt", append(claims, '}'))
}

// authorize adds the access token to a request: with a proof, if it is bound to the key.
func (i *Identity) authorize(ctx context.Context, r *http.Request, token string) error {
	if !i.config.DPoP {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	proof, err := dpop.Make(ctx, i.config.Key.signer, dpop.Request{Method: r.Method, URL: r.URL.String(), AccessToken: token, Nonce: i.lastNonce()}, time.Now())
	if err != nil {
		return err
	}
	r.Header["Authorization"], r.Header["Dpop"] = []string{"DPoP " + token}, []string{proof}
	return nil
}

// compare reports the keys of the agent that it does not know, and a log that is not the agent's.
// It returns the log that the service names.
func (i *Identity) compare(ctx context.Context, c *Client, token string) (log string) {
	signedIn := *c
	signedIn.credential, signedIn.retry = fixed{i, token}, Retry{}
	list, log, err := signedIn.agentKeys(ctx, i.agentID)
	if err != nil {
		i.alarm(fmt.Errorf("the keys of the agent %s cannot be compared with those that it knows: %w", i.agentID, err))
		return ""
	}
	if err := i.learnLog(log); err != nil {
		i.alarm(err)
	}
	own := false
	for _, k := range list {
		if own = own || k.Thumbprint == i.config.Key.Thumbprint(); !i.isKnown(k.Thumbprint) {
			i.alarm(&UnknownKeyError{i.config.SPIFFEID, k})
		}
	}
	if !own {
		i.alarm(fmt.Errorf("ALARM: the service's list of the keys of the agent %s lacks its own key %s", i.config.SPIFFEID, i.config.Key.Thumbprint()))
	}
	return log
}

func (i *Identity) alarm(err error) {
	if i.config.Alarm != nil {
		i.config.Alarm(err)
		return
	}
	slog.Error("attestd: " + err.Error())
}

func (i *Identity) isKnown(thumbprint string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[thumbprint]
}

// Known returns the thumbprints of the agent's further keys that the identity knows.
func (i *Identity) Known() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	own := i.config.Key.Thumbprint()
	return slices.Sorted(func(yield func(string) bool) {
		for thumbprint := range i.known {
			if thumbprint != own && !yield(thumbprint) {
				return
			}
		}
	})
}

func (i *Identity) addKnown(thumbprint string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[thumbprint] = true
}

// fixed is an identity that has just signed in.
type fixed struct {
	*Identity
	token string
}

func (f fixed) bearer(context.Context, *Client, string) (string, error) { return f.token, nil }

// maxTokenFile is the largest number of bytes read of a stored token.
const maxTokenFile = 64 << 10

// readToken reads what writeToken wrote. What cannot be read is no token: the agent signs in.
func readToken(path string) (t storedToken) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxTokenFile {
		return t
	}
	text, err := regular.Read(path)
	if err != nil || json.Unmarshal(text, &t) != nil || strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return storedToken{}
	}
	return t
}

func writeToken(path string, t storedToken) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, append(text, '\n'), 0o600)
}

// errNoLog reports a text that no log has as its origin.
var errNoLog = errors.New("the origin of a log must have 1 to 255 visible ASCII characters")

// isLog reports whether a text can be the origin of a log.
func isLog(origin string) bool {
	return 0 < len(origin) && len(origin) <= 255 && !strings.ContainsFunc(origin, func(r rune) bool { return r <= ' ' || r > '~' })
}

// OtherLogError reports a service that names another log than the one for which the agent signs: it
// is another service, or its operator has begun another log. From then on the identity signs
// nothing and sends it no statement.
type OtherLogError struct {
	Agent string // SPIFFE ID
	Log   string // of the agent
	Named string // by the service
}

func (e *OtherLogError) Error() string {
	return fmt.Sprintf("ALARM: the agent %s signs for the log %s, and the service says that its log is %q: nothing is signed. "+
		"Find out whether the address leads to another service, and what has become of the log; enrol a new key where the other log is the right one", e.Agent, e.Log, e.Named)
}

// Log is the origin of the log for which the agent signs; "" while the identity does not know it.
func (i *Identity) Log() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.log
}

// wrongLog returns an *OtherLogError after the service has named another log.
func (i *Identity) wrongLog() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.otherLog == nil {
		return nil
	}
	return i.otherLog
}

// learnLog compares the log that the service names with the agent's, or makes it the agent's. A
// service that names none is older than such names.
func (i *Identity) learnLog(named string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case named == "" || named == i.log:
		return nil
	case i.log == "" && isLog(named):
		i.log = named
		return nil
	case i.log == "":
		return fmt.Errorf("the service names the log %q: %w", named, errNoLog)
	}
	i.otherLog = &OtherLogError{i.config.SPIFFEID, i.log, named}
	return i.otherLog
}

// adoptLog reports whether a log that was named at an earlier sign-in is the agent's, and makes it
// the agent's where that is unknown.
func (i *Identity) adoptLog(named string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.log == "" && isLog(named) {
		i.log = named
	}
	return i.log == named
}

// LearnLog signs in where the identity does not know its log yet, so that the next statement names
// it. Where that fails, the log is still unknown.
func (c *Client) LearnLog(ctx context.Context) {
	if i, is := c.credential.(*Identity); is && i.Log() == "" {
		_, _ = i.bearer(ctx, c, "")
	}
}
