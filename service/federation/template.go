package federation

import (
	"errors"
	"fmt"
	"strings"

	"attestd/crypto/cred"
	"attestd/crypto/idtoken"
	"attestd/crypto/strictjson"
)

// template is an agent's or a person's ID with claims in it: text, claim, text, claim, …, text.
type template struct {
	of     string   // anAgent or aPerson
	texts  []string // one more than claims
	claims []string
}

// Whose ID a template is.
const (
	anAgent = "agent"
	aPerson = "person"
)

// newTemplate reads a template whose claims are among those that the rule matches. The error
// completes a sentence.
func newTemplate(text, of string, matched map[string]bool) (t template, err error) {
	t.of = of
	if text == "" || len(text) > maxTemplate {
		return t, fmt.Errorf("must have 1 to %d bytes", maxTemplate)
	}
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return t, errors.New("has a } without a {")
		}
		if found && before == "" && len(t.claims) > 0 {
			return t, errors.New("must have text between two claims, so that two claims never give one ID")
		}
		t.texts = append(t.texts, before)
		if !found {
			break
		}
		claim, behind, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return t, errors.New("has a { without a }")
		case !matched[claim]:
			return t, errors.New("must have claims of match alone, so that the rule says what they can be")
		}
		t.claims, rest = append(t.claims, claim), behind
	}
	// what is not from a claim must be a part of a path by itself
	if err := cred.CheckSegment(strings.Join(t.texts, "x")); err != nil {
		return t, err
	}
	return t, nil
}

// fill returns the ID for the claims of a token. The error is a *Refusal.
func (t template) fill(claims idtoken.Claims) (string, error) {
	id := t.texts[0]
	for i, claim := range t.claims {
		value, is := claims.At(claim)
		text, ok := asText(value)
		behind := t.texts[i+1]
		more := i+1 < len(t.claims)
		switch {
		case !is || !ok:
			return "", t.unfit(claim)
		case strings.Contains(text, "__") || strings.Contains(text, "_/") || strings.Contains(text, "/_"):
			return "", t.unfit(claim)
		}
		text = strings.ReplaceAll(text, "/", "__")
		if more && strings.Contains(text, behind[:1]) {
			return "", t.unfit(claim)
		}
		id += text + behind
	}
	if cred.CheckSegment(id) != nil {
		if len(t.claims) == 0 {
			return "", &Refusal{"the rule has no " + t.of + "'s ID"}
		}
		return "", t.unfit(strings.Join(t.claims, ", "))
	}
	return id, nil
}

func asText(value []byte) (string, bool) {
	if _, number := strictjson.AsInteger(value); number {
		return string(value), true
	}
	text, is := strictjson.AsString(value)
	return text, is && text != ""
}

func (t template) unfit(claim string) error {
	return &Refusal{"the claim " + claim + " cannot be a part of " + map[string]string{anAgent: "an agent", aPerson: "a person"}[t.of] + "'s ID: match another claim, or name the " + t.of + " in the rule"}
}
