package httpapi

import (
	"errors"
	"net/url"
	"strings"
)

// ReadQuery parses the query into its declared parameters. It applies the route's policy to others.
// If the policy is lenient, a malformed parameter counts as absent, and the first of two with the
// same name counts.
func (c *Call) ReadQuery(form *Form, policy Undeclared) error {
	if c.URL.RawQuery == "" {
		return nil
	}
	c.Query = url.Values{}
	for pair := range strings.SplitSeq(c.URL.RawQuery, "&") {
		if pair == "" {
			continue
		}
		name, value, err := decodePair(pair)
		if err != nil {
			if policy != Lenient {
				return BadQuery("the query is malformed; " + err.Error())
			}
			continue
		}
		if !form.Declares("query", name) {
			if err := form.refuseQuery(name, policy); err != nil {
				return err
			}
			continue
		}
		if c.Query.Has(name) {
			if policy != Lenient {
				return BadQuery(name + " is given more than once")
			}
			continue
		}
		c.Query.Set(name, value)
	}
	return nil
}

// errSemicolon refuses a separator that some parsers treat like an ampersand, and net/url rejects.
var errSemicolon = errors.New("a semicolon must be written as %3B")

func decodePair(pair string) (name, value string, err error) {
	if strings.Contains(pair, ";") {
		return "", "", errSemicolon
	}
	name, value, _ = strings.Cut(pair, "=")
	if name, err = url.QueryUnescape(name); err == nil {
		value, err = url.QueryUnescape(value)
	}
	return name, value, err
}
