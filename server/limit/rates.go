package limit

import (
	"fmt"
	"strconv"
	"strings"
)

// Tier is the rate limit that applies to a route.
type Tier int

const (
	Standard Tier = iota
	Sensitive
	Attest
	Log // reads of a log by tools: a full check makes hundreds of small requests

	tiers = iota
)

// Limits are the maximum numbers of requests of one credential or address in any 60 seconds, by
// tier. A tier of zero has no limit.
type Limits struct {
	Sensitive, Attest, Standard, Log int
	// factor for the limits of a company over all its credentials; 0 for no bound
	Company int
}

// String returns the limits in the format of Parse.
func (l Limits) String() string {
	if l == (Limits{}) {
		return "off"
	}
	return fmt.Sprintf("sensitive=%d,attest=%d,standard=%d,log=%d,company=%d", l.Sensitive, l.Attest, l.Standard, l.Log,
		l.Company)
}

const (
	maxLimit   = 1_000_000 // keeps a counter's log within 8 MB
	maxCompany = 1000
)

// Parse parses "sensitive=10,attest=100,standard=1000,log=6000,company=10" in any order, or "off".
// What is omitted has the value shown here. A tier is from 1 to 1,000,000, company from 1 to 1,000.
func Parse(s string) (Limits, error) {
	if s == "off" {
		return Limits{}, nil
	}
	l := Limits{Sensitive: 10, Attest: 100, Standard: 1000, Log: 6000, Company: 10}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return Limits{}, fmt.Errorf("want tier=number or off, not %q", part)
		}
		var limit *int
		most := maxLimit
		switch name {
		case "sensitive":
			limit = &l.Sensitive
		case "attest":
			limit = &l.Attest
		case "standard":
			limit = &l.Standard
		case "log":
			limit = &l.Log
		case "company":
			limit, most = &l.Company, maxCompany
		default:
			return Limits{}, fmt.Errorf("unknown tier %q; the tiers are sensitive, attest, standard and log, and company is their factor", name)
		}
		if seen[name] {
			return Limits{}, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > most {
			return Limits{}, fmt.Errorf("%s must be a number from 1 to %d, not %q", name, most, value)
		}
		*limit = n
	}
	return l, nil
}
