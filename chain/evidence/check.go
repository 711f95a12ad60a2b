package evidence

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"attestd/chain/action"
	"attestd/chain/tlog"
	"attestd/crypto/keys"
)

// Trust is what the checking person trusts, from a source other than the file. The zero Trust is
// nothing.
type Trust struct {
	Fingerprint string       // of a key of the company, "SHA256:…"
	Policy      *tlog.Policy // or nil
	AgentKey    string       // thumbprint of a key of the agent, or ""
	Approvers   *Approvers   // keys of approvers, or nil
	Newer       *Newer       // a checkpoint that the file's must lead to, or nil
	Decider     Decider      // makes decisions again; nil where policies cannot be evaluated

	// Known is asked where neither Fingerprint nor Policy is set; nil for none.
	Known   Known
	isKnown bool // Fingerprint is from Known
}

// Known names the fingerprint of a key that is trusted for a company, "" for none.
type Known interface{ Fingerprint(companyID string) string }

// Of returns the trust in the files of a company, with the fingerprint that is known of it.
func (t Trust) Of(companyID string) Trust {
	if t.Fingerprint == "" && t.Policy == nil && t.Known != nil {
		t.Fingerprint = t.Known.Fingerprint(companyID)
		t.isKnown = t.Fingerprint != ""
	}
	return t
}

// keySource says from where the trusted fingerprint is.
func (t Trust) keySource() string {
	if t.isKnown {
		return "is stored as trusted on this machine"
	}
	return "you named"
}

// Check checks an evidence file.
func Check(src []byte, t Trust) Verdict {
	c := newChecker(t)
	return c.verdict(c.check(src))
}

func newChecker(t Trust) *checker {
	return &checker{trust: t, cosigned: make(map[string]bool), notes: make(map[string]note)}
}

// verdict returns the verdict of a check that has ended with err, unless the newer checkpoint says
// otherwise.
func (c *checker) verdict(err error) Verdict {
	if err == nil && c.trust.Newer != nil {
		err = c.newer(*c.trust.Newer)
	}
	v := Verdict{Outcome: Holds, Checked: append([]string{}, c.checked...), NotProven: []string{}}
	var f *failure
	switch {
	case errors.As(err, &f):
		v.Outcome, v.Code, v.Reason = Fails, f.code, f.reason
		return v
	case c.trust.Fingerprint == "" && c.trust.Policy == nil:
		v.Outcome, v.Reason = SelfConsistent, "key not confirmed: anyone can make such a file"
	}
	v.NotProven = c.file.NotProven
	v.Statement, v.Session, v.NotActor = c.signedBy, c.session, c.notActor
	v.Summary = c.summary()
	if c.decisions.Recorded > 0 {
		v.Decisions = &c.decisions.Decisions
	}
	if c.approvals.Recorded > 0 {
		v.Approvals = &c.approvals.ApprovalCounts
	}
	if c.session == nil {
		v.Disobeyed = c.disobeyed.calls
	}
	return v
}

// checker is the state of the check of one file.
type checker struct {
	trust       Trust
	form        []byte // buffer for the RFC 8785 form
	file        *File
	witnesses   []tlog.VKey
	content     content         // of the record
	signer      string          // kid of the key of the record
	notes       map[string]note // the checkpoint of each log, by the log's name
	cosigned    map[string]bool // by the log's name and the witness's vkey
	cosigners   []string        // vkeys, in order of appearance
	signedBy    *Statement      // nil without a statement
	notActor    *string         // to whom another's delegation was given; nil for none
	session     *Session        // of a file of a session
	disobeyed   disobeyed       // of a session or a report
	latestEvent *event          // the latest about the record's agent at its time; nil for none
	ofPassport  []event         // control records of the passport
	policyLog   policyLog       // changes of policies
	decisions   decisions
	passports   map[string]*decidingPassport // by their IDs
	approvals   approvals
	tally       tally   // of a session
	ofPeriod    *Report // of a report
	checked     []string
}

func (c *checker) addChecked(format string, args ...any) {
	c.checked = append(c.checked, fmt.Sprintf(format, args...))
}

func (c *checker) check(src []byte) (err error) {
	if c.file, err = c.read(src); err != nil {
		return fail(Malformed, "%v", err)
	}
	for _, step := range []func() error{
		c.keys, c.record, c.hexProof, c.readWitnesses, c.logProof, c.delegation, c.statement, c.authority, c.passport, c.status, c.recordDecision, c.recordApproval, c.allCosigned, c.notProven, c.trusted,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) delegation() error {
	f := c.file
	own := f.Record.Delegation
	if (own == nil) != (f.Delegation == nil) {
		return fail(BadDelegation, "only one of delegation and record.delegation is present")
	}
	if own != nil && !bytes.Equal(canonical(own), canonical(f.Delegation)) {
		return fail(BadDelegation, "delegation differs from record.delegation")
	}
	if f.Log == Actions {
		c.acts(&f.Record, &c.content)
	}
	return nil
}

func (c *checker) notProven() error {
	if !slices.Equal(c.file.NotProven, c.file.notProven()) {
		return fail(BadNotProven, "notProven is not the list for the members of this file")
	}
	return nil
}

// trusted checks the file against the trusted fingerprint or policy.
func (c *checker) trusted() error {
	c.trust = c.trust.Of(c.file.CompanyID)
	switch pinned := c.trust; {
	case pinned.Fingerprint != "":
		at := slices.IndexFunc(c.file.published, func(k published) bool { return k.Fingerprint == pinned.Fingerprint })
		if at < 0 {
			return fail(KeyUntrusted, "the file does not contain the key that you trust, %s", pinned.Fingerprint)
		}
		last := len(c.file.Keys) - 1
		if at == last {
			c.addChecked("the key that you trust has signed every checkpoint here")
		} else {
			c.addChecked("the key that you trust, %d of %d, is followed by the one that has signed every checkpoint here", at+1, last+1)
		}
	case pinned.Policy != nil:
		return c.policy(*pinned.Policy)
	}
	return nil
}

// policy checks every checkpoint against the policy. A policy cannot name one key for two logs, so
// a line that names the last key for one of the company's logs counts for the other too.
func (c *checker) policy(p tlog.Policy) error {
	last := c.file.Keys[len(c.file.Keys)-1]
	named := slices.ContainsFunc(c.file.Logs, func(l Log) bool {
		return slices.ContainsFunc(p.Logs, func(line tlog.PolicyLog) bool { return line.Key.String() == l.vkey(last).String() })
	})
	if !named {
		return fail(PolicyUnmet, "the policy has no log with the key that has signed the checkpoints")
	}
	for _, l := range c.file.Logs {
		n, ok := c.notes[l.Name]
		if !ok {
			continue // only the keys of actions are in a file about control
		}
		p.Logs = []tlog.PolicyLog{{Key: l.vkey(last)}}
		w, err := p.Open([]byte(n.text))
		if err != nil {
			return fail(PolicyUnmet, "the policy does not accept the checkpoint of %s: %v", l.Name, err)
		}
		if !w.Quorum {
			return fail(PolicyUnmet, "the checkpoint of %s is not cosigned by a quorum of the policy", l.Name)
		}
		c.addChecked("your policy accepts the checkpoint of %s at %d records, which %d of its witnesses have cosigned", l.Name, w.Size, len(w.By))
	}
	return nil
}

// Code says which check failed.
type Code string

// The codes, in the order of the checks.
const (
	Malformed     Code = "MALFORMED"
	KeysUnproven  Code = "KEYS"
	BadRecord     Code = "RECORD"
	Pruned        Code = "PRUNED" // signed, and the hash cannot be recomputed
	BadHexProof   Code = "HEX_PROOF"
	BadWitnesses  Code = "WITNESSES"
	BadLogProof   Code = "LOG_PROOF"
	BadDelegation Code = "DELEGATION"
	BadStatement  Code = "STATEMENT"
	BadAuthority  Code = "AUTHORITY"
	BadPassport   Code = "PASSPORT"
	BadStatus     Code = "STATUS"
	BadDecision   Code = "DECISION"
	BadApproval   Code = "APPROVAL"
	BadNotProven  Code = "NOT_PROVEN"
	KeyUntrusted  Code = "KEY"
	PolicyUnmet   Code = "POLICY"
	NotFollowed   Code = "NEWER" // of Trust.Newer
)

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Holds          Outcome = "holds"
	Fails          Outcome = "fails"
	SelfConsistent Outcome = "self-consistent"
)

// Verdict is the result of a check with its details: sentences for people, codes for programs.
type Verdict struct {
	Outcome   Outcome  `json:"verdict"`
	Code      Code     `json:"code,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Checked   []string `json:"checked"`
	NotProven []string `json:"notProven"` // empty for a file that fails

	Summary []Line `json:"-"` // who did what, for people; nil for a file that fails

	// nil for a file that fails, and for a record without a statement
	Statement *Statement `json:"statement,omitempty"`
	Session   *Session   `json:"session,omitempty"` // of a session's file
	// to whom the delegation of the record was given, where that is not its agent; of a session, of
	// the first such record; nil for none
	NotActor *string `json:"notActor,omitempty"`
	// nil for a file that fails, and without any
	Decisions *Decisions      `json:"decisions,omitempty"`
	Approvals *ApprovalCounts `json:"approvals,omitempty"`
	// the first 100 calls of a report that were refused and ran all the same
	Disobeyed []action.Disobeyed `json:"disobeyed,omitempty"`
}

// Statement says which key of the agent signed.
type Statement struct {
	KeyID      string     `json:"kid"`
	EnrolledAt string     `json:"enrolledAt"` // by the service's clock
	EnrolledBy EnrolledBy `json:"enrolledBy"`
	// it is the key that the person knows, or follows from it
	Pinned   bool   `json:"pinned"`
	Issuer   string `json:"iss"` // SPIFFE ID of the agent
	Audience string `json:"aud"` // SPIFFE ID of the company
	// origin of the log that it was made for; "" in version 1, and of a session by its last
	// statement
	Log string `json:"log"`
	// when the key came into other hands, where the record is not older, or one of the session's
	Since string `json:"since,omitempty"`
	// nil outside a session, and in a session's file
	Session *Place `json:"session,omitempty"`
}

// EnrolledBy says who enrolled a key.
type EnrolledBy struct {
	// credential, enrolment (a token for one key) or key (the one before it)
	Kind string `json:"kind"`
	// fingerprint of the credential or token; thumbprint of the key before it
	Name string `json:"name"`
}

// Place is the place of a record in its session.
type Place struct {
	Session string `json:"sid"`
	Seq     int64  `json:"seq"`
}

// failure is the first check that failed.
type failure struct {
	code   Code
	reason string
}

func (f *failure) Error() string { return f.reason }

func fail(code Code, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// Newer is a checkpoint of a log that is newer than one of a file, with the consistency proof
// between them: the response of GET /v1/log/{logId}/consistency.
type Newer struct {
	From       int64 // the old size of Proof
	Proof      []tlog.Hash
	Checkpoint []byte // signed
}

// newer checks the newer checkpoint against the file's. A rewritten history has no consistency
// proof.
func (c *checker) newer(n Newer) error {
	finding, err := c.file.follows(n, c.trust.Policy, func(log string) (trees []tlog.Tree) {
		if old, ok := c.notes[log]; ok {
			trees = append(trees, old.Tree)
		}
		return trees
	})
	if err == nil {
		c.addChecked("%s", finding)
	}
	return err
}

// Follows checks a newer checkpoint against those of a form, which are of the trees of a log that
// checked returns: the same size may follow from any of them. It says what was checked. CodeOf
// returns the code of its error: NEWER or POLICY.
func (r *Ring) Follows(n Newer, p *tlog.Policy, checked func(log string) []tlog.Tree) (finding string, err error) {
	return r.c.file.follows(n, p, checked)
}

// follows checks that the last key of a file has signed the newer checkpoint, because the file
// cannot authenticate another key, and that the proof leads to it from a tree that was checked.
func (f *File) follows(n Newer, policy *tlog.Policy, checked func(log string) []tlog.Tree) (finding string, err error) {
	newer, _, err := tlog.ParseSignedCheckpoint(n.Checkpoint)
	if err != nil {
		return "", fail(NotFollowed, "the newer checkpoint: %v", err)
	}
	at := slices.IndexFunc(f.Logs, func(l Log) bool { return l.Origin == newer.Origin })
	if at < 0 {
		return "", fail(NotFollowed, "the newer checkpoint is for the log %q, which the file does not have", newer.Origin)
	}
	l := f.Logs[at]
	trees := checked(l.Name)
	if len(trees) == 0 {
		return "", fail(NotFollowed, "the file has no checkpoint of %s to compare", l.Name)
	}
	key := l.vkey(f.Keys[len(f.Keys)-1])
	if _, _, err := tlog.OpenCheckpoint(n.Checkpoint, key); err != nil {
		return "", fail(NotFollowed, "the key that signed the file's checkpoints has not signed the newer one; after a key rotation, use a newer file")
	}
	if policy != nil {
		held := *policy
		held.Logs = []tlog.PolicyLog{{Key: key}}
		w, err := held.Open(n.Checkpoint)
		if err != nil || !w.Quorum {
			return "", fail(PolicyUnmet, "the newer checkpoint of %s is not cosigned by a quorum of the policy", l.Name)
		}
	}
	from := slices.IndexFunc(trees, func(t tlog.Tree) bool { return t.Size == n.From })
	if from < 0 {
		return "", fail(NotFollowed, "the proof starts at %d records, but the file's checkpoint has %d", n.From, trees[len(trees)-1].Size)
	}
	if old := trees[from]; tlog.CheckConsistency(n.Proof, old, newer.Tree) != nil {
		return "", fail(NotFollowed, "the newer checkpoint of %d records is not consistent with the file's of %d: the history was rewritten", newer.Size, old.Size)
	}
	return fmt.Sprintf("the newer checkpoint of %s, of %d records, is consistent with the file's: its records are unchanged", l.Name, newer.Size), nil
}

// status is a parsed signed status of a passport.
type status struct {
	jti, companyID, state, checkedAt, revokedAt, pem string
	reason                                           []byte // nil where absent
	signature                                        []byte
	// members covered by the signature
	signed map[string][]byte
}

// status parses the response of GET /v1/ocsp/{jti}.
func (v value) status() (s status) {
	m := v.object([]string{"jti", "companyId", "status", "checkedAt", "caPublicKey", "signature"}, "revokedAt", "reason")
	s.jti, s.companyID, s.state, s.pem = m["jti"].text(), m["companyId"].text(), m["status"].text(), m["caPublicKey"].text()
	s.checkedAt = m["checkedAt"].timestamp()
	if m["revokedAt"].src != nil {
		s.revokedAt = m["revokedAt"].timestamp()
	}
	if s.reason = m["reason"].src; s.reason != nil {
		m["reason"].text()
	}
	s.signature = m["signature"].base64url(64)
	s.signed = make(map[string][]byte)
	for name, v := range m {
		if v.src != nil && name != "caPublicKey" && name != "signature" {
			s.signed[name] = v.src
		}
	}
	return s
}

// preimage returns the canonical form of the signed members, whose hash is signed.
func (s *status) preimage() []byte {
	dst := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(s.signed)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = append(dst, canonical(s.signed[name])...)
	}
	return append(dst, '}')
}

// status checks the signed status of the passport and its consistency with the control records.
func (c *checker) status() error {
	f := c.file
	if (f.Passport == nil) != (f.Status == nil) {
		return fail(BadStatus, "only one of passport and status is present")
	}
	if f.Status == nil {
		return nil
	}
	s := value{new(form), "status", f.Status}.status()
	last := f.published[len(f.published)-1]
	digest := sha256.Sum256(s.preimage())
	switch {
	case s.jti != f.Passport.JTI || s.companyID != f.CompanyID:
		return fail(BadStatus, "the status is of another passport")
	case s.state != "valid" && s.state != "revoked" && s.state != "unknown":
		return fail(BadStatus, "%q is not a status", s.state)
	case (s.state == "revoked") != (s.revokedAt != "") || s.reason != nil && s.state != "revoked":
		return fail(BadStatus, "revokedAt and reason do not match the status %q", s.state)
	case s.pem != keys.Describe(last.Key).PEM || !ed25519.Verify(last.Key, digest[:], s.signature):
		return fail(BadStatus, "the company's last key has not signed the status")
	}
	for _, e := range c.ofPassport {
		if !e.agrees(&s) {
			return fail(BadStatus, "the status %q contradicts control record %d", s.state, e.index)
		}
	}
	c.addChecked("the passport %s was %s at %s, as the company's last key has signed", s.jti, s.state, s.checkedAt)
	return nil
}
