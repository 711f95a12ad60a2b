package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
)

const (
	// A key counts this long after its expiresAt, because the record is made after the request.
	expirySlack = 5 * time.Minute
	// A record that was under way when the key was revoked may come this much later.
	revocationSlack = 5 * time.Second

	enrolled = "agent-key.enrolled"
	revoked  = "agent-key.revoked"
	keyKind  = "agent-key:" // of subjects
)

// agentKey is a key of an agent with its control records.
type agentKey struct {
	event     // agent-key.enrolled
	key       *jose.Key
	agentID   string
	expiresAt string // "" for never
	enrolment string // fingerprint of the enrolment token; "" without one
	version   int    // the oldest version of statements that it may make
	endorsed  *statement.Endorsement
	revoked   []revocation
}

// revocation is the control record of the revocation of a key.
type revocation struct {
	event
	since, reason string // "" where it says none
}

// keyChain is the key that signed for an agent, and the keys from which it follows.
type keyChain struct {
	keys     []*agentKey // each endorsed by the next one
	agentID  string
	audience string // SPIFFE ID of the company, as the agent names it; "" until it is known
	origin   string // of the company's log of actions

	// of the key that signed
	expires time.Time // when records end to count, where it has an expiresAt
	revoked string    // first time of a revocation; "" for none
	since   *revocation
}

// keyChain checks the control records of the key kid and of those before it, and nothing else.
func (c *checker) keyChain(entries []Entry, agentID, kid string) (*keyChain, error) {
	events, err := c.events(BadStatement, entries, func(e event) bool {
		return strings.HasPrefix(e.subject, keyKind) && (e.action == enrolled || e.action == revoked)
	})
	if err != nil {
		return nil, err
	}
	known := make(map[string]*agentKey)
	for i := range events {
		if err := addKey(known, agentID, &events[i]); err != nil {
			return nil, fail(BadStatement, "control record %d: %v", events[i].index, err)
		}
	}
	chain := &keyChain{agentID: agentID, origin: c.file.log(Actions).Origin}
	for k := known[kid]; ; {
		if k == nil || k.key == nil {
			return nil, fail(BadStatement, "not complete: the control record of the key %s is not in the file", kid)
		}
		chain.keys = append(chain.keys, k)
		if k.endorsed == nil {
			break
		}
		kid = k.endorsed.KeyID
		before := known[kid]
		if err := chain.follows(c.file.CompanyID, k, before); err != nil {
			return nil, fail(BadStatement, "control record %d: %v", k.index, err)
		}
		k = before
	}
	chain.end()
	if len(chain.keys) != len(known) {
		return nil, fail(BadStatement, "there is a control record of a key from which the key %s does not follow", chain.keys[0].key.Thumbprint)
	}
	return chain, nil
}

// end finds out until when the key that signed counts, and since when it was in other hands.
func (ch *keyChain) end() {
	k := ch.keys[0]
	if k.expiresAt != "" {
		ch.expires = timeOf(k.expiresAt).Add(expirySlack)
	}
	for i := range k.revoked {
		r := &k.revoked[i]
		if ch.revoked == "" || r.timestamp < ch.revoked {
			ch.revoked = r.timestamp
		}
		if r.since != "" && (ch.since == nil || r.since < ch.since.since) {
			ch.since = r
		}
	}
}

// stolenAt says since when the key was in other hands, where a record is of that time; else "".
func (ch *keyChain) stolenAt(r *chain.Record) string {
	if ch.since == nil || r.Timestamp < ch.since.since {
		return ""
	}
	return ch.since.since
}

// addKey adds a control record to the key that it is about.
func addKey(known map[string]*agentKey, agentID string, e *event) error {
	thumbprint := strings.TrimPrefix(e.subject, keyKind)
	k := known[thumbprint]
	if k == nil {
		k = new(agentKey)
		known[thumbprint] = k
	}
	if e.action == enrolled && k.key != nil {
		return errors.New("the key is enrolled twice")
	}
	read, err := readAgentKey(e)
	switch {
	case err != nil:
		return err
	case read.agentID != agentID:
		return fmt.Errorf("it is of a key of the agent %q", read.agentID)
	case e.action == revoked:
		k.revoked = append(k.revoked, read.revoked...)
		return nil
	case read.key.Thumbprint != thumbprint:
		return errors.New("its jwk is another key than it says")
	}
	read.revoked = k.revoked
	*k = *read
	return nil
}

// readAgentKey parses the control record of a key. That of a revocation gives agentId and revoked.
func readAgentKey(e *event) (*agentKey, error) {
	members := make(map[string][]byte)
	err := strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) { members[string(name)] = src })
	ok := err == nil
	text := func(name string, isOptional bool) string {
		s, isText := strictjson.AsString(members[name])
		ok = ok && (isText && s != "" || isOptional && string(members[name]) == "null")
		return s
	}
	k := &agentKey{event: *e, agentID: text("agentId", false), version: 1}
	ok = ok && keyKind+text("thumbprint", false) == e.subject
	if e.action == revoked && ok {
		r, err := readRevocation(e, members)
		k.revoked = []revocation{r}
		return k, err
	}
	k.expiresAt, k.enrolment = text("expiresAt", true), text("enrolment", true)
	endorsement, jwk := text("endorsement", true), members["jwk"]
	if version := members["statementVersion"]; version != nil {
		k.version = slices.Index([]string{"1", "2"}, string(version)) + 1
	}
	if !ok || jwk == nil || k.version == 0 || k.expiresAt != "" && !chain.IsTimestamp(k.expiresAt) {
		return nil, errors.New("it has not the form of the control record of a key")
	}
	jwk = canonical(jwk)
	if k.key, err = jose.ParseKey(jwk); err != nil {
		return nil, fmt.Errorf("its jwk %w", err)
	}
	if string(jwk) != k.key.JWK() {
		return nil, errors.New("its jwk has other members than those of its thumbprint")
	}
	if endorsement != "" {
		if k.endorsed, err = statement.ParseEndorsement(endorsement); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// readRevocation parses what the control record of a revocation says, apart from the key. Older
// ones say neither reason nor since.
func readRevocation(e *event, members map[string][]byte) (revocation, error) {
	r := revocation{event: *e}
	for name, text := range map[string]*string{"reason": &r.reason, "since": &r.since} {
		src := members[name]
		if src == nil || string(src) == "null" {
			continue
		}
		var ok bool
		if *text, ok = strictjson.AsString(src); !ok || name == "since" && !chain.IsTimestamp(*text) {
			return r, fmt.Errorf("its %s has not the form of that of a revocation", name)
		}
	}
	return r, nil
}

// follows checks that the key before has signed that k follows it, while it lived and just before k
// was enrolled.
func (ch *keyChain) follows(companyID string, k, before *agentKey) error {
	e := k.endorsed
	if before == nil || before.key == nil {
		return fmt.Errorf("not complete: the control record of the key %s, which signed for this one, is not in the file", e.KeyID)
	}
	if before.index >= k.index {
		return errors.New("it comes before the key that signed for it")
	}
	if slices.ContainsFunc(before.revoked, func(r revocation) bool { return r.index < k.index }) {
		return errors.New("the key that signed for it was revoked before")
	}
	if err := ch.names(companyID, e.Audience, e.Issuer); err != nil {
		return err
	}
	if err := e.Verify(before.key); err != nil {
		return err
	}
	if err := e.Match(statement.EndorsementClaims{Issuer: e.Issuer, Audience: e.Audience, Next: k.key.Thumbprint}); err != nil {
		return err
	}
	var expires time.Time
	at := timeOf(k.timestamp)
	if before.expiresAt != "" {
		if expires = timeOf(before.expiresAt); !at.Before(expires.Add(expirySlack)) {
			return fmt.Errorf("the key that signed for it had expired, at %s", before.expiresAt)
		}
	}
	if err := e.CheckLife(timeOf(before.timestamp), expires); err != nil {
		return err
	}
	return e.CheckTime(at)
}

// names checks the SPIFFE IDs of company and agent, in the one trust domain of the file.
func (ch *keyChain) names(companyID, audience, issuer string) error {
	domain, isCompany := strings.CutSuffix(strings.TrimPrefix(audience, "spiffe://"), "/company/"+companyID)
	switch {
	case !strings.HasPrefix(audience, "spiffe://") || !isCompany || domain == "" || strings.Contains(domain, "/"):
		return errors.New("aud is not the SPIFFE ID of the company")
	case issuer != audience+"/agent/"+ch.agentID:
		return errors.New("iss is not the SPIFFE ID of the agent")
	case ch.audience != "" && ch.audience != audience:
		return errors.New("aud is of another trust domain than what a key of the agent signed before")
	}
	ch.audience = audience
	return nil
}

// signs checks what the signer's key has signed of a record.
func (ch *keyChain) signs(companyID string, r *chain.Record, in *content) (*statement.Statement, error) {
	s, err := statement.Parse(in.statement)
	if err != nil {
		return nil, err
	}
	signer := ch.keys[0]
	if err := s.CheckVersion(signer.version); err != nil {
		return nil, err
	}
	if err := s.Verify(signer.key); err != nil {
		return nil, err
	}
	if err := ch.names(companyID, s.Audience, s.Issuer); err != nil {
		return nil, fmt.Errorf("statement %w", err)
	}
	err = s.Match(statement.Expected{
		Issuer: s.Issuer, Audience: s.Audience, Log: ch.origin, ActionHash: in.actionHash, TokenID: in.tokenID, DelegationHash: in.delegationHash,
	})
	if err != nil {
		return nil, err
	}
	at, made := timeOf(r.Timestamp), time.Unix(s.IssuedAt, 0)
	switch {
	case made.After(at.Add(statement.MaxAhead)):
		return nil, errors.New("statement iat is more than 60 s after the record")
	case made.Before(at.Add(-statement.MaxAge - expirySlack)):
		return nil, errors.New("statement iat is more than 30 days before the record")
	case signer.timestamp > r.Timestamp:
		return nil, fmt.Errorf("the key %s was enrolled after the record, at %s", s.KeyID, signer.timestamp)
	case signer.expiresAt != "" && !at.Before(ch.expires):
		return nil, fmt.Errorf("the key %s expired before the record, at %s", s.KeyID, signer.expiresAt)
	case ch.revoked != "" && timeOf(ch.revoked).Add(revocationSlack).Before(at):
		return nil, fmt.Errorf("the key %s was revoked before the record, at %s", s.KeyID, ch.revoked)
	}
	return s, nil
}

// timeOf reads a timestamp that was checked.
func timeOf(timestamp string) time.Time {
	at, _ := time.Parse(time.RFC3339, timestamp)
	return at
}

// verdict says who signed it. A pin that does not fit is a failure.
func (ch *keyChain) verdict(c *checker, what string) (*Statement, error) {
	k, pin := ch.keys[0], c.trust.AgentKey
	s := &Statement{KeyID: k.key.Thumbprint, EnrolledAt: k.timestamp, EnrolledBy: k.by()}
	who := fmt.Sprintf("%s, enrolled at %s by %s", s.KeyID, s.EnrolledAt, s.EnrolledBy)
	if pin == "" {
		c.addChecked("a key that the company enrolled for this agent signed %s: %s", what, who)
		return s, nil
	}
	s.Pinned = slices.ContainsFunc(ch.keys, func(k *agentKey) bool { return k.key.Thumbprint == pin })
	switch {
	case !s.Pinned:
		return nil, fail(BadStatement, "the key that you pinned, %s, did not sign this, nor for the key that did: %s", pin, who)
	case pin == s.KeyID:
		c.addChecked("the agent's own key %s signed %s", s.KeyID, what)
	default:
		c.addChecked("the agent's own key %s signed %s: it follows from the key that you pinned, %s", s.KeyID, what, pin)
	}
	return s, nil
}

func (k *agentKey) by() EnrolledBy {
	switch {
	case k.endorsed != nil:
		return EnrolledBy{"key", k.endorsed.KeyID}
	case k.enrolment != "":
		return EnrolledBy{"enrolment", k.enrolment}
	}
	return EnrolledBy{"credential", by(k.event.by)}
}

// String reads well after "enrolled by".
func (b EnrolledBy) String() string {
	switch b.Kind {
	case "key":
		return "the key before it, " + b.Name
	case "enrolment":
		return "the enrolment token " + b.Name
	}
	return "an admin's credential, " + b.Name
}

// statement checks what the agent has signed of the record, and with which key.
func (c *checker) statement() error {
	f, in := c.file, &c.content
	if !in.stated {
		if c.trust.AgentKey != "" {
			return fail(BadStatement, "you pinned a key of the agent, and nothing here is signed with one")
		}
		return nil
	}
	s, err := statement.Parse(in.statement)
	if err != nil {
		return fail(BadStatement, "%v", err)
	}
	if f.AgentKey == nil {
		return fail(BadStatement, "not complete: the control record of the key %s is not in the file", s.KeyID)
	}
	keys, err := c.keyChain(f.AgentKey.Entries, in.agentID, s.KeyID)
	if err != nil {
		return err
	}
	if _, err := keys.signs(f.CompanyID, &f.Record, in); err != nil {
		return fail(BadStatement, "%v", err)
	}
	if c.signedBy, err = keys.verdict(c, "this"); err != nil {
		return err
	}
	c.signedFor(s)
	if s.Version() == 1 && s.Delegation != "" {
		c.addChecked("its statement covers the ID of the delegation alone, not what the delegation said")
	}
	c.checkedPlace(s)
	if c.signedBy.Since = keys.stolenAt(&f.Record); c.signedBy.Since != "" {
		c.addChecked("the key was in other hands since %s", keys.since)
	}
	return nil
}

// signedFor says for which service a statement was made, and what an older one leaves open.
func (c *checker) signedFor(s *statement.Statement) {
	c.signedBy.Issuer, c.signedBy.Audience, c.signedBy.Log = s.Issuer, s.Audience, s.Log
	if s.Version() > 1 {
		c.addChecked("its statement is by %s, for %s and its log %s", s.Issuer, s.Audience, s.Log)
		return
	}
	c.addChecked("its statement is by %s, for %s, and does not say which service it was made for: another one may have the same names", s.Issuer, s.Audience)
}

// checkedPlace reports the place of a statement in its session.
func (c *checker) checkedPlace(s *statement.Statement) {
	if s.Session == "" {
		return
	}
	c.signedBy.Session = &Place{s.Session, s.Seq}
	c.addChecked("it is number %d of the session %s of that key", s.Seq, s.Session)
	if n := len(s.Refused); n > 0 {
		c.addChecked("it says that the service refused %d earlier statements of that session, the first of them number %d (%s)", n, s.Refused[0].Seq, s.Refused[0].Code)
	}
	if s.Continues != nil {
		c.addChecked("the session %s", continuation(s.Continues))
	}
}

// continuation reads well after the name of a session.
func continuation(from *statement.Continues) string {
	return fmt.Sprintf("goes on from the session %s of the key %s, whose last statement has the hash %s", from.Session, from.KeyID, from.Hash)
}

// String reads well after "in other hands since".
func (r *revocation) String() string {
	if r.reason == "" {
		return r.since + ", says its revocation"
	}
	return fmt.Sprintf("%s, says its revocation (%s)", r.since, r.reason)
}

// acts names the last of a record's delegation where that is not the agent of the record. A file
// that holds may have such a record: an agent used what was given to another one.
func (c *checker) acts(r *chain.Record, in *content) {
	if in.actor == nil || c.notActor != nil {
		return
	}
	rest, isID := strings.CutPrefix(*in.actor, "spiffe://")
	domain, isAgent := strings.CutSuffix(rest, "/company/"+c.file.CompanyID+"/agent/"+in.agentID)
	if isID && isAgent && domain != "" && !strings.Contains(domain, "/") {
		return
	}
	c.notActor = in.actor
	c.addChecked("record %d is of the agent %s, and its delegation was given to %s", r.Index, in.agentID, *in.actor)
}
