// Package limit holds what callers may cost the service: a Limiter counts what they spend in a
// minute, a Pool what they hold at a time. Budgets is the table of all that is held.
package limit

import "net/netip"

// Budgets bound what callers hold at a time. Each is a Pool; a Size of zero does not bound.
type Budgets struct {
	Connections Size // open TCP connections; the service knows loopback and the trusted proxies
	// places on the stream; the service knows whoever has a credential, here and below
	Streams Size
	Bodies  Size // bytes of request bodies in memory

	// webhooks that are enabled, each with a goroutine; how many a company may have is bounded
	// beside
	Webhooks Size

	// requests that wait for a verdict; the service knows a company that has none waiting yet
	Verifications Size

	// parts of searches of records that are under way; the service knows a company that has none
	Searches Size
}

// Defaults are the budgets of a server of which nothing else is asked, where a body may have up to
// maxBody bytes.
func Defaults(maxBody int64) Budgets {
	return Budgets{
		Connections: Connections(10_000, 256),
		Streams:     Streams(4000),
		Bodies:      Bodies(256<<20, maxBody),

		Webhooks: Webhooks(4096),

		Verifications: Verifications(2048),

		Searches: Searches(512),
	}
}

// Connections is the budget of connections: an address may have share of them, but no more than a
// quarter, and a sixteenth is kept for the machine itself and for trusted proxies, which have no
// share.
func Connections(most, share int64) Size {
	return Size{Most: most, Share: min(share, max(1, most/4)), Reserved: most / 16}
}

// Streams is the budget of the stream's places, of 30 KB each: an address and a company may have a
// sixteenth, and a quarter is kept for those with a credential.
func Streams(most int64) Size { return Size{Most: most, Share: max(1, most/16), Reserved: most / 4} }

// Bodies is the budget of bytes in request bodies: an address and a company may have a quarter, and
// half is kept for those with a credential. A buffer grows by doubling, so there is always room for
// two bodies of the largest size. most is at least that.
func Bodies(most, maxBody int64) Size {
	return Size{Most: most, Share: max(most/4, 2*maxBody), Reserved: min(most/2, most-2*maxBody)}
}

// Webhooks is the budget of webhooks that are enabled, of 20 KB each.
func Webhooks(most int64) Size { return Size{Most: most, Share: most} }

// Verifications is the budget of requests that wait for the verification of a chain: a company may
// have an eighth, and half is kept for companies that have none waiting yet.
func Verifications(most int64) Size {
	return Size{Most: most, Share: max(1, most/8), Reserved: most / 2}
}

// LongSearch is how many parts a search takes that reads every payload, or gives all that it finds;
// others take one.
const LongSearch = 6

// Searches is the budget of searches of records, in parts of some 300 KB: a company may have an
// eighth, and half is kept for companies that have none under way, for who reads an answer slowly
// holds his for long.
func Searches(most int64) Size { return Size{Most: most, Share: max(1, most/8), Reserved: most / 2} }

// Network is the address that all of a client's own addresses count as. For IPv6 it is the first of
// the /64, the least that a site is given, for each site has 2⁶⁴ addresses to choose from. It has
// no zone and is never IPv4-mapped.
func Network(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip
}

// Shared says whether an address may speak for many clients: the machine itself, where a proxy may
// run that nobody has named, and the proxies that are trusted. Such an address has no share of a
// Pool.
func Shared(ip netip.Addr, proxies []netip.Prefix) bool {
	ip = ip.Unmap()
	if ip.IsLoopback() {
		return true
	}
	for _, p := range proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// otherFiles is what the process opens beside connections: the database with its readers, the log,
// a copy in the making.
const otherFiles = 64

// FitFiles is how many of most connections the process may have open, and keep some files for
// itself.
func FitFiles(most int64) int64 { return fit(most, openFiles()) }

func fit(most, files int64) int64 {
	if files == 0 {
		return most
	}
	return min(most, max(files-otherFiles, files/2))
}
