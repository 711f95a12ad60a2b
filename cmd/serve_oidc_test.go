package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
)

// The flags of the identity provider belong together, and what they name is checked at the start.
func TestIdentityProviderFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	secret, rules := file("secret", "x\n"), file("rules", `[{"match":{"hd":"acme.example"},"companyId":"acme"}]`)
	c, err := oidcFlags{"https://idp.example", "attestd", secret, rules}.config(false)
	if err != nil || c.Secret != "x" || c.Rules == nil || c.Issuer != "https://idp.example" || c.ClientID != "attestd" {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err := (oidcFlags{}).config(false); c != nil || err != nil {
		t.Errorf("without flags: %v, %v", c, err)
	}
	if _, err := (oidcFlags{"http://localhost:9", "attestd", secret, ""}).config(true); err != nil {
		t.Errorf("http on this machine: %v", err)
	}
	for want, f := range map[string]oidcFlags{
		"require each other":        {"https://idp.example", "attestd", "", ""},
		"--oidc-rules requires":     {"", "", "", rules},
		"an https URL":              {"http://localhost:9", "attestd", secret, ""},
		"a fragment":                {"https://idp.example#x", "attestd", secret, ""},
		"without a query":           {"https://idp.example?x", "attestd", secret, ""},
		"not public":                {"https://10.0.0.1", "attestd", secret, ""},
		"no such file":              {"https://idp.example", "attestd", secret + "2", ""},
		"1 to 4096":                 {"https://idp.example", "attestd", file("empty", "\n"), ""},
		"/0/companyId":              {"https://idp.example", "attestd", secret, file("wrong", `[{"match":{"hd":"a"}}]`)},
		"the rules must be":         {"https://idp.example", "attestd", secret, file("none", `{}`)},
		"has more than 65536 bytes": {"https://idp.example", "attestd", secret, file("long", strings.Repeat(" ", 80<<10))},
	} {
		if _, err := f.config(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := (oidcFlags{"http://idp.example", "attestd", secret, ""}).config(true); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("http elsewhere: %v", err)
	}
}
