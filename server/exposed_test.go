package server

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"attestd/server/api"
	"attestd/server/limit"
	"attestd/server/stream"
	"attestd/store/ledger"
)

// Of a running server the settings in force count, also after they were read again.
func TestExposedListsAnonymousAccess(t *testing.T) {
	t.Parallel()
	public, loopback := &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}, &net.TCPAddr{IP: net.ParseIP("127.0.0.1")}
	limits := limit.Limits{Standard: 1, Sensitive: 1, Attest: 1, Log: 1, Company: 1}
	for _, c := range []struct {
		stream stream.Mode
		live   Live
		flags  string // that the sentences name
	}{
		{stream.Off, Live{Limits: limits, Registration: api.Registration{Mode: api.RegistrationClosed}}, ""},
		{stream.Off, Live{Limits: limits, Quotas: ledger.Quotas{AllBytes: 1}}, ""},
		{stream.Open, Live{Limits: limits, Registration: api.Registration{Mode: api.RegistrationClosed}}, "--stream"},
		{stream.Off, Live{Limits: limits}, "--max-total-bytes and --registration"},
		{stream.Off, Live{Registration: api.Registration{Mode: api.RegistrationClosed}}, "--rate-limits"},
	} {
		s := &status{Config: Config{Stream: c.stream, BaseURL: "https://attest.example.com"}, live: new(atomic.Pointer[Live])}
		s.live.Store(&c.live)
		if text := s.inForce().Exposed(loopback); len(text) > 0 {
			t.Errorf("%+v on loopback: %q", c.live, text)
		}
		var flags []string
		for _, sentence := range s.inForce().Exposed(public) {
			_, flag, _ := strings.Cut(sentence, "see ")
			flags = append(flags, flag)
		}
		if got := strings.Join(flags, " "); got != c.flags {
			t.Errorf("%+v: %q, want %q", c.live, got, c.flags)
		}
	}
	nameless := Config{Live: Live{Limits: limits, Registration: api.Registration{Mode: api.RegistrationClosed}}, Stream: stream.Off}
	if text := nameless.Exposed(public); len(text) != 1 || !strings.HasSuffix(text[0], "see --base-url") {
		t.Errorf("without a name: %q", text)
	}
	if text := nameless.Exposed(loopback); len(text) != 0 {
		t.Errorf("without a name on loopback: %q", text)
	}
}
