package outbound

import (
	"net/netip"
	"strings"
	"testing"
)

// Addresses that are not public are refused in every spelling; with the permission of the operator
// those of private networks and of this machine are not, and those where clouds give out
// credentials still are.
func TestAddresses(t *testing.T) {
	t.Parallel()
	public, all := NewGuard(false), NewGuard(true)
	for text, allowed := range map[string]struct{ public, private bool }{
		"93.184.215.14":               {true, true},
		"2606:2800:21f:cb07::1":       {true, true},
		"::ffff:93.184.215.14":        {true, true},
		"127.0.0.1":                   {false, true},
		"127.8.7.6":                   {false, true},
		"::1":                         {false, true},
		"10.1.2.3":                    {false, true},
		"172.16.0.1":                  {false, true},
		"192.168.1.1":                 {false, true},
		"fd12:3456::1":                {false, true},
		"::ffff:127.0.0.1":            {false, true},
		"::ffff:10.0.0.1":             {false, true},
		"0.0.0.0":                     {},
		"::":                          {},
		"::ffff:0.0.0.0":              {},
		"169.254.169.254":             {}, // metadata
		"::ffff:169.254.169.254":      {},
		"fd00:ec2::254":               {}, // metadata
		"fe80::1":                     {},
		"fe80::1%eth0":                {},
		"fec0::1":                     {},
		"100.64.0.1":                  {}, // carriers, and other clouds' metadata
		"100.100.100.200":             {},
		"192.0.2.1":                   {},
		"198.18.0.1":                  {},
		"224.0.0.1":                   {},
		"255.255.255.255":             {},
		"ff02::1":                     {},
		"64:ff9b::7f00:1":             {}, // NAT64 of 127.0.0.1
		"64:ff9b::a9fe:a9fe":          {},
		"64:ff9b:1::a00:1":            {},
		"2002:7f00:1::":               {}, // 6to4 of 127.0.0.1
		"2001:0:4136:e378::80ff:fffe": {}, // Teredo
		"::127.0.0.1":                 {},
		"2001:db8::1":                 {},
	} {
		ip := netip.MustParseAddr(text)
		for _, c := range []struct {
			Guard
			allowed bool
		}{{public, allowed.public}, {all, allowed.private}} {
			network := "tcp6"
			if ip.Is4() {
				network = "tcp4"
			}
			if err := c.Allow(network, netip.AddrPortFrom(ip, 443).String(), nil); (err == nil) != c.allowed {
				t.Errorf("%s, private networks allowed: %v: %v", text, c.private, err)
			}
			if err := c.Allow("udp4", netip.AddrPortFrom(ip, 443).String(), nil); err == nil {
				t.Error("another network is allowed")
			}
		}
	}
}

// URLs that are refused before their name is looked up.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	strict, private := NewGuard(false), NewGuard(true)
	for text, good := range map[string]struct{ strict, private bool }{
		"https://hooks.example.com/a?b=c":        {true, true},
		"https://hooks.example.com:8443":         {true, true},
		"https://93.184.215.14/":                 {true, true},
		"http://hooks.example.com/":              {false, true},
		"https://127.0.0.1/":                     {false, true},
		"http://[::1]:8080/":                     {false, true},
		"https://[::ffff:127.0.0.1]/":            {false, true},
		"https://169.254.169.254/latest":         {},
		"https://[64:ff9b::7f00:1]/":             {},
		"https://0.0.0.0/":                       {},
		"https://user:password@example.com/":     {},
		"https://example.com/#x":                 {},
		"ftp://example.com/":                     {},
		"gopher://example.com/":                  {},
		"file:///etc/passwd":                     {},
		"https:///x":                             {},
		"https://:443/":                          {},
		"https:example.com":                      {},
		"//example.com/":                         {},
		"hooks.example.com":                      {},
		"":                                       {},
		"https://exa mple.com/":                  {},
		"https://example.com/\x00":               {},
		"https://a/" + strings.Repeat("x", 2048): {},
	} {
		if err := strict.CheckURL(text); (err == nil) != good.strict {
			t.Errorf("%.60q: %v", text, err)
		}
		if err := private.CheckURL(text); (err == nil) != good.private {
			t.Errorf("%.60q, private networks allowed: %v", text, err)
		}
	}
}
