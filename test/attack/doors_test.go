package attack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"attestd/internal/harness"
)

// The endpoints that accept a token.
const (
	doorVerify     = "POST /v1/passport/verify"
	doorRotate     = "POST /v1/agents/{agentId}/passport/rotate"
	doorDelegation = "POST /v1/attest, delegation"
	doorSubject    = "POST /v1/token/exchange, subject_token"
	doorActor      = "POST /v1/token/exchange, actor_token"
	// of the same exchange at the token endpoint, which nests as RFC 8693 says
	doorStandardSubject = "POST /v1/oauth/token, subject_token"
	doorStandardActor   = "POST /v1/oauth/token, actor_token"
)

var doors = []string{doorVerify, doorRotate, doorDelegation, doorSubject, doorActor, doorStandardSubject, doorStandardActor}

// present creates the request that presents a token to an endpoint; svid is a valid one, for other
// members of the request. ok is false if no request can carry the token unchanged: a header has no
// control characters, and is trimmed.
func present(door, token, svid string) (r harness.Request, ok bool) {
	exchange := object{
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token_type":   "urn:ietf:params:oauth:token-type:jwt",
		"actor_token_type":     "urn:ietf:params:oauth:token-type:jwt",
		"subject_token":        svid,
		"actor_token":          svid,
		"requested_token_type": "urn:ietf:params:oauth:token-type:jwt",
	}
	r.Method = "POST"
	switch door {
	case doorVerify:
		r.Path, r.Body = "/v1/passport/verify", string(marshal(object{"passport": token}))
	case doorRotate:
		r.Path, r.Header = "/v1/agents/deploy-bot/passport/rotate", []string{"Service-Passport: " + token}
		return r, strings.Trim(token, " \t") == token && len(token) < 512<<10 &&
			!strings.ContainsFunc(token, func(c rune) bool { return c < ' ' || c == 0x7f })
	case doorDelegation:
		r.Path, r.Body = "/v1/attest", string(marshal(object{"agentId": "deploy-bot", "actionType": "forged", "payload": 1,
			"delegation": token}))
	case doorSubject:
		r.Path, r.Body = "/v1/token/exchange", string(marshal(with(exchange, "subject_token", token)))
	case doorActor:
		r.Path, r.Body = "/v1/token/exchange", string(marshal(with(exchange, "actor_token", token)))
	case doorStandardSubject, doorStandardActor:
		name := "subject_token"
		if door == doorStandardActor {
			name = "actor_token"
		}
		r.Path, r.Body = "/v1/oauth/token", string(marshal(with(exchange, name, token)))
		r.Header = []string{"Content-Type: application/json"}
	}
	return r, true
}

var code = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)

// refusal describes what is wrong with the response to a token that must be refused, or returns "".
func refusal(door string, a harness.Answer) string {
	var body struct {
		Valid *bool
		Error string
		Code  string
	}
	switch {
	case a.Status < 400 || a.Status >= 500:
		return fmt.Sprintf("is answered %d: %.200s", a.Status, a.Body)
	case json.Unmarshal(a.Body, &body) != nil || body.Error == "":
		return fmt.Sprintf("is refused with %.200s", a.Body)
	case door == doorVerify && (a.Status != 400 || body.Valid == nil || *body.Valid):
		return fmt.Sprintf("is answered %d with %.200s", a.Status, a.Body)
	case (door == doorVerify || door == doorRotate && a.Status == 401) && !code.MatchString(body.Code):
		return fmt.Sprintf("is refused with the code %q", body.Code)
	}
	return ""
}
