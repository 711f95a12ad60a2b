package server

import (
	"net"

	"attestd/server/limit"
	"attestd/server/stream"
)

// Exposed says what strangers can do who reach an address on which a server with this configuration
// listens, and what others cannot, a sentence each. On loopback that is nothing.
func (c Config) Exposed(addr net.Addr) (said []string) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return nil
	}
	if c.Stream == stream.Open {
		said = append(said, "the stream shows the records of all companies to anyone who can reach this address; see --stream")
	}
	if c.Registration.Mode == RegistrationOpen && c.Quotas.AllBytes == 0 {
		said = append(said, "anyone who can reach this address can register a company and fill the disk; see --max-total-bytes and --registration")
	}
	if c.BaseURL == "" {
		said = append(said, "the name by which others reach this address is unknown here, so sign-in with keys, DPoP proofs and tokens for others are refused under it; see --base-url")
	}
	if c.Limits == (limit.Limits{}) {
		said = append(said, "anyone who can reach this address can send as many requests as the server answers; see --rate-limits")
	}
	return said
}
