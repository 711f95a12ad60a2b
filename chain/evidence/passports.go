package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/cred/details"
	"attestd/crypto/strictjson"
)

// Passports has the control records of the passports by which records were decided.
type Passports struct{ Entries []Entry }

const (
	passportIssued  = "passport.issued"
	passportRevoked = "passport.revoked"
	agentDisabled   = "agent.disabled" // it revokes all passports of the agent
	aboutPassport   = "passport:"      // subjects, with an ID behind them
	aboutAgent      = "agent:"

	// that every call is allowed
	scopeAll, scopeTools = "*", "tool:*"
)

// decidingPassport is a passport as the control records make it.
type decidingPassport struct {
	agentID, issued string
	revoked         string // timestamp; "" while it is not
	expires         time.Time
	scopes          []string
	details         details.Details
}

// readPassports checks the control records of passports that a file has.
func (c *checker) readPassports() error {
	if c.file.Passports == nil {
		return nil
	}
	c.passports = make(map[string]*decidingPassport)
	events, err := c.events(BadDecision, c.file.Passports.Entries, func(e event) bool {
		switch e.action {
		case passportIssued, passportRevoked:
			return strings.HasPrefix(e.subject, aboutPassport)
		}
		return e.action == agentDisabled && strings.HasPrefix(e.subject, aboutAgent)
	})
	for i := 0; err == nil && i < len(events); i++ {
		if wrong := c.addPassport(&events[i]); wrong != nil {
			err = fail(BadDecision, "control record %d: %v", events[i].index, wrong)
		}
	}
	return err
}

// addPassport adds the next control record.
func (c *checker) addPassport(e *event) error {
	jti := strings.TrimPrefix(e.subject, aboutPassport)
	switch held := c.passports[jti]; {
	case e.action == passportIssued && held != nil:
		return errors.New("the passport is issued twice")
	case e.action == passportIssued:
		p, err := readPassport(e)
		c.passports[jti] = p
		return err
	case e.action == agentDisabled:
		agent := strings.TrimPrefix(e.subject, aboutAgent)
		for _, p := range c.passports {
			if p.agentID == agent && p.revoked == "" {
				p.revoked = e.timestamp
			}
		}
	case held != nil && held.revoked == "":
		held.revoked = e.timestamp
	}
	return nil
}

func readPassport(e *event) (p *decidingPassport, err error) {
	f, expires := new(form), int64(-1)
	p = &decidingPassport{agentID: e.agentID, issued: e.timestamp}
	var limits []byte
	err = strictjson.EachMember(e.payload, maxDepth, func(name, src []byte) {
		switch v := (value{f, string(name), src}); v.name {
		case "scopes":
			for _, scope := range v.list(maxEntries) {
				p.scopes = append(p.scopes, scope.text())
			}
		case "expiresAt":
			expires = v.number()
		case "authorizationDetails":
			limits = src
		}
	})
	if err == nil {
		err = f.err
	}
	if err == nil && limits != nil {
		p.details, err = details.Parse(limits)
	}
	if err == nil && (p.agentID == "" || expires < 0 || expires > maxSeconds || p.scopes == nil) {
		err = errors.New("it does not name the agent, the scopes and the end of the passport")
	}
	p.expires = time.Unix(expires, 0)
	return p, err
}

// maxSeconds is the last second of the year 9999.
const maxSeconds = 253402300799

// byPassport checks a decision against the passport that it names, where the file has that.
func (c *checker) byPassport(r *chain.Record, in *content) error {
	d := in.decision
	p := c.passports[d.Passport]
	if d.Passport == "" || p == nil {
		return nil
	}
	names, arguments := calledAs(in)
	isAnyScope := slices.ContainsFunc(p.scopes, func(scope string) bool { return scope == scopeAll || scope == scopeTools })
	inScope := isAnyScope || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p.scopes, "tool:"+name) })
	why := ""
	switch {
	case p.agentID != in.agentID:
		why = fmt.Sprintf("is of the agent %s", quoted(p.agentID))
	case isWellBefore(r.Timestamp, p.issued):
		why = "was issued later"
	case d.Verdict == decision.Deny:
		if d.Code == decision.ScopeDenied && len(names) > 0 && inScope {
			why = "has a scope for it, and the decision denies that"
		}
	case p.revoked != "" && isWellBefore(p.revoked, r.Timestamp):
		why = "was revoked before"
	case isWellBefore(chain.FormatTime(p.expires), r.Timestamp):
		why = "had expired"
	case len(names) > 0 && !inScope:
		why = "has no scope for it"
	case len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return p.details.Covers(name, arguments) }):
		why = "has no authorization details that cover it"
	}
	if why != "" {
		return fail(BadDecision, "the decision of record %d names a passport that %s", r.Index, why)
	}
	if c.session == nil && c.ofPeriod == nil {
		c.addChecked("decided by the passport %s, which was issued at %s", d.Passport, p.issued)
	}
	return nil
}

// calledAs returns the names under which scopes and details may cover the tool that a record calls,
// and its arguments; no names where it calls none, or a record of a decision that was not checked
// for one.
func calledAs(in *content) (names []string, arguments []byte) {
	call := readTool(in)
	tool := call.tool
	if arguments = call.arguments; !call.isCall {
		is := false
		if tool, arguments, is = calledByDecision(in); !is {
			return nil, nil
		}
	}
	names = append(names, tool)
	if server, name, has := strings.Cut(tool, "/"); has {
		names = append(names, name)
		if call.isCall { // as coding agents name it
			names = append(names, "mcp__"+server+"__"+name)
		}
	}
	return names, arguments
}

// calledByDecision returns the tool that a record of a decision at another door is about, and the
// arguments.
func calledByDecision(in *content) (tool string, arguments []byte, is bool) {
	if in.actionType != decision.AuthorizationDenied && in.actionType != decision.AuthorizationAllowed {
		return "", nil, false
	}
	asked, kind := "", ""
	err := strictjson.EachMember(in.payload, maxDepth, func(name, src []byte) {
		switch string(name) {
		case "action":
			asked, _ = strictjson.AsString(src)
		case "arguments":
			arguments = canonical(src)
		case "resource":
			// of what is no object nothing is read
			_ = strictjson.EachMember(src, maxDepth, func(name, src []byte) {
				switch string(name) {
				case "type":
					kind, _ = strictjson.AsString(src)
				case "id":
					tool, _ = strictjson.AsString(src)
				}
			})
		}
	})
	return tool, arguments, err == nil && asked == "call" && kind == "tool"
}

func (v value) passports() *Passports {
	if v.src == nil {
		return nil
	}
	return &Passports{v.object([]string{"records"})["records"].entries()}
}
