// Package limit bounds the resources that callers use: a Limiter counts calls per minute, and a
// Pool counts what is held at a time. Budgets lists everything that is held.
package limit

import "net/netip"

// Budgets bound what callers hold at a time. Each is the Size of a Pool; the zero Size has no
// bound.
type Budgets struct {
	Connections Size // open TCP connections; known are loopback and the trusted proxies
	// places on the stream; known are callers with a credential, here and for Bodies
	Streams Size
	Bodies  Size // bytes of request bodies in memory

	// enabled webhooks, each with a goroutine; the number per company is bounded separately
	Webhooks Size

	// requests that wait for a verdict; known is a company that has none waiting
	Verifications Size

	// parts of running searches of records; known is a company that has none
	Searches Size
}

// Defaults returns the default budgets of a server whose bodies may have up to maxBody bytes.
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

// Connections returns the budget of connections. An address may have share of them, but at most a
// quarter. A sixteenth is reserved for the machine itself and for trusted proxies, which have no
// share.
func Connections(most, share int64) Size {
	return Size{Most: most, Share: min(share, max(1, most/4)), Reserved: most / 16}
}

// Streams returns the budget of places on the stream, which use 30 KB each. An address and a
// company may have a sixteenth, and a quarter is reserved for callers with a credential.
func Streams(most int64) Size { return Size{Most: most, Share: max(1, most/16), Reserved: most / 4} }

// Bodies returns the budget of bytes in request bodies. An address and a company may have a
// quarter, and half is reserved for callers with a credential. A buffer grows by doubling, so there
// is always room for two bodies of the maximum size; most MUST be at least that.
func Bodies(most, maxBody int64) Size {
	return Size{Most: most, Share: max(most/4, 2*maxBody), Reserved: min(most/2, most-2*maxBody)}
}

// Webhooks returns the budget of enabled webhooks, which use 20 KB each.
func Webhooks(most int64) Size { return Size{Most: most, Share: most} }

// Verifications returns the budget of requests that wait for the verification of a chain. A company
// may have an eighth, and half is reserved for companies that have none waiting.
func Verifications(most int64) Size {
	return Size{Most: most, Share: max(1, most/8), Reserved: most / 2}
}

// LongSearch is the number of parts of a search that reads every payload, or returns everything
// that it finds; others use one part.
const LongSearch = 6

// Searches returns the budget of searches of records, in parts of about 300 KB. A company may have
// an eighth, and half is reserved for companies without a running search, because a slow reader
// holds a search for long.
func Searches(most int64) Size { return Size{Most: most, Share: max(1, most/8), Reserved: most / 2} }

// Network returns the address that represents all addresses of a client. For IPv6 it is the first
// of the /64, which is the smallest assignment to a site, because each site can choose among 2⁶⁴
// addresses. It has no zone and is never IPv4-mapped.
func Network(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip
}

// Shared reports whether an address may represent many clients: the machine itself, on which an
// unlisted proxy may run, and the trusted proxies. Such an address has no share of a Pool.
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

// otherFiles is the number of files that the process opens in addition to connections: the database
// with its readers, the log, a copy in progress.
const otherFiles = 64

// FitFiles returns how many of most connections the process can open while it reserves some files
// for itself.
func FitFiles(most int64) int64 { return fit(most, OpenFiles()) }

func fit(most, files int64) int64 {
	if files == 0 {
		return most
	}
	return min(most, max(files-otherFiles, files/2))
}
