package webhook

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"syscall"
	"testing"

	"attestd/internal/outbound"
	"attestd/internal/outbound/outboundtest"
)

// A name that resolves first to a public address and then to one of this machine (DNS rebinding)
// reaches nothing here, because the address of each connection is checked. Nor does a name that
// always has such an address, however it is written.
func TestRebinding(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 10)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Host }))
	defer srv.Close()
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	url := "https://rebinding.example:" + netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)).String()[len("0.0.0.0:"):] + "/"

	errPublic := errors.New("this test connects to nothing outside")
	for _, answers := range [][]string{
		{"93.184.215.14", "127.0.0.1"},
		{"2606:2800:21f:cb07::1", "::1"},
		{"127.0.0.1"}, {"::1"}, {"0.0.0.0"}, {"::ffff:127.0.0.1"}, {"64:ff9b::7f00:1"}, {"169.254.169.254"},
	} {
		o := Options{Resolver: outboundtest.Resolver(t, answers...), Roots: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		g := outbound.NewGuard(false)
		outside := 0
		c := newClient(o, g, &net.Dialer{Resolver: o.Resolver, Control: func(network, address string, raw syscall.RawConn) error {
			if err := g.Allow(network, address, raw); err != nil {
				return err
			}
			outside++
			return errPublic
		}})
		if err := c.CheckURL(url); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys())
			want := "the address is not public"
			if len(answers) == 2 && i == 0 {
				want = "no answer"
			}
			if o.Failure != want {
				t.Errorf("%v, attempt %d: %+v", answers, i, o)
			}
		}
		if outside != len(answers)-1 {
			t.Errorf("%v: %d connections to a public address", answers, outside)
		}
	}
	// The same endpoint is reached where the operator allows it: the test above shows something.
	c := NewClient(Options{AllowPrivate: true, Resolver: outboundtest.Resolver(t, "127.0.0.1")})
	c.http.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	if o := c.Send(t.Context(), url, Message{ID: "msg_1"}, NewKeys()); !o.Delivered() || len(reached) != 1 {
		t.Errorf("%+v, %d requests", o, len(reached))
	}
	c.Close()
}
