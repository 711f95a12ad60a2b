package federation

import (
	"fmt"
	"regexp"
	"strings"

	"attestd/crypto/idtoken"
	"attestd/crypto/strictjson"
)

// star is what a * matches.
const star = `[A-Za-z0-9._~+-]+`

func (c condition) matches(claims idtoken.Claims) bool {
	value, is := claims.At(c.claim)
	if !is {
		return false
	}
	if c.pattern == nil {
		return string(value) == c.literal
	}
	text, is := strictjson.AsString(value)
	return is && c.pattern.MatchString(text)
}

// newCondition reads the value that a claim must have. The error completes a sentence.
func newCondition(claim string, value []byte) (condition, error) {
	c := condition{claim: claim}
	switch {
	case claim == "" || len(claim) > maxClaim:
		return c, fmt.Errorf("must name a claim with 1 to %d bytes", maxClaim)
	case strings.HasPrefix(claim, "/") && strings.Count(claim, "/") < 2:
		return c, fmt.Errorf("must be a pointer of two parts or more, or the name of a claim without /")
	}
	text, is := strictjson.AsString(value)
	if !is {
		n, number := strictjson.AsInteger(value)
		if number && n > maxNumber {
			return c, fmt.Errorf("must be at most 2⁵³, or a string")
		}
		if literal := string(value); number || literal == "true" || literal == "false" {
			c.literal = literal
			return c, nil
		}
		return c, fmt.Errorf("must be a string, true, false or a whole number")
	}
	switch {
	case text == "" || len(text) > maxValue:
		return c, fmt.Errorf("must have 1 to %d bytes", maxValue)
	case strings.Count(text, "*") > maxStars:
		return c, fmt.Errorf("must have at most %d *", maxStars)
	case strings.Contains(text, "**"):
		return c, fmt.Errorf("must not have ** : a * never crosses a separator")
	}
	parts := strings.Split(text, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	pattern, err := regexp.Compile(`\A(?:` + strings.Join(parts, star) + `)\z`)
	if err != nil { // of text that is no UTF-8, which JSON is not
		return c, fmt.Errorf("must be text")
	}
	c.pattern = pattern
	return c, nil
}

// ownerParts is how many whole parts a pattern of an identifying claim must begin with; -1 for a
// claim that must have no pattern.
var ownerParts = map[string]int{
	"sub": 2, "repository": 1, "project_path": 1,
	"repository_id": -1, "project_id": -1, "/kubernetes.io/serviceaccount/uid": -1,
}

// ownerless begin subjects whose first two parts name no owner.
var ownerless = []string{"system:serviceaccount:", "spiffe://"}

// identifies reports whether a match on a claim lets in one owner's workloads alone.
func identifies(claim string, value []byte) bool {
	parts, known := ownerParts[claim]
	text, is := strictjson.AsString(value)
	if !known {
		return false
	}
	if !is { // a number
		return claim != "sub" && string(value) != "true" && string(value) != "false"
	}
	before, _, pattern := strings.Cut(text, "*")
	if !pattern {
		return true
	}
	if claim == "sub" {
		for _, prefix := range ownerless {
			if strings.HasPrefix(text, prefix) {
				parts++
			}
		}
	}
	if parts < 0 || !strings.HasSuffix(before, "/") && !strings.HasSuffix(before, ":") {
		return false
	}
	whole := strings.FieldsFunc(before, func(r rune) bool { return r == '/' || r == ':' })
	return len(whole) >= parts
}
