package limit

import (
	"strings"
	"testing"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	good := map[string]Limits{
		"off":                                   {},
		"sensitive=10,attest=100,standard=1000": {Sensitive: 10, Attest: 100, Standard: 1000, Log: 6000, Company: 10},
		"attest=7":                              {Sensitive: 10, Attest: 7, Standard: 1000, Log: 6000, Company: 10},
		"standard=1, sensitive=1000000":         {Sensitive: 1_000_000, Attest: 100, Standard: 1, Log: 6000, Company: 10},
		"company=3":                             {Sensitive: 10, Attest: 100, Standard: 1000, Log: 6000, Company: 3},
	}
	for in, want := range good {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	bad := map[string]string{ // to what the error must speak of
		"":                      "tier=number or off",
		"on":                    "tier=number or off",
		"attest=1,off":          "tier=number or off",
		"attest=1,":             "tier=number or off",
		"atest=1":               "sensitive, attest, standard and log",
		"attest=0":              "from 1 to 1000000",
		"attest=-1":             "from 1 to 1000000",
		"attest=1000001":        "from 1 to 1000000",
		"company=0":             "from 1 to 1000",
		"company=1001":          "company must be a number from 1 to 1000",
		"company=1,company=2":   "twice",
		"attest=ten":            `not "ten"`,
		"attest=1,attest=2":     "twice",
		"attest=99999999999999": "from 1 to 1000000",
	}
	for in, want := range bad {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want one that says %q", in, err, want)
		}
	}
}
