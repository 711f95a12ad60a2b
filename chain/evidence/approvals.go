package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/crypto/passkey"
	"attestd/crypto/strictjson"
	"attestd/internal/printable"
)

// Approvals has what shows that people approved calls: the records that asked, and the control
// records of the approvals, of the passkeys that signed them and of the people who hold those.
type Approvals struct {
	Requests []Entry // of the log of actions
	Entries  []Entry // of the control log
}

// Approvers are the keys of people that the checking person knows.
type Approvers struct{ fingerprints []string }

// NewApprovers pins passkeys by their fingerprints, "SHA256:…".
func NewApprovers(fingerprints ...string) *Approvers { return &Approvers{fingerprints} }

// ApprovalCounts says how many records of a file were allowed with an approval, and of how many the
// file shows that approval.
type ApprovalCounts struct {
	Recorded int64 `json:"recorded"`
	Shown    int64 `json:"shown"`
	// of those, by passkeys that the checking person knows
	Pinned int64 `json:"pinned"`
}

const (
	aboutApproval = "approval:" // subjects of control records, with an ID behind them
	aboutPasskey  = "passkey:"
	aboutPerson   = "person:"

	approvalRequested = "approval.requested"
	approvalGranted   = "approval.granted"
	approvalDenied    = "approval.denied"
	approvalUsed      = "approval.used"
	approvalWithdrawn = "approval.withdrawn"
	passkeyEnrolled   = "passkey.enrolled"
	passkeyRevoked    = "passkey.revoked"
	personCreated     = "person.created"
	personChanged     = "person.changed"
	personDeleted     = "person.deleted"

	roleApprover = "approver"

	maxCOSE      = 1 << 10 // bytes of the key of a passkey
	maxSignature = 512
)

// approvalCall is what a record asks for.
type approvalCall struct {
	agent, session string
	tool           string // with its MCP server; the action type of what is no call of a tool
	isCall         bool
	arguments      []byte // canonical
}

// approvalRequest is a record that asked for an approval.
type approvalRequest struct {
	record     *chain.Record
	call       approvalCall
	approvalID string
	expiresAt  string // "" where the record does not say it
}

// heldPasskey is a passkey of a person.
type heldPasskey struct {
	index     int64 // of its enrolment
	timestamp string
	person    string
	key       *passkey.Key
	isRevoked bool
}

// personState is what the last control record about a person says.
type personState struct {
	isGone     bool // disabled or deleted
	isApprover bool
}

// grant is an approval by one person.
type grant struct {
	index     int64
	timestamp string
	object    *approval.Object
	key       *passkey.Key
	origin    string
}

// approvalUse is the control record of a use.
type approvalUse struct {
	hash   string
	grants []grant // so far
}

// approvalState is an approval as control records make it.
type approvalState struct {
	request   *approvalRequest
	grants    []grant
	end       string // why nothing can be approved any more; "" while it can
	uses      int64  // the fewest that a person allowed
	remaining int64  // after the last use
	used      map[int64]approvalUse
}

// approvals is what a file says of approvals.
type approvals struct {
	ApprovalCounts
	held     bool // the file has them
	requests map[int64]*approvalRequest
	passkeys map[string]*heldPasskey // by credential ID
	people   map[string]*personState
	byID     map[string]*approvalState
	named    []string // by whose passkeys, in words
	missing  string   // ID of the first that the file does not have
}

// readCall reads what a record asks for, as policies do; see decide.Recorded.
func readCall(agentID, actionType string, payload []byte) (call approvalCall, approvalID, expiresAt string) {
	call = approvalCall{agent: agentID, tool: actionType}
	var input, arguments []byte
	tool, server := "", ""
	_ = strictjson.EachMember(payload, maxDepth, func(name, src []byte) {
		text, _ := strictjson.AsString(src)
		switch string(name) {
		case "tool":
			tool = text
		case "server":
			server = text
		case "sessionId":
			call.session = text
		case "input":
			input = src
		case "arguments":
			arguments = src
		case "approvalId":
			approvalID = text
		case "expiresAt":
			expiresAt = text
		}
	})
	if call.isCall = tool != ""; !call.isCall {
		call.arguments = canonical(payload)
		return call, approvalID, expiresAt
	}
	if of, is := strings.CutPrefix(tool, "mcp__"); is && server == "" {
		if name, rest, has := strings.Cut(of, "__"); has {
			server, tool = name, rest
		}
	}
	if call.tool = tool; server != "" {
		call.tool = server + "/" + tool
	}
	if input == nil {
		input = arguments
	}
	if input != nil {
		call.arguments = canonical(input)
	}
	return call, approvalID, expiresAt
}

// same checks that a later record asks for what a request asked for.
func (c *approvalCall) same(later *approvalCall) error {
	switch {
	case c.agent != later.agent:
		return fmt.Errorf("the agent %q asked for it", c.agent)
	case c.isCall != later.isCall || c.tool != later.tool:
		return fmt.Errorf("it was asked for %q", c.tool)
	case !bytes.Equal(c.arguments, later.arguments):
		return errors.New("it was asked for with other arguments")
	case c.session != "" && c.session != later.session:
		return fmt.Errorf("it was asked for in the session %q", c.session)
	}
	return nil
}

// approvals checks the records about approvals that a file has.
func (c *checker) readApprovals() error {
	held := c.file.Approvals
	if held == nil {
		return nil
	}
	a := &c.approvals
	a.held, a.requests = true, make(map[int64]*approvalRequest)
	a.passkeys, a.people, a.byID = make(map[string]*heldPasskey), make(map[string]*personState), make(map[string]*approvalState)
	last := int64(-1)
	for i := range held.Requests {
		e := &held.Requests[i]
		request, err := c.approvalRequest(e)
		if err == nil && e.Record.Index <= last {
			err = errors.New("it is out of order")
		}
		if err != nil {
			return fail(BadApproval, "record %d, which asked for an approval: %v", e.Record.Index, err)
		}
		last = e.Record.Index
		a.requests[last] = request
	}
	events, err := c.events(BadApproval, held.Entries, isOfApproval)
	for i := 0; err == nil && i < len(events); i++ {
		if wrong := a.add(c.file.log(Actions).Origin, &events[i]); wrong != nil {
			err = fail(BadApproval, "control record %d: %v", events[i].index, wrong)
		}
	}
	return err
}

// isOfApproval reports whether a control record may stand with approvals.
func isOfApproval(e event) bool {
	switch e.action {
	case approvalGranted, approvalDenied, approvalUsed, approvalWithdrawn:
		return strings.HasPrefix(e.subject, aboutApproval)
	case passkeyEnrolled, passkeyRevoked:
		return strings.HasPrefix(e.subject, aboutPasskey)
	case personCreated, personChanged, personDeleted:
		return strings.HasPrefix(e.subject, aboutPerson)
	}
	return false
}

// approvalRequest checks a record that asked for an approval.
func (c *checker) approvalRequest(e *Entry) (*approvalRequest, error) {
	l := c.file.log(Actions)
	in, err := c.signed(l, &e.Record)
	if err == nil {
		_, err = c.included(l, &e.Record, e.Proof)
	}
	if err != nil {
		return nil, err
	}
	r := &approvalRequest{record: &e.Record}
	var named, expires string
	if r.call, named, expires = readCall(in.agentID, in.actionType, in.payload); in.actionType == approvalRequested {
		if r.approvalID, r.expiresAt = named, expires; !chain.IsTimestamp(expires) {
			return nil, errors.New("it does not say until when")
		}
	} else if d := in.decision; d != nil && d.Verdict == decision.Ask {
		r.approvalID = d.Approval
	}
	if !approval.IsID(r.approvalID) {
		return nil, errors.New("it names no approval")
	}
	return r, nil
}

// add adds the next control record.
func (a *approvals) add(origin string, e *event) error {
	switch e.action {
	case passkeyEnrolled:
		return a.enrol(e)
	case passkeyRevoked:
		if k := a.passkeys[strings.TrimPrefix(e.subject, aboutPasskey)]; k != nil {
			k.isRevoked = true
		}
		return nil
	case personCreated, personChanged, personDeleted:
		return a.person(e)
	case approvalGranted, approvalDenied:
		return a.decided(origin, e)
	case approvalUsed:
		return a.use(origin, e)
	}
	if s := a.byID[strings.TrimPrefix(e.subject, aboutApproval)]; s != nil {
		s.end = "it was withdrawn"
	}
	return nil
}

// enrol adds a passkey.
func (a *approvals) enrol(e *event) error {
	id := strings.TrimPrefix(e.subject, aboutPasskey)
	f, k, algorithm, named := new(form), &heldPasskey{index: e.index, timestamp: e.timestamp}, "", ""
	var cose []byte
	err := strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
		v := value{f, string(name), src}
		switch string(name) {
		case "personId":
			k.person = v.like(policyIDForm, "the ID of a person")
		case "credentialId":
			named = v.text()
		case "publicKey":
			cose = v.blob(maxCOSE)
		case "algorithm":
			algorithm = string(src)
		}
	})
	if err == nil {
		err = f.err
	}
	if err == nil {
		k.key, err = passkey.ParseKey(cose)
	}
	switch {
	case err != nil:
		return fmt.Errorf("its passkey: %w", err)
	case named != id || k.person == "" || algorithm != strconv.Itoa(k.key.Algorithm()):
		return errors.New("it does not name the passkey, its person and its algorithm")
	case a.passkeys[id] != nil:
		return errors.New("the passkey is enrolled twice")
	}
	a.passkeys[id] = k
	return nil
}

// person adds what is said of a person.
func (a *approvals) person(e *event) error {
	s := &personState{isGone: e.action == personDeleted}
	ok := true
	if !s.isGone {
		var roles []string
		ok = false
		err := strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
			switch string(name) {
			case "roles":
				roles, ok = strictjson.AsStrings(src)
			case "disabledAt":
				s.isGone = string(src) != "null"
			}
		})
		ok = ok && err == nil
		s.isApprover = slices.Contains(roles, roleApprover)
	}
	if !ok {
		return errors.New("it does not say which roles the person has")
	}
	a.people[strings.TrimPrefix(e.subject, aboutPerson)] = s
	return nil
}

// decided adds what a person decided.
func (a *approvals) decided(origin string, e *event) error {
	f, id := new(form), strings.TrimPrefix(e.subject, aboutApproval)
	var object, credential []byte
	signed := new(passkey.Assertion)
	err := strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
		v := value{f, string(name), src}
		switch string(name) {
		case "object":
			object = src
		case "credentialId":
			credential = []byte(v.text())
		case "authenticatorData":
			signed.AuthenticatorData = v.blob(passkey.MaxAuthenticatorData)
		case "clientDataJSON":
			signed.ClientDataJSON = v.blob(passkey.MaxClientData)
		case "signature":
			signed.Signature = v.blob(maxSignature)
		}
	})
	if err == nil {
		err = f.err
	}
	if err != nil {
		return err
	}
	o, err := approval.Parse(object)
	if err != nil {
		return err
	}
	g := grant{index: e.index, timestamp: e.timestamp, object: o}
	k := a.passkeys[string(credential)]
	switch {
	case k == nil:
		return errors.New("not complete: nothing before it enrolled the passkey that signed it")
	case k.isRevoked:
		return errors.New("the passkey that signed it was revoked before")
	case k.person != o.Person || e.by != aboutPerson+o.Person:
		return fmt.Errorf("the person is %q, and the passkey is that of %q", o.Person, k.person)
	case isWellBefore(e.timestamp, k.timestamp):
		return errors.New("the passkey that signed it was enrolled later")
	case o.ApprovalID != id || (o.Verdict == approval.Approve) != (e.action == approvalGranted):
		return errors.New("the object that was signed is of another approval, or of another verdict")
	}
	if p := a.people[o.Person]; p != nil && (p.isGone || !p.isApprover) {
		return fmt.Errorf("%s was no approver then", o.Person)
	}
	if g.origin, err = approval.Verify(o, signed, k.key, ""); err != nil {
		return err
	}
	g.key = k.key
	return a.grant(origin, &g)
}

// grant adds a decision whose signature was checked, and checks what it is about.
func (a *approvals) grant(origin string, g *grant) error {
	o := g.object
	request := a.requests[o.Index]
	switch {
	case request == nil:
		return errors.New("not complete: the record that it is about is not in the file")
	case !o.Names(origin, request.record.Index, request.record.Hash) || request.approvalID != o.ApprovalID:
		return errors.New("the object that was signed is about another record")
	case o.AgentID != request.call.agent || o.Tool != request.call.tool:
		return errors.New("the object that was signed names another agent or tool than the record that it is about")
	case isWellBefore(g.timestamp, request.record.Timestamp):
		return errors.New("it was made before the record that it is about")
	case isWellBefore(o.ExpiresAt, g.timestamp) || request.expiresAt != "" && isWellBefore(request.expiresAt, g.timestamp):
		return errors.New("it was made after the end of the approval")
	}
	s := a.byID[o.ApprovalID]
	if s == nil {
		s = &approvalState{request: request, uses: approval.MaxUses, used: make(map[int64]approvalUse)}
		a.byID[o.ApprovalID] = s
	}
	switch {
	case s.request != request:
		return errors.New("another person approved another record")
	case s.end != "":
		return errors.New("the approval had ended: " + s.end)
	case slices.ContainsFunc(s.grants, func(other grant) bool { return other.object.Person == o.Person }):
		return fmt.Errorf("%s decided twice", o.Person)
	case o.Verdict == approval.Deny:
		s.end = o.Person + " denied it"
		return nil
	}
	s.grants = append(s.grants, *g)
	s.uses = min(s.uses, o.Uses)
	if len(s.used) == 0 {
		s.remaining = s.uses
	}
	return nil
}

// use adds a use of an approval.
func (a *approvals) use(origin string, e *event) error {
	f, id := new(form), strings.TrimPrefix(e.subject, aboutApproval)
	var named, log string
	u, index, remaining := approvalUse{}, int64(-1), int64(-1)
	err := strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
		v := value{f, string(name), src}
		switch string(name) {
		case "approvalId":
			named = v.text()
		case "log":
			log = v.text()
		case "index":
			index = v.number()
		case "hash":
			u.hash = v.like(sha256Form, "a SHA-256")
		case "remaining":
			remaining = v.number()
		}
	})
	if err == nil {
		err = f.err
	}
	s := a.byID[id]
	switch {
	case err != nil:
		return err
	case named != id || log != origin || index < 0 || u.hash == "":
		return errors.New("it does not name the approval, and the record that used it")
	case s == nil || len(s.grants) == 0:
		return errors.New("not complete: nothing before it granted the approval")
	case s.end != "":
		return errors.New("the approval had ended: " + s.end)
	case remaining < 0 || remaining >= s.remaining:
		return fmt.Errorf("the approval was used more often than the %d times that were approved", s.uses)
	}
	for i := range s.grants {
		if p := a.people[s.grants[i].object.Person]; p != nil && p.isGone {
			return fmt.Errorf("%s, who approved it, was disabled or deleted before", s.grants[i].object.Person)
		}
	}
	if _, is := s.used[index]; is {
		return fmt.Errorf("record %d used it twice", index)
	}
	s.remaining = remaining
	u.grants = s.grants[:len(s.grants):len(s.grants)]
	s.used[index] = u
	return nil
}

// approvalOf returns the ID of the approval by which a record was allowed, "" for none.
func approvalOf(in *content) string {
	if d := in.decision; d != nil && d.Verdict == decision.Allow {
		return d.Approval
	}
	return ""
}

// recordApproval checks the approval of the file's record.
func (c *checker) recordApproval() error {
	id := approvalOf(&c.content)
	if c.file.Approvals != nil && id == "" {
		return fail(BadApproval, "approvals are there, and the record was not allowed with one")
	}
	if c.trust.Approvers != nil && id == "" {
		return fail(BadApproval, "you pinned a key of an approver, and nothing here was allowed with an approval")
	}
	if err := c.readApprovals(); err != nil {
		return err
	}
	if err := c.approved(&c.file.Record, &c.content); err != nil {
		return err
	}
	c.checkedApprovals()
	return nil
}

// approved checks the approval by which a record was allowed, if there is one. The hash of the
// record was checked.
func (c *checker) approved(r *chain.Record, in *content) error {
	id, a := approvalOf(in), &c.approvals
	if id == "" {
		return nil
	}
	a.Recorded++
	if !a.held {
		if c.trust.Approvers != nil {
			return fail(BadApproval, "you pinned a key of an approver, and the approval %s of record %d is not in the file", id, r.Index)
		}
		if a.missing == "" {
			a.missing = id
		}
		return nil
	}
	grants, err := c.approvedBy(id, r, in)
	if err != nil {
		return fail(BadApproval, "the approval of record %d: %v", r.Index, err)
	}
	a.Shown++
	if c.trust.Approvers != nil {
		a.Pinned++
	}
	for i := range grants {
		c.addGrant(&grants[i])
	}
	return nil
}

// approvedBy returns who approved what a record did.
func (c *checker) approvedBy(id string, r *chain.Record, in *content) ([]grant, error) {
	s := c.approvals.byID[id]
	if s == nil {
		return nil, fmt.Errorf("not complete: the approval %s is not in the file", id)
	}
	u, is := s.used[r.Index]
	if !is || u.hash != hex.EncodeToString(r.Hash[:]) {
		return nil, fmt.Errorf("nothing here says that it used the approval %s", id)
	}
	call, _, _ := readCall(in.agentID, in.actionType, in.payload)
	if err := s.request.call.same(&call); err != nil {
		return nil, err
	}
	if s.request.record.Index >= r.Index {
		return nil, errors.New("it was asked for later")
	}
	for i := range u.grants {
		g := &u.grants[i]
		switch {
		case isWellBefore(r.Timestamp, g.timestamp):
			return nil, fmt.Errorf("%s approved it later", g.object.Person)
		case isWellBefore(g.object.ExpiresAt, r.Timestamp):
			return nil, fmt.Errorf("it had ended, at %s", g.object.ExpiresAt)
		case c.trust.Approvers != nil && !slices.Contains(c.trust.Approvers.fingerprints, g.key.Fingerprint()):
			return nil, fmt.Errorf("%s approved it with a key that you did not pin, %s", g.object.Person, g.key.Fingerprint())
		}
	}
	quorum := 1
	if set, err := c.policyLog.set(in.decision, r.Timestamp); err == nil {
		quorum = approval.Quorum(set.Texts, in.decision.By)
	}
	if len(u.grants) < quorum {
		return nil, fmt.Errorf("%d approved it, and the policies demand %d", len(u.grants), quorum)
	}
	return u.grants, nil
}

// maxNamed is how many approvals a summary names.
const maxNamed = 10

// addGrant remembers by whose passkey something was approved.
func (c *checker) addGrant(g *grant) {
	text := fmt.Sprintf("by a passkey that the company enrolled for %s, %s; that it is %[1]s's own is not confirmed", g.object.Person, g.key.Fingerprint())
	if c.trust.Approvers != nil {
		text = fmt.Sprintf("by %s's passkey %s, which you named", g.object.Person, g.key.Fingerprint())
	}
	if a := &c.approvals; len(a.named) < maxNamed && !slices.Contains(a.named, text) {
		a.named = append(a.named, text)
	}
	if c.session == nil && c.ofPeriod == nil {
		o := g.object
		c.addChecked("approved on %s at %s, control record %d: approval %s of record %d, for %s until %s%s", g.origin, g.timestamp, g.index,
			o.ApprovalID, o.Index, printable.Count(o.Uses, "use"), o.ExpiresAt, reasonOf(o))
	}
}

// reasonOf reads well after what a person approved.
func reasonOf(o *approval.Object) string {
	if o.Reason == nil {
		return ""
	}
	return "; reason: " + shown(quoted(*o.Reason))
}

// checkedApprovals says what was found of the approvals of a file.
func (c *checker) checkedApprovals() {
	if a := &c.approvals; a.Recorded > 0 {
		c.addChecked("approved: %s", a)
	}
}

// String is the line of a summary.
func (a *approvals) String() string {
	var text string
	switch {
	case a.Shown == 0:
		text = fmt.Sprintf("not in this file: nothing here shows who gave the approval %s", a.missing)
	case a.Recorded > 1:
		text = printable.Count(a.Recorded, "record") + ", "
		fallthrough
	default:
		text += strings.Join(a.named, "; ")
	}
	return text
}

func (v value) approvals() *Approvals {
	if v.src == nil {
		return nil
	}
	m := v.object([]string{"requests", "records"})
	return &Approvals{m["requests"].entries(), m["records"].entries()}
}

func (a *Approvals) write(m *members) {
	m.list("requests", writeEntries(a.Requests))
	m.entries(a.Entries)
}

// blob checks for canonical base64url without padding of at most limit bytes.
func (v value) blob(limit int) []byte {
	s := v.text()
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(data) > limit || base64.RawURLEncoding.EncodeToString(data) != s {
		v.form.refuse("%s is not base64url of at most %d bytes", v.name, limit)
		return nil
	}
	return data
}
