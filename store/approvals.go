package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/crypto/jcs"
	"attestd/crypto/passkey"
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// Approvals are what people are asked to approve: one record of the actions each. Nothing of them
// is cached: each use and each decision reads the row in its transaction, and compares it with its
// HMAC and the newest control record about it.
type Approvals struct {
	db     *base
	keys   rowKeys
	people People
}

// Approval is what people decide of one call.
type Approval struct {
	ID         string
	Call       chain.Hash // names the call
	Session    string     // "" where any session may use it
	AgentID    string
	ActionType string // of the record that uses it
	Tool       string // or the action type
	Index      int64  // of the record that is approved
	Hash       string // of that, in hex
	AskedBy    string // fingerprint of the credential
	Person     string // for whom the agent asks, see Asked; "" for nobody
	Reason     *string
	Quorum     int
	Approvers  []string // groups
	Created    time.Time
	Expires    time.Time // of the request
	State      string    // as the row has it; see StateAt
	Granted    []ApprovalGrant
	Decided    *string // the reason of the newest decision
	Uses       int64   // 0 before it is approved, as the next two
	Remaining  int64
	Until      time.Time
	Control    int64 // index of the newest control record; -1 for none

	number int64 // of the row
}

// ApprovalGrant is that a person has decided: has approved, or denied as the last one.
type ApprovalGrant struct {
	Person  string
	Control int64 // index of the control record
}

// The states of an approval.
const (
	ApprovalIsPending   = projection.ApprovalPending
	ApprovalIsApproved  = projection.ApprovalApproved
	ApprovalIsDenied    = projection.ApprovalDenied
	ApprovalIsUsed      = projection.ApprovalUsed
	ApprovalIsWithdrawn = projection.ApprovalWithdrawn
	ApprovalIsExpired   = "expired" // no row has it: the times say it
)

// Bounds of approvals.
const (
	MaxPendingOfAgent = 100
	MaxPending        = 10_000 // of a company, with those that are approved and not used up
	// ApprovalStays is how long an approval is listed after its end.
	ApprovalStays = 24 * time.Hour
)

// Errors of Decide and Withdraw, in addition to ErrNotFound.
var (
	ErrApprovalEnded   = errors.New("the approval is decided, used, expired or withdrawn")
	ErrApprovalCounted = errors.New("the person has decided this approval already")
	ErrNotApprover     = errors.New("the person may not decide this approval")
	ErrApprovalOwn     = errors.New("an agent asks for this person, who decides nothing of it where several must")
	ErrApprovalLimit   = fmt.Errorf("too many approvals are pending: the bound is %d of an agent, and %d of a company", MaxPendingOfAgent, MaxPending)
)

// StateAt is the state at a time.
func (a *Approval) StateAt(now time.Time) string {
	if a.isLive() && !now.Before(a.End()) {
		return ApprovalIsExpired
	}
	return a.State
}

func (a *Approval) isLive() bool {
	return a.State == ApprovalIsPending || a.State == ApprovalIsApproved
}

// End is when the request ends, or what was approved.
func (a *Approval) End() time.Time {
	if a.State == ApprovalIsApproved {
		return a.Until
	}
	return a.Expires
}

var approvalTable = macTable{projection.TableApproval, "approval_id", []string{
	"id", "company", "approval_id", "call", "session", "agent_id", "action_type", "tool", "idx", "hash", "asked_by", "person", "reason", "quorum", "approvers",
	"created_at", "expires_at", "state", "granted", "decided", "uses", "remaining", "until", "gone_at",
}}

// selectApproval selects approvals, each with the ID of the newest control record about it.
var selectApproval = "SELECT " + approvalTable.all() + ", " + latestOf("approval.company", "'"+projection.SubjectApproval+"' || approval.approval_id") + " AS latest FROM approval WHERE "

// approvalRow is an approval as it was read.
type approvalRow struct {
	macRow
	latest sql.NullInt64
}

func scanApproval(rows *sql.Rows) (r approvalRow, err error) {
	r.macRow = macRow{table: &approvalTable, values: make([]any, len(approvalTable.columns))}
	into := make([]any, 0, len(approvalTable.columns)+2)
	for i := range r.values {
		into = append(into, &r.values[i])
	}
	return r, rows.Scan(append(into, &r.mac, &r.latest)...)
}

// read reads the columns.
func (r *approvalRow) read() (a Approval, err error) {
	optional := func(name string) *string {
		if r.isNull(name) {
			return nil
		}
		text := r.text(name)
		return &text
	}
	a = Approval{
		ID: r.text("approval_id"), Session: r.text("session"), AgentID: r.text("agent_id"), ActionType: r.text("action_type"), Tool: r.text("tool"),
		Index: r.number("idx"), Hash: r.text("hash"), AskedBy: r.text("asked_by"), Person: r.text("person"), Reason: optional("reason"), Quorum: int(r.number("quorum")),
		Created: time.UnixMilli(r.number("created_at")), Expires: time.UnixMilli(r.number("expires_at")), State: r.text("state"), Decided: optional("decided"),
		Uses: r.number("uses"), Remaining: r.number("remaining"), Control: -1, number: r.number("id"),
	}
	copy(a.Call[:], r.bytes("call"))
	if until := r.optional("until"); until.Valid {
		a.Until = time.UnixMilli(until.Int64)
	}
	if r.latest.Valid {
		a.Control = r.latest.Int64 & db.IndexMask
	}
	if a.Approvers, err = stringsIn(r.text("approvers")); err == nil {
		a.Granted, err = readGrants(r.text("granted"))
	}
	return a, err
}

// readGrants reads a JSON array of [person, index].
func readGrants(text string) ([]ApprovalGrant, error) {
	var pairs [][2]json.RawMessage
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, fmt.Errorf("%w: grants of an approval: %w", ErrCorrupt, err)
	}
	grants := make([]ApprovalGrant, len(pairs))
	for i, pair := range pairs {
		if err := errors.Join(json.Unmarshal(pair[0], &grants[i].Person), json.Unmarshal(pair[1], &grants[i].Control)); err != nil {
			return nil, fmt.Errorf("%w: grants of an approval: %w", ErrCorrupt, err)
		}
	}
	return grants, nil
}

func grantsText(grants []ApprovalGrant) string {
	pairs := make([][2]any, len(grants))
	for i, g := range grants {
		pairs[i] = [2]any{g.Person, g.Control}
	}
	text, _ := json.Marshal(pairs) // texts and numbers never fail
	return string(text)
}

// recorded is what package projection compares.
func (a *Approval) recorded() projection.Approval {
	has := projection.Approval{State: a.State}
	if !a.Until.IsZero() {
		has.Until = chain.FormatTime(a.Until)
	}
	if a.isLive() {
		has.Remaining = a.Remaining
	}
	return has
}

// check returns an approval as it was read, if its row is what the HMAC and the newest control
// record say.
func (s Approvals) check(c *db.Conn, company *Company, r *approvalRow) (a Approval, err error) {
	key, err := s.keys.rowKey(c)
	if err == nil {
		err = s.keys.authentic(c, &key, &r.macRow)
	}
	if err == nil {
		a, err = r.read()
	}
	if err == nil {
		has := a.recorded()
		err = s.db.compared(c, company, r.latest, func(l *projection.Latest) *projection.Difference { return l.Approval(a.ID, has) })
	}
	return a, err
}

// load reads an approval of a company; ErrNotFound.
func (s Approvals) load(c *db.Conn, company *Company, id string) (r approvalRow, a Approval, err error) {
	r, err = db.Row(c, scanApproval, selectApproval+"company = ? AND approval_id = ?", company.Chain, id)
	if err == nil {
		a, err = s.check(c, company, &r)
	}
	return r, a, err
}

// Get returns an approval of the caller's company. An agent has none but its own; ErrNotFound.
func (s Approvals) Get(ctx context.Context, by Caller, id string) (a Approval, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		_, a, err = s.load(c, by.Company, id)
		return err
	})
	if err == nil && by.Agent != "" && by.Agent != a.AgentID {
		err = ErrNotFound
	}
	if err != nil {
		return Approval{}, fmt.Errorf("approval %q: %w", id, err)
	}
	return a, nil
}

// IsThere reports whether a call has an approval that may allow it.
func (s Approvals) IsThere(ctx context.Context, by Caller, call chain.Hash) (is bool, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&is}, `SELECT EXISTS (SELECT 1 FROM approval WHERE company = ? AND call = ? AND state = 'approved')`, by.Company.Chain, call[:])
	})
	return is, err
}

// List returns at most limit approvals of a company in a state, "" for all, the newest first,
// before a row; 0 for the first ones. next is the row for the next page; 0 where there is none.
func (s Approvals) List(ctx context.Context, by Caller, state string, before int64, limit int) (list []Approval, next int64, err error) {
	condition, args := "company = ?1 AND id < ?2", []any{by.Company.Chain, before}
	if before == 0 {
		args[1] = int64(1) << 62
	}
	now := by.At.UnixMilli()
	switch state {
	case "":
	case ApprovalIsPending:
		condition, args = condition+" AND state = 'pending' AND expires_at > ?3", append(args, now)
	case ApprovalIsApproved:
		condition, args = condition+" AND state = 'approved' AND until > ?3", append(args, now)
	case ApprovalIsExpired:
		condition, args = condition+" AND (state = 'pending' AND expires_at <= ?3 OR state = 'approved' AND until <= ?3)", append(args, now)
	default:
		condition, args = condition+" AND state = ?3", append(args, state)
	}
	err = s.db.Read(ctx, func(c *db.Conn) error {
		rows, err := db.All(c, scanApproval, fmt.Sprintf("%s%s ORDER BY id DESC LIMIT %d", selectApproval, condition, limit+1), args...)
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			next = rows[limit-1].number("id")
		}
		list = make([]Approval, len(rows))
		for i := range rows {
			if list[i], err = s.check(c, by.Company, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("approvals: %w", err)
	}
	return list, next, nil
}

// Asked is a call that needs an approval, or would use one.
type Asked struct {
	Call                      chain.Hash
	Session                   string
	AgentID, ActionType, Tool string
	// for whom the agent asks: person: and the ID of one who has signed in, or the issuer, # and
	// the subject of an identity; "" for nobody
	Person    string
	Reason    *string
	Quorum    int
	Approvers []string
	Expires   time.Time
	// it is allowed without one, so that none is made
	Allowed bool
	// it is no call but the request for an approval: none is used
	Request bool
	// an ID for the approval that is made; "" for a random one
	ID string
	// returns the name of the call that a record of actions is about, by its actionType and payload
	CallOf func(record *chain.Record) (chain.Hash, error)
}

// Approved is what became of an Asked.
type Approved struct {
	ID    string // of the approval; "" for none
	Used  bool   // the call is allowed by it
	Limit bool   // there are too many, so none was made
}

// ExistingApproval means that the approval of a Request is there already.
type ExistingApproval struct{ ID string }

func (e *ExistingApproval) Error() string { return "the approval is there already" }

// Append appends drafts of the caller's actions, for each of which asked has an Asked, or nil.
// draft returns them: what it says of an approval is decided in the transaction that appends, and
// is made durable with the approval's row and, of one that is used, with its control record. Its
// errors are those of AppendAll, chain.ErrRecorded for a draft that is recorded already, and of a
// Request *ExistingApproval and ErrApprovalLimit.
//
// draft may be called more than once for a draft.
func (s Approvals) Append(ctx context.Context, by Caller, asked []*Asked, draft func(i int, a Approved) (chain.Draft, error)) ([]chain.Record, error) {
	if err := s.db.haltedChain(by.Company.Chain); err != nil {
		return nil, err
	}
	records, err := s.db.ChangeAlone(ctx, func(w *db.Conn) ([]chain.Draft, error) {
		tx := approving{Approvals: s, w: w, by: by, used: map[string]*Approval{}, made: map[madeApproval]string{}}
		drafts := make([]chain.Draft, len(asked))
		for i, ask := range asked {
			if err := tx.append(&drafts[i], ask, func(a Approved) (chain.Draft, error) { return draft(i, a) }); err != nil {
				return nil, &chain.DraftError{Draft: i, Err: err}
			}
		}
		return append(drafts, tx.control...), nil
	})
	if err != nil {
		return nil, s.db.Refused(s.db.forged(ctx, by.Company.Chain, err))
	}
	return records[:len(asked)], nil
}

// approving is a transaction that appends what needs approvals. It is alone in its batch, so what
// it reads is as committed, but for what it has done itself.
type approving struct {
	Approvals
	w  *db.Conn
	by Caller

	used    map[string]*Approval    // by ID, as they are after their uses
	made    map[madeApproval]string // their IDs
	control []chain.Draft           // of the uses
}

// madeApproval is what an approval that a transaction has made is for.
type madeApproval struct {
	call    chain.Hash
	session string
}

func (tx *approving) append(d *chain.Draft, ask *Asked, draft func(Approved) (chain.Draft, error)) (err error) {
	var found Approved
	var sealed func(*chain.Record) error
	if ask != nil {
		found, sealed, err = tx.resolve(ask)
	}
	if err == nil {
		*d, err = draft(found)
		d.Sealed = sealed
	}
	return err
}

// resolve finds the approval of a call, uses it or makes one. sealed is what the record of the call
// must do then.
func (tx *approving) resolve(ask *Asked) (found Approved, sealed func(*chain.Record) error, err error) {
	rows, err := db.All(tx.w, scanApproval, selectApproval+"company = ? AND call = ? AND state IN ('pending', 'approved') ORDER BY id", tx.by.Company.Chain, ask.Call[:])
	pending := ""
	for i := 0; err == nil && i < len(rows); i++ {
		var a Approval
		if before := tx.used[rows[i].text("approval_id")]; before != nil {
			a = *before
		} else {
			a, err = tx.check(tx.w, tx.by.Company, &rows[i])
		}
		if err != nil || !tx.by.At.Before(a.End()) || !a.isLive() || a.AgentID != ask.AgentID || a.Session != "" && a.Session != ask.Session {
			continue
		}
		if a.State == ApprovalIsPending {
			pending = a.ID
			continue
		}
		if ask.Request {
			return found, nil, &ExistingApproval{a.ID}
		}
		var counts bool
		if counts, err = tx.counts(tx.w, tx.by, &a, ask); err == nil && counts {
			return tx.use(&a)
		}
	}
	if made := tx.made[madeApproval{ask.Call, ask.Session}]; made != "" {
		pending = made
	}
	switch {
	case err != nil || ask.Allowed:
		return found, nil, err
	case pending != "" && ask.Request:
		return found, nil, &ExistingApproval{pending}
	case pending != "":
		return Approved{ID: pending}, nil, nil
	}
	return tx.make(ask)
}

// use uses an approval: the control record names the record that does, and the row the control
// record.
func (tx *approving) use(a *Approval) (found Approved, sealed func(*chain.Record) error, err error) {
	if err := tx.db.intact(tx.by.Company.Chain); err != nil { // what is obeyed is in doubt
		return found, nil, err
	}
	tx.used[a.ID] = a
	a.Remaining--
	gone, remaining := a.Until, a.Remaining
	if remaining == 0 {
		a.State, gone = ApprovalIsUsed, tx.by.At
	}
	state := a.State
	used := chain.Record{Index: db.IndexMask} // no index is longer
	payload := func() ([]byte, error) {
		d, err := tx.db.controlDraft(tx.by, controlEvent{ApprovalUsed, projection.SubjectApproval + a.ID, map[string]any{
			"approvalId": a.ID, "log": tx.by.Company.Actions.Origin, "index": used.Index, "hash": hex.EncodeToString(used.Hash[:]), "remaining": remaining,
		}})
		return d.Payload, err
	}
	longest, err := payload()
	tx.control = append(tx.control, chain.Draft{
		Chain: tx.by.Company.Control.Chain, Payload: longest, Canonical: longest, Exempt: true, Complete: payload,
		Sealed: func(*chain.Record) error {
			return tx.keys.sign(tx.w, &approvalTable, `UPDATE approval SET remaining = ?, state = ?, gone_at = ? WHERE approval_id = ? RETURNING `+approvalTable.all(),
				remaining, state, gone.Add(ApprovalStays).UnixMilli(), a.ID)
		},
	})
	return Approved{ID: a.ID, Used: true}, func(r *chain.Record) error {
		used.Index, used.Hash = r.Index, r.Hash
		return nil
	}, err
}

// make makes a pending approval, unless there are too many.
func (tx *approving) make(ask *Asked) (found Approved, sealed func(*chain.Record) error, err error) {
	var ofAgent, all int
	now := tx.by.At.UnixMilli()
	err = tx.w.One([]any{&ofAgent, &all}, `SELECT count(CASE WHEN agent_id = ?2 AND state = 'pending' THEN 1 END), count(*) FROM approval
		WHERE company = ?1 AND state IN ('pending', 'approved') AND coalesce(CASE WHEN state = 'approved' THEN until END, expires_at) > ?3`,
		tx.by.Company.Chain, ask.AgentID, now)
	if err != nil {
		return found, nil, err
	}
	if made := len(tx.made); ofAgent+made >= MaxPendingOfAgent || all+made >= MaxPending {
		if ask.Request {
			return found, nil, ErrApprovalLimit
		}
		return Approved{Limit: true}, nil, nil
	}
	if found.ID = ask.ID; found.ID == "" {
		found.ID = NewApprovalID()
	}
	tx.made[madeApproval{ask.Call, ask.Session}] = found.ID
	return found, func(r *chain.Record) error {
		return tx.keys.sign(tx.w, &approvalTable, `INSERT INTO approval (company, approval_id, call, session, agent_id, action_type, tool, asked_by, person, reason, quorum, approvers,
			created_at, expires_at, state, granted, gone_at, idx, hash) VALUES (`+placeholders(1, 19)+`) RETURNING `+approvalTable.all(),
			tx.by.Company.Chain, found.ID, ask.Call[:], ask.Session, ask.AgentID, ask.ActionType, ask.Tool, textOrNil(tx.by.Credential), textOrNil(ask.Person), nullText(ask.Reason),
			int64(ask.Quorum), canonicalStrings(ascending(ask.Approvers)), now, ask.Expires.UnixMilli(), ApprovalIsPending, "[]", ask.Expires.Add(ApprovalStays).UnixMilli(),
			r.Index, hex.EncodeToString(r.Hash[:]))
	}, nil
}

// NewApprovalID returns the ID of another approval.
func NewApprovalID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never returns an error
	return approval.FormatID(random)
}

func nullText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

// counts reports whether an approval that is approved allows a call. It believes the row no word:
// what is approved follows from the record of the actions that it names, and that it is approved
// from the assertions in the control records, by passkeys and people that count now.
func (s Approvals) counts(w *db.Conn, by Caller, a *Approval, ask *Asked) (bool, error) {
	r, err := ledger.ReadRecord(w, by.Company.Chain, a.Index)
	if err != nil || r.IsPruned() {
		return false, err
	}
	canonical, err := jcs.Append(nil, r.Payload, maxPayloadDepth)
	if err != nil || r.ComputeHash(canonical) != r.Hash || hex.EncodeToString(r.Hash[:]) != a.Hash {
		return false, s.differs(by.Company, a.ID, "names a record that is another one")
	}
	if call, err := ask.CallOf(r); err != nil || call != ask.Call {
		return false, s.differs(by.Company, a.ID, "is of another call than the record that it names")
	}
	var people []string
	missing := slices.Clone(ask.Approvers)
	for _, g := range a.Granted {
		groups, err := s.granted(w, by, a, g)
		if errors.Is(err, errNoGrant) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if slices.Contains(people, g.Person) {
			return false, nil
		}
		people = append(people, g.Person)
		missing = slices.DeleteFunc(missing, func(group string) bool { return slices.Contains(groups, group) })
	}
	return len(people) >= max(ask.Quorum, 1) && len(missing) == 0, nil
}

// differs is the error of an approval that an external write has altered.
func (s Approvals) differs(company *Company, id, what string) error {
	return s.db.noted(company, changedTables(company, &projection.Difference{Table: projection.TableApproval, Row: id, Index: -1, What: what}))
}

// errNoGrant means that a person's approval does not count any more.
var errNoGrant = errors.New("the approval of this person does not count")

// granted verifies that a person has approved, by the assertion in the control record, and returns
// the groups of the person. errNoGrant where the passkey or the person ended.
func (s Approvals) granted(w *db.Conn, by Caller, a *Approval, g ApprovalGrant) (groups []string, err error) {
	l, err := controlRecord(w, by.Company, sql.NullInt64{Int64: db.RecordID(by.Company.Control.Chain, g.Control), Valid: true})
	if err != nil {
		return nil, s.db.noted(by.Company, err)
	}
	wrong := func(what string) error {
		return s.differs(by.Company, a.ID, fmt.Sprintf("names control record %d, which %s", g.Control, what))
	}
	if l.Action() != string(ApprovalGranted) {
		return nil, wrong("grants no approval")
	}
	o, err := approval.Parse(l.Payload.Object)
	if err != nil || !a.isObject(by.Company, g.Person, o) || o.Verdict != approval.Approve {
		return nil, wrong("approves something else")
	}
	// it may be used as often, and until, as each person has signed
	if ends, err := time.Parse(time.RFC3339Nano, o.ExpiresAt); err != nil || !by.At.Before(ends) || a.Uses > o.Uses || a.Until.After(ends) {
		return nil, wrong("approves less")
	}
	found, err := passkeys.knownOne(w, "company = ? AND credential_id = ?", by.Company.Chain, l.Payload.CredentialID)
	if errors.Is(err, db.ErrNotFound) {
		return nil, wrong("names no passkey")
	}
	if err != nil {
		return nil, err
	}
	k, err := s.people.checkPasskey(w, by.Company, found)
	if err != nil {
		return nil, err
	}
	if k.PersonID != g.Person || k.RevokedAt != "" {
		return nil, errNoGrant
	}
	rpID, err := relyingParty(w)
	if err != nil {
		return nil, err
	}
	if err := verifyApproval(o, &k, rpID, l); err != nil {
		return nil, wrong("does not verify: " + err.Error())
	}
	p, err := s.people.loadEnabled(w, by.Company, g.Person)
	switch {
	case errors.Is(err, ErrDisabled), errors.Is(err, db.ErrNotFound), err == nil && (p.CreatedAt > l.Timestamp || !slices.Contains(p.Roles, PersonApprover)):
		return nil, errNoGrant
	case err != nil:
		return nil, err
	}
	return p.Groups, nil
}

// isObject reports whether what a person has signed is about the approval.
func (a *Approval) isObject(company *Company, person string, o *approval.Object) bool {
	want := a.Object(company, person)
	want.Verdict, want.Uses, want.ExpiresAt, want.Reason = o.Verdict, o.Uses, o.ExpiresAt, o.Reason
	return bytes.Equal(want.Append(nil), o.Append(nil))
}

// Object is what a person signs to decide the approval, without the person's choice.
func (a *Approval) Object(company *Company, person string) approval.Object {
	return approval.Object{ApprovalID: a.ID, Log: company.Actions.Origin, Index: a.Index, Hash: a.Hash, AgentID: a.AgentID, Tool: a.Tool, Person: person}
}

// verifyApproval verifies the assertion that a control record holds.
func verifyApproval(o *approval.Object, k *Passkey, rpID string, l *projection.Latest) error {
	var a passkey.Assertion
	var public []byte
	for text, into := range map[*string]*[]byte{
		&l.Payload.AuthenticatorData: &a.AuthenticatorData, &l.Payload.ClientDataJSON: &a.ClientDataJSON, &l.Payload.Signature: &a.Signature, &k.PublicKey: &public,
	} {
		decoded, err := base64.RawURLEncoding.DecodeString(*text)
		if err != nil {
			return err
		}
		*into = decoded
	}
	key, err := passkey.ParseKey(public)
	if err != nil {
		return err
	}
	origin, err := approval.Verify(o, &a, key, "")
	if err == nil && hostOf(origin) != rpID {
		err = errors.New("it was made for another host")
	}
	return err
}

// mayDecide returns the groups of a person who may decide an approval.
func (s Approvals) mayDecide(c *db.Conn, by Caller, a *Approval) (groups []string, err error) {
	p, err := s.people.loadEnabled(c, by.Company, by.Person)
	if errors.Is(err, ErrDisabled) || errors.Is(err, db.ErrNotFound) {
		err = ErrNotApprover
	}
	if err != nil {
		return nil, err
	}
	in := func(group string) bool { return slices.Contains(p.Groups, group) }
	if !slices.Contains(p.Roles, PersonApprover) || len(a.Approvers) > 0 && !slices.ContainsFunc(a.Approvers, in) {
		return nil, ErrNotApprover
	}
	if a.Quorum > 1 && p.isNamed(a.Person) {
		return nil, ErrApprovalOwn
	}
	return p.Groups, nil
}

// isNamed reports whether a person is the one of an Asked.
func (p *Person) isNamed(name string) bool {
	if name == "" {
		return false
	}
	if name == people.about(p.ID) {
		return true
	}
	var subjects []struct{ Issuer, Sub string }
	if json.Unmarshal([]byte(p.subjects), &subjects) != nil {
		return true // whom it cannot tell apart decides nothing
	}
	for _, one := range subjects {
		if one.Issuer+"#"+one.Sub == name {
			return true
		}
	}
	return false
}

// ApprovalDecision is what a person says of an approval, as the passkey has signed it.
type ApprovalDecision struct {
	Object         approval.Object
	Passkey        Passkey // that has signed
	BackupEligible bool    // it can be synced, which it could not at its enrolment
	// of the assertion, in base64url
	AuthenticatorData, ClientDataJSON, Signature string
}

// Examine returns an approval that the caller, a person, may decide now: ErrNotFound,
// ErrNotApprover, ErrApprovalOwn, ErrApprovalEnded, ErrApprovalCounted.
func (s Approvals) Examine(ctx context.Context, by Caller, id string) (a Approval, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		a, _, err = s.examine(c, by, id)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("approval %q: %w", id, err)
	}
	return a, nil
}

func (s Approvals) examine(c *db.Conn, by Caller, id string) (a Approval, groups []string, err error) {
	if _, a, err = s.load(c, by.Company, id); err != nil {
		return a, nil, err
	}
	switch {
	case a.StateAt(by.At) != ApprovalIsPending:
		return a, nil, ErrApprovalEnded
	case slices.ContainsFunc(a.Granted, func(g ApprovalGrant) bool { return g.Person == by.Person }):
		return a, nil, ErrApprovalCounted
	}
	groups, err = s.mayDecide(c, by, &a)
	return a, groups, err
}

// Decide makes the decision of the caller, a person, durable. The errors are those of Examine, and
// ErrNotFound of the passkey.
func (s Approvals) Decide(ctx context.Context, by Caller, d ApprovalDecision) (a Approval, err error) {
	if err := s.db.intact(by.Company.Chain); err != nil {
		return a, err
	}
	o := &d.Object
	_, err = s.db.ChangeAlone(ctx, func(w *db.Conn) ([]chain.Draft, error) {
		var groups []string
		if a, groups, err = s.examine(w, by, o.ApprovalID); err != nil {
			return nil, err
		}
		if !a.isObject(by.Company, by.Person, o) {
			return nil, ErrApprovalEnded // it is another one by now
		}
		found, err := passkeys.knownOne(w, "company = ? AND person_id = ? AND credential_id = ?", by.Company.Chain, by.Person, d.Passkey.CredentialID)
		if err == nil {
			_, err = s.people.checkPasskey(w, by.Company, found)
		}
		if err != nil {
			return nil, err
		}
		if found.row.RevokedAt != "" {
			return nil, db.ErrNotFound
		}
		return s.decide(w, by, &a, groups, d)
	})
	if err != nil {
		return Approval{}, fmt.Errorf("decide approval %q: %w", o.ApprovalID, err)
	}
	return a, nil
}

// decide writes a decision into the row, and returns the draft of its control record.
func (s Approvals) decide(w *db.Conn, by Caller, a *Approval, groups []string, d ApprovalDecision) ([]chain.Draft, error) {
	o := &d.Object
	ends, err := time.Parse(time.RFC3339Nano, o.ExpiresAt)
	if err != nil {
		return nil, err
	}
	action, gone := ApprovalGranted, a.Expires
	if o.Verdict == approval.Deny {
		action, a.State, gone = ApprovalDenied, ApprovalIsDenied, by.At
	} else {
		if a.Until.IsZero() || ends.Before(a.Until) {
			a.Until = ends
		}
		if a.Uses == 0 || o.Uses < a.Uses {
			a.Uses = o.Uses
		}
		a.Remaining = a.Uses
		enough, err := s.enough(w, by, a, groups)
		if err != nil {
			return nil, err
		}
		if enough {
			a.State, gone = ApprovalIsApproved, a.Until
		}
	}
	a.Decided = o.Reason
	details := map[string]any{
		"approvalId": a.ID, "object": json.RawMessage(o.Append(nil)), "credentialId": d.Passkey.CredentialID, "authenticatorData": d.AuthenticatorData,
		"clientDataJSON": d.ClientDataJSON, "signature": d.Signature, "state": a.State,
	}
	if d.BackupEligible {
		details["backupEligible"] = true
	}
	if action == ApprovalGranted {
		details["remaining"], details["until"] = a.Remaining, chain.FormatTime(a.Until)
	}
	draft, err := s.db.controlDraft(by, controlEvent{action, projection.SubjectApproval + a.ID, details})
	draft.Sealed = func(r *chain.Record) error {
		a.Control = r.Index
		a.Granted = append(slices.Clone(a.Granted), ApprovalGrant{by.Person, r.Index})
		until := sql.NullInt64{Int64: a.Until.UnixMilli(), Valid: !a.Until.IsZero()}
		return s.keys.sign(w, &approvalTable, `UPDATE approval SET state = ?, granted = ?, decided = ?, uses = nullif(?, 0), remaining = nullif(?, 0), until = ?, gone_at = ?
			WHERE approval_id = ? RETURNING `+approvalTable.all(), a.State, grantsText(a.Granted), nullText(a.Decided), a.Uses, a.Remaining, until,
			gone.Add(ApprovalStays).UnixMilli(), a.ID)
	}
	return []chain.Draft{draft}, err
}

// enough reports whether an approval is approved by those who have and the caller, who is in some
// groups.
func (s Approvals) enough(w *db.Conn, by Caller, a *Approval, groups []string) (bool, error) {
	missing := slices.Clone(a.Approvers)
	without := func(groups []string) {
		missing = slices.DeleteFunc(missing, func(group string) bool { return slices.Contains(groups, group) })
	}
	without(groups)
	for _, g := range a.Granted {
		p, err := s.people.loadEnabled(w, by.Company, g.Person)
		if err != nil { // disabling a person ends the approval
			return false, err
		}
		without(p.Groups)
	}
	return len(a.Granted)+1 >= a.Quorum && len(missing) == 0, nil
}

// The reasons of approval.withdrawn.
const (
	withdrawnByAsker  = "requested"
	withdrawnByPerson = "person" // who has approved it is disabled or deleted
)

// Withdraw ends an approval that is pending, or approved and not used up. An agent does that for
// itself: ErrNotFound for others; ErrApprovalEnded.
func (s Approvals) Withdraw(ctx context.Context, by Caller, id string) (err error) {
	_, err = s.db.ChangeAlone(ctx, func(w *db.Conn) ([]chain.Draft, error) {
		r, a, err := s.load(w, by.Company, id)
		switch {
		case err != nil:
			return nil, err
		case by.Agent != "" && by.Agent != a.AgentID:
			return nil, ErrNotFound
		case a.State == ApprovalIsWithdrawn:
			return nil, nil
		case a.StateAt(by.At) == ApprovalIsExpired || !a.isLive():
			return nil, ErrApprovalEnded
		}
		withdrawn, err := s.withdraw(w, by, &r, &a, withdrawnByAsker)
		if err != nil {
			return nil, err
		}
		return s.db.controlDrafts(by, withdrawn)
	})
	if err != nil {
		return fmt.Errorf("withdraw approval %q: %w", id, err)
	}
	return nil
}

func (s Approvals) withdraw(w *db.Conn, by Caller, r *approvalRow, a *Approval, reason string) (controlEvent, error) {
	err := s.keys.change(w, &r.macRow, "state = ?, gone_at = ?", ApprovalIsWithdrawn, by.At.Add(ApprovalStays).UnixMilli())
	return controlEvent{ApprovalWithdrawn, projection.SubjectApproval + a.ID, map[string]any{"approvalId": a.ID, "reason": reason}}, err
}

// withdrawApprovals ends the approvals that a person has approved and that are not used up.
func (p People) withdrawApprovals(w *db.Conn, by Caller, person string) (events []controlEvent, err error) {
	s := Approvals{p.db, p.keys, p}
	// LIKE only narrows it down: _ in an ID is any character
	rows, err := db.All(w, scanApproval, selectApproval+"company = ? AND state IN ('pending', 'approved') AND granted LIKE ?", by.Company.Chain, `%["`+person+`",%`)
	for i := 0; err == nil && i < len(rows); i++ {
		var a Approval
		if a, err = s.check(w, by.Company, &rows[i]); err == nil && slices.ContainsFunc(a.Granted, func(g ApprovalGrant) bool { return g.Person == person }) {
			var withdrawn controlEvent
			withdrawn, err = s.withdraw(w, by, &rows[i], &a, withdrawnByPerson)
			events = append(events, withdrawn)
		}
	}
	return events, err
}

// readApprovals compares the approvals of the company with the newest control records about them.
func (r *comparison) readApprovals(ctx context.Context) error {
	for after, n := int64(0), tablePage; n == tablePage; {
		err := r.tables.db.Read(ctx, func(c *db.Conn) error {
			page, err := db.All(c, scanApproval, fmt.Sprintf("%scompany = ? AND id > ? ORDER BY id LIMIT %d", selectApproval, tablePage), r.company.Chain, after)
			if n = len(page); err != nil || n == 0 {
				return err
			}
			after = page[n-1].number("id")
			for i := range page {
				a, err := page[i].read()
				if err != nil {
					r.add(&projection.Difference{Table: projection.TableApproval, Row: page[i].text("approval_id"), Index: -1, What: err.Error()})
					continue
				}
				l, err := controlRecord(c, r.company, page[i].latest)
				if err != nil {
					return err
				}
				r.add(l.Approval(a.ID, a.recorded()))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxPayloadDepth is more than the payload of a record nests.
const maxPayloadDepth = 256

// hostOf is the host of the page of an assertion.
func hostOf(origin string) string {
	host := strings.TrimPrefix(strings.TrimPrefix(origin, "https://"), "http://")
	host, _, _ = strings.Cut(host, ":")
	return host
}
