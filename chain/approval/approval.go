// Package approval is what a person signs to allow or refuse one call: an object, the challenge
// that their passkey signs for it, and the check of that signature without a server.
//
// # Object
//
// The object of an approval is one JSON object with exactly these members:
//
//	approvalId  apr_ and the base64url of 128 bits, 22 characters without padding
//	log         origin of the company's log of actions, as statements of version 2 name it
//	index       of the record that is approved: a tool.requested that was decided ask, or an
//	            approval.requested
//	hash        of that record, in lower-case hex
//	agentId     who asked
//	tool        which tool; the action type where the record is of no tool
//	person      personId of who decides
//	verdict     approve or deny
//	uses        how often the call may run, 1 to 1,000
//	expiresAt   when the approval ends, a timestamp
//	reason      a string, or null
//
// Numbers are whole and in digits alone. The challenge is the SHA-256 of the line
// "attestd approval v1" with its line feed, and the RFC 8785 form of the object.
//
// # Assertion
//
// The person's passkey signs the challenge: an assertion of WebAuthn level 3, as package passkey
// checks it. Its clientDataJSON names the origin of the page. That is https and a host name, or
// http://localhost, each with a port or without. The relying party is that host: a checker without
// a server knows no other, and an authenticator signs for none but the one that it was enrolled
// for.
package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/passkey"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
)

// The verdicts of a person.
const (
	Approve = "approve"
	Deny    = "deny"
)

// Bounds of an object.
const (
	MaxUses  = 1_000
	maxIndex = 1<<53 - 1
	maxDepth = 2

	idBytes = 16
	prefix  = "apr_"
	heading = "attestd approval v1\n"
)

// Object is what a person approves or denies.
type Object struct {
	ApprovalID string  `json:"approvalId"`
	Log        string  `json:"log"`
	Index      int64   `json:"index"`
	Hash       string  `json:"hash"`
	AgentID    string  `json:"agentId"`
	Tool       string  `json:"tool"`
	Person     string  `json:"person"`
	Verdict    string  `json:"verdict"`
	Uses       int64   `json:"uses"`
	ExpiresAt  string  `json:"expiresAt"`
	Reason     *string `json:"reason"`
}

var (
	personForm = lazyregexp.New(`^[A-Za-z0-9._-]{1,64}$`)
	originForm = lazyregexp.New(`^(?:https://([a-z0-9.-]{1,253})|http://(localhost))(?::[0-9]{1,5})?$`)
	hexForm    = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// FormatID returns the ID of an approval.
func FormatID(random [idBytes]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// IsID reports whether a text can be the ID of an approval.
func IsID(text string) bool {
	if len(text) != len(prefix)+22 || text[:len(prefix)] != prefix {
		return false
	}
	random, err := base64.RawURLEncoding.DecodeString(text[len(prefix):])
	return err == nil && len(random) == idBytes && FormatID([idBytes]byte(random)) == text
}

// Parse reads an object with the members of the package comment and no others. Any spelling of JSON
// is one, so that a record may have it in its own form.
func Parse(text []byte) (*Object, error) {
	o := new(Object)
	ok, count := true, 0
	texts := map[string]*string{
		"approvalId": &o.ApprovalID, "log": &o.Log, "hash": &o.Hash, "agentId": &o.AgentID, "tool": &o.Tool, "person": &o.Person, "verdict": &o.Verdict, "expiresAt": &o.ExpiresAt,
	}
	numbers := map[string]*int64{"index": &o.Index, "uses": &o.Uses}
	err := strictjson.EachMember(text, maxDepth, func(name, value []byte) {
		count++
		read := false
		if at := texts[string(name)]; at != nil {
			*at, read = strictjson.AsString(value)
		} else if at := numbers[string(name)]; at != nil {
			*at, read = strictjson.AsInteger(value)
		} else if string(name) == "reason" {
			var reason string
			if reason, read = strictjson.AsString(value); read {
				o.Reason = &reason
			}
			read = read || string(value) == "null"
		}
		ok = ok && read
	})
	if err != nil || !ok || count != len(texts)+len(numbers)+1 {
		return nil, errors.New("the object of the approval has not exactly its members")
	}
	return o, o.check()
}

// check checks what the members say, each by itself.
func (o *Object) check() error {
	matches := func(form func() *regexp.Regexp, text string) bool { return form().MatchString(text) }
	wrong := ""
	switch {
	case !IsID(o.ApprovalID):
		wrong = "approvalId"
	case o.Log == "":
		wrong = "log"
	case o.Index < 0 || o.Index > maxIndex:
		wrong = "index"
	case !matches(hexForm, o.Hash):
		wrong = "hash"
	case o.AgentID == "":
		wrong = "agentId"
	case o.Tool == "":
		wrong = "tool"
	case !matches(personForm, o.Person):
		wrong = "person"
	case o.Verdict != Approve && o.Verdict != Deny:
		wrong = "verdict"
	case o.Uses < 1 || o.Uses > MaxUses:
		wrong = "uses"
	case !chain.IsTimestamp(o.ExpiresAt):
		wrong = "expiresAt"
	default:
		return nil
	}
	return fmt.Errorf("the object of the approval has no valid %s", wrong)
}

// Append appends the RFC 8785 form of the object.
func (o *Object) Append(dst []byte) []byte {
	text := func(name, value string) { dst = jcs.AppendString(append(append(dst, name...), ':'), value) }
	number := func(name string, value int64) { dst = strconv.AppendInt(append(append(dst, name...), ':'), value, 10) }
	text(`{"agentId"`, o.AgentID)
	text(`,"approvalId"`, o.ApprovalID)
	text(`,"expiresAt"`, o.ExpiresAt)
	text(`,"hash"`, o.Hash)
	number(`,"index"`, o.Index)
	text(`,"log"`, o.Log)
	text(`,"person"`, o.Person)
	if o.Reason == nil {
		dst = append(dst, `,"reason":null`...)
	} else {
		text(`,"reason"`, *o.Reason)
	}
	text(`,"tool"`, o.Tool)
	number(`,"uses"`, o.Uses)
	text(`,"verdict"`, o.Verdict)
	return append(dst, '}')
}

// Challenge returns what the person's passkey signs.
func (o *Object) Challenge() []byte {
	sum := sha256.Sum256(o.Append([]byte(heading)))
	return sum[:]
}

// Names reports whether the object is of a record.
func (o *Object) Names(origin string, index int64, hash chain.Hash) bool {
	return o.Log == origin && o.Index == index && o.Hash == hex.EncodeToString(hash[:])
}

// Verify checks that the passkey has signed the object, and returns the origin of the page. A
// server knows its own origin, and compares it; "" is any that the package comment allows.
func Verify(o *Object, a *passkey.Assertion, key *passkey.Key, origin string) (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	if origin == "" {
		origin = originOf(a.ClientDataJSON)
	}
	host := originForm().FindStringSubmatch(origin)
	if host == nil {
		return "", errors.New("origin is no page of a relying party")
	}
	_, err := key.Verify(a, passkey.Expected{RPID: host[1] + host[2], Origins: []string{origin}, Challenge: o.Challenge()})
	return origin, err
}

// originOf returns what clientDataJSON names as its page; "" where that is no string.
func originOf(clientData []byte) (origin string) {
	if len(clientData) > passkey.MaxClientData {
		return ""
	}
	_ = strictjson.EachMember(clientData, clientDepth, func(name, value []byte) {
		if string(name) == "origin" {
			origin, _ = strictjson.AsString(value)
		}
	})
	return origin
}

const clientDepth = 8 // as package passkey has it
