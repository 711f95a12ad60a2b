package attestd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Attestation is an agent's action, to be appended to the chain.
type Attestation struct {
	AgentID    string // 1 to 256 characters; the agent need not be registered
	ActionType string // 1 to 256 characters, such as tool.completed
	// Payload is encoded by encoding/json. A json.RawMessage is sent byte for byte, except text
	// that is not well-formed (see the package comment).
	Payload    any
	Delegation string // delegation token of the agent, or ""
	// IdempotencyKey has 1 to 255 printable ASCII characters. If it is "", the client generates one
	// for all retries.
	IdempotencyKey string
	// Statement is what the agent signed of the action; see [Identity.Sign]. It is its own
	// idempotency key: the attestation needs no other.
	Statement string
	// Decide asks for a decision by the company's policies. The record holds it, whatever the
	// verdict is: Record.Payload.Decision.
	Decide bool
	// Last states that nothing follows in the session in which it is attested.
	Last bool
	// Folder is where the agent works, for that decision; "" where it is unknown.
	Folder string
	// Passport is the agent's, for that decision, which names it; "" without one. The record does
	// not have it, and Decide must be set.
	Passport string
}

// NewIdempotencyKey returns a unique key of the time and 130 random bits. The service's index sorts
// keys by their beginning, so the time comes first to keep recent keys together. An append with
// such a key costs little more than one without.
func NewIdempotencyKey() string { return fmt.Sprintf("%012x-%s", time.Now().UnixMilli(), rand.Text()) }

// Prepare returns the attestation in the form in which it is sent: the payload as a
// json.RawMessage, all text well-formed, the key set. It returns an error for an attestation that
// the service would refuse in any state, so that a queue never has one. Prepare is idempotent.
func (a Attestation) Prepare() (Attestation, error) {
	payload, err := marshal(a.Payload)
	if err != nil {
		return a, fmt.Errorf("the payload: %w", err)
	}
	a.Payload = json.RawMessage(wellFormed(payload))
	a.AgentID, a.ActionType = wellFormedText(a.AgentID), wellFormedText(a.ActionType)
	for name, text := range map[string]string{"agent": a.AgentID, "action type": a.ActionType} {
		if n := utf8.RuneCountInString(text); n == 0 || n > 256 {
			return a, fmt.Errorf("the %s must have 1 to 256 characters", name)
		}
	}
	if a.IdempotencyKey == "" && a.Statement == "" {
		a.IdempotencyKey = NewIdempotencyKey()
	}
	if len(a.IdempotencyKey) > 255 || strings.ContainsFunc(a.IdempotencyKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return a, errors.New("an idempotency key must have 1 to 255 printable ASCII characters")
	}
	return a, nil
}

// AppendJSON appends a prepared attestation as an item of a batch.
func (a Attestation) AppendJSON(dst []byte) []byte {
	dst = a.appendRequest(dst)
	if a.IdempotencyKey == "" {
		return dst
	}
	dst = appendText(append(dst[:len(dst)-1], `,"idempotencyKey":`...), a.IdempotencyKey)
	return append(dst, '}')
}

// appendRequest appends the body of POST /v1/attest.
func (a Attestation) appendRequest(dst []byte) []byte {
	dst = appendText(append(dst, `{"agentId":`...), a.AgentID)
	dst = appendText(append(dst, `,"actionType":`...), a.ActionType)
	dst = append(append(dst, `,"payload":`...), a.Payload.(json.RawMessage)...)
	if a.Delegation != "" {
		dst = appendText(append(dst, `,"delegation":`...), a.Delegation)
	}
	if a.Statement != "" {
		dst = appendText(append(dst, `,"statement":`...), a.Statement)
	}
	if a.Decide {
		dst = append(dst, `,"decide":true`...)
	}
	if a.Folder != "" {
		dst = appendText(append(dst, `,"folder":`...), a.Folder)
	}
	if a.Passport != "" {
		dst = appendText(append(dst, `,"passport":`...), a.Passport)
	}
	return append(dst, '}')
}

func appendText(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // never fails for a string
	return append(dst, quoted...)
}

// Attest appends a record and returns it. Without an error, the record is on the service's disk
// exactly once, regardless of retries, and is that of what was sent: else the error is a
// *RecordMismatchError.
func (c *Client) Attest(ctx context.Context, a Attestation) (r Record, err error) {
	own := a.IdempotencyKey == "" && a.Statement == ""
	if a, err = a.Prepare(); err != nil {
		return r, err
	}
	for {
		attest := request{method: http.MethodPost, route: "/v1/attest", status: http.StatusCreated, safe: true, body: a.appendRequest(nil)}
		if a.IdempotencyKey != "" {
			attest.header = http.Header{"Idempotency-Key": {headerKey(a.IdempotencyKey)}}
		}
		err = c.do(ctx, attest, &r)
		if err == nil {
			if err = c.compare([]Record{r}, []Attestation{a}); err != nil {
				return Record{}, err
			}
		}
		if !own || !reused(err) {
			return r, err
		}
		own, a.IdempotencyKey = false, NewIdempotencyKey()
	}
}

// reused reports whether the service knows an idempotency key from another request. The client then
// replaces a generated key once, but never a caller's.
func reused(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Code == "IDEMPOTENCY_KEY_REUSED"
}

// KeyReused is the service's error code for an idempotency key that was used for another request.
const KeyReused = "IDEMPOTENCY_KEY_REUSED"

// StatementReused is the service's error code for a statement whose jti, or whose session and
// place, another recorded statement of the key has.
const StatementReused = "STATEMENT_REUSED"

// AttestDerived is Attest with a key that the program derived from the action. If the key was used
// for another request, perhaps by an attacker, the record is appended with a new key.
func (c *Client) AttestDerived(ctx context.Context, a Attestation) (Record, error) {
	r, err := c.Attest(ctx, a)
	if errors.Is(err, &Error{Code: KeyReused}) {
		a.IdempotencyKey = NewIdempotencyKey()
		r, err = c.Attest(ctx, a)
	}
	return r, err
}

// headerKey returns the header value of a key: bare if possible, or else a quoted string (RFC 8941
// §3.3.3).
func headerKey(key string) string {
	if !strings.ContainsAny(key, "\" \\") {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// MaxBatch is the largest number of attestations in a batch.
const MaxBatch = 1000

// AttestBatch appends up to MaxBatch records, all or none, and returns them in order. The Pointer
// of an *Error names the refused one: /records/3/payload.
func (c *Client) AttestBatch(ctx context.Context, as []Attestation) ([]Record, error) {
	if len(as) == 0 || len(as) > MaxBatch {
		return nil, fmt.Errorf("a batch has 1 to %d attestations, not %d", MaxBatch, len(as))
	}
	own := map[int]bool{} // whose keys are ours, and not yet replaced
	prepared := make([]Attestation, len(as))
	for i, a := range as {
		own[i] = a.IdempotencyKey == "" && a.Statement == ""
		var err error
		if prepared[i], err = a.Prepare(); err != nil {
			return nil, fmt.Errorf("attestation %d: %w", i, err)
		}
	}
	for {
		records, err := c.sendBatch(ctx, prepared)
		at := -1
		var answer *Error
		if errors.As(err, &answer) && reused(err) {
			at = answer.item()
		}
		if !own[at] {
			return records, err
		}
		own[at], prepared[at].IdempotencyKey = false, NewIdempotencyKey()
	}
}

// item returns the index in a batch that an error names, or -1.
func (e *Error) item() int {
	rest, found := strings.CutPrefix(e.Pointer, "/records/")
	digits, _, _ := strings.Cut(rest, "/")
	if at, err := strconv.Atoi(digits); found && err == nil {
		return at
	}
	return -1
}

func (c *Client) sendBatch(ctx context.Context, as []Attestation) ([]Record, error) {
	body := []byte(`{"records":[`)
	for i, a := range as {
		if i > 0 {
			body = append(body, ',')
		}
		body = a.AppendJSON(body)
	}
	var answer struct{ Records []Record }
	err := c.do(ctx, request{
		method: http.MethodPost, route: "/v1/attest/batch", status: http.StatusCreated, safe: true, body: append(body, "]}"...),
	}, &answer)
	if err == nil && len(answer.Records) != len(as) {
		err = fmt.Errorf("%d records were sent and %d answered", len(as), len(answer.Records))
	}
	if err == nil {
		err = c.compare(answer.Records, as)
	}
	if err != nil {
		return nil, err
	}
	return answer.Records, nil
}
