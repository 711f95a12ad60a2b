// Package outboundtest gives names the addresses that tests want. No product code imports it.
package outboundtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// Resolver asks a DNS server that gives, of every name, one answer after the other.
func Resolver(t testing.TB, answers ...string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // which is a stream, so messages have a length in front
		go func() {
			defer ours.Close()
			in := bufio.NewReader(ours)
			var length [2]byte
			if _, err := io.ReadFull(in, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(in, query); err != nil {
				return
			}
			end := 12 // of the question: after the labels of the name, its type and its class
			for query[end] != 0 {
				end += int(query[end]) + 1
			}
			end += 5
			answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
			const typeA, typeAAAA = 1, 28
			asks := binary.BigEndian.Uint16(query[end-4:])
			turn := min(asked.Load(), int64(len(answers)-1))
			ip := netip.MustParseAddr(answers[turn])
			if ip.Is4() && asks == typeA || !ip.Is4() && asks == typeAAAA {
				asked.Add(1)
				answer[7] = 1
				answer = append(answer, 0xc0, 12, query[end-4], query[end-3], 0, 1, 0, 0, 0, 0, 0, byte(len(ip.AsSlice())))
				answer = append(answer, ip.AsSlice()...)
			}
			_, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			if err != nil {
				t.Log(err)
			}
		}()
		return theirs, nil
	}}
}
