package server

import (
	"net/http"
	"testing"
)

func TestOwnOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		origins []string
		host    string
		proto   string // X-Forwarded-Proto
		want    bool
	}{
		{nil, "a.example", "", true},
		{[]string{"http://a.example"}, "a.example", "", true},
		{[]string{"http://A.example"}, "a.EXAMPLE", "", true},
		{[]string{"http://a.example:8080"}, "a.example:8080", "", true},
		{[]string{"http://[::1]:8080"}, "[::1]:8080", "", true},
		{[]string{"https://a.example"}, "a.example", "https", true},
		{[]string{"https://a.example"}, "a.example", "", true}, // TLS ends at a proxy that says nothing
		{[]string{"https://a.example"}, "a.example:443", "https", true},
		{[]string{"http://a.example"}, "a.example:80", "", true},
		{[]string{"http://a.example"}, "a.example", "https", false}, // anyone on the way could have written that page
		{[]string{"http://b.example"}, "a.example", "", false},
		{[]string{"http://a.example.b.example"}, "a.example", "", false},
		{[]string{"http://a.example:8081"}, "a.example:8080", "", false},
		{[]string{"http://a.example:443"}, "a.example", "", false},
		{[]string{"http://a.example", "http://b.example"}, "a.example", "", false},
		{[]string{"null"}, "a.example", "", false},
		{[]string{""}, "", "", false},
		{[]string{"http://"}, "", "", false},
		{[]string{"ftp://a.example"}, "a.example", "", false},
		{[]string{"http://a.example/"}, "a.example", "", false},
		{[]string{"http://b.example@a.example"}, "a.example", "", false},
		{[]string{"chrome-extension://a.example"}, "a.example", "", false},
	} {
		r := &http.Request{Host: tt.host, Header: http.Header{"Origin": tt.origins, "X-Forwarded-Proto": {tt.proto}}}
		if len(tt.origins) == 0 {
			r.Header.Del("Origin")
		}
		if got := ownOrigin(r); got != tt.want {
			t.Errorf("Origin %q, Host %q, proto %q: %v", tt.origins, tt.host, tt.proto, got)
		}
	}
}
