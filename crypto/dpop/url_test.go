package dpop_test

import (
	"strings"
	"testing"

	"attestd/crypto/dpop"
)

// passes reports whether a proof with an htu passes for a request to url.
func passes(t testing.TB, htu, url string) bool {
	t.Helper()
	d := sound(t)
	d.claims["htu"] = htu
	_, err := dpop.Check(d.sign(t), dpop.Request{Method: "POST", URL: url, AccessToken: request.AccessToken}, "", now)
	if said := refusal(t, err); err != nil && !strings.Contains(said, "htu") {
		t.Fatal(err)
	}
	return err == nil
}

// RFC 3986 §6.2.2 and §6.2.3, and nothing beyond them.
func TestURLsAreComparedInNormalForm(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"https://a.example/v1/attest", "https://a.example/v1/attest?q=1", "https://a.example/v1/attest#f", "https://a.example/v1/attest?q#f",
			"HTTPS://A.Example/v1/attest", "https://a.example:443/v1/attest", "https://a.example:/v1/attest", "https://a.example:0443/v1/attest",
			"https://a.example/v1/./attest", "https://a.example/v1/x/../attest", "https://a.example/../v1/attest", "https://a.example/%76%31/attest",
			"https://a.example/v1/%2e/attest", "https://a.example/v1/x/%2E%2e/attest", "https://%61.example/v1/attest"},
		{"http://a.example", "http://a.example/", "http://a.example:80", "http://a.example?q", "http://a.example/.", "http://a.example/.."},
		{"https://a.example:8443/a%2fb", "https://a.example:8443/a%2Fb"},
		{"https://a.example/%c3%a9~", "https://a.example/%C3%A9%7E"},
		{"http://[::1]:8080/v1", "http://[::1]:8080/v1"},
		{"http://[FE80::1]/v1", "http://[fe80::1]:80/v1"},
		{"https://a.example/A%20B", "https://a.example/A%20B?x"},
		{"https://a.example/a%252fb", "https://a.example/a%252fb"},
	} {
		for _, htu := range same {
			for _, url := range same {
				if !passes(t, htu, url) {
					t.Errorf("%s is not %s", htu, url)
				}
			}
		}
	}
	for _, pair := range [][2]string{
		{"https://a.example/v1", "http://a.example/v1"},
		{"https://a.example/v1", "https://b.example/v1"},
		{"https://a.example/v1", "https://a.example./v1"},
		{"https://a.example/v1", "https://a.example:8443/v1"},
		{"https://a.example/v1", "https://a.example:80/v1"},
		{"https://a.example/v1", "https://a.example/v1/"},
		{"https://a.example/v1", "https://a.example/V1"},
		{"https://a.example/v1", "https://a.example//v1"},
		{"https://a.example/a/b", "https://a.example/a%2Fb"},
		{"https://a.example/a%2e%2e%2fb", "https://a.example/b"},
		{"https://a.example/a%252fb", "https://a.example/a%2fb"},
		{"https://a.example/a%2541", "https://a.example/a%41"},
		{"https://a.example/a;b", "https://a.example/a"},
		{"https://a.example/a+b", "https://a.example/a%20b"},
		{"https://a.example/a%3Fb", "https://a.example/a?b"},
		{"https://kelvin.example/", "https://%E2%84%AAelvin.example/"},
	} {
		if passes(t, pair[0], pair[1]) || passes(t, pair[1], pair[0]) {
			t.Errorf("%s is taken for %s", pair[0], pair[1])
		}
	}
}

// What is no URL of a request matches nothing, itself neither.
func TestRefusesOddURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "/", "a.example/v1", "//a.example/v1", "https:", "https://", "https:///v1", "https:a.example", "https://:443/v1", "ftp://a.example/v1",
		"wss://a.example/v1", "https://user@a.example/v1", "https://user:spoilt@a.example/v1", "https://@a.example/", "https://a.example:99999/", "https://a.example:x/",
		"https://a.example/%", "https://a.example/%4", "https://a.example/%zz", "https://a.example/%+1", "https://a.example/a b", "https://a.example/\n",
		"https://a.example/é", "https://é.example/", "https://a.example\\v1", "https://[::1/", "https://a.example/" + strings.Repeat("a", dpop.MaxURL),
		"https://%E2%84%AAelvin.example/", "https://a.example%00/", "https://a%25b.example/", "http://[fe80::1%25eth0]/", "javascript:alert(1)",
	} {
		if passes(t, url, url) {
			t.Errorf("%q is accepted", url)
		}
	}
}
