package httpapi

import (
	"net/http"
	"net/netip"
	"testing"
)

// A page is the server's own by the server's configuration, never by what the request claims. That
// Origin equals Host proves nothing: an attacker's page can be served under a name that is bound to
// the server's address afterwards.
func TestCheckOrigin(t *testing.T) {
	t.Parallel()
	s := &API{BaseURL: "https://attest.example.com"}
	s.Set([]string{"https://pages.example.com", "http://A.example:8081"}, AccessAll)
	s.Listening = netip.MustParseAddrPort("127.0.0.1:8080")
	for _, tt := range []struct {
		origins []string
		host    string
		want    bool
	}{
		{nil, "anything.example", true}, // no browser
		{[]string{"http://127.0.0.1:8080"}, "127.0.0.1:8080", true},
		{[]string{"http://127.9.9.9:8080"}, "x", true},
		{[]string{"http://localhost:8080"}, "127.0.0.1:8080", true},
		{[]string{"http://LOCALHOST:8080"}, "127.0.0.1:8080", true},
		{[]string{"http://[::1]:8080"}, "[::1]:8080", true},
		{[]string{"https://attest.example.com"}, "10.0.0.1", true},
		{[]string{"https://pages.example.com"}, "10.0.0.1", true},
		{[]string{"http://a.example:8081"}, "10.0.0.1", true},

		{[]string{"http://a.example:8080"}, "a.example:8080", false}, // a rebound name
		{[]string{"http://localhost.a.example:8080"}, "localhost.a.example:8080", false},
		// another server of this machine
		{[]string{"http://127.0.0.1:8081"}, "127.0.0.1:8080", false},
		{[]string{"http://127.0.0.1"}, "127.0.0.1:8080", false},
		{[]string{"http://localhost:08080"}, "127.0.0.1:8080", false},
		{[]string{"https://127.0.0.1:8080"}, "127.0.0.1:8080", false}, // we speak plain HTTP
		{[]string{"http://attest.example.com"}, "attest.example.com", false},
		{[]string{"https://attest.example.com:444"}, "attest.example.com", false},
		{[]string{"https://attest.example.com.evil.example"}, "attest.example.com", false},
		{[]string{"http://127.0.0.1:8080", "http://127.0.0.1:8080"}, "127.0.0.1:8080", false},
		{[]string{"http://user@127.0.0.1:8080"}, "127.0.0.1:8080", false},
		{[]string{"http://127.0.0.1:8080/"}, "127.0.0.1:8080", false},
		{[]string{"null"}, "127.0.0.1:8080", false},
		{[]string{""}, "127.0.0.1:8080", false},
		{[]string{"http://"}, "", false},
		{[]string{"chrome-extension://localhost:8080"}, "localhost:8080", false},
	} {
		r := &http.Request{Host: tt.host, Header: http.Header{}}
		if tt.origins != nil {
			r.Header["Origin"] = tt.origins
		}
		if err := s.checkOrigin(r); (err == nil) != tt.want {
			t.Errorf("Origin %q, Host %q: %v", tt.origins, tt.host, err)
		}
	}
}
