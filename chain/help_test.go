package chain_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
)

// draft returns the draft of record i of a chain. Its payload is not canonical, and every third has
// a delegation.
func draft(c int64, i int) chain.Draft {
	payload := fmt.Appendf(nil, `{"companyId":"acme","agentId":"a","actionType":"t", "payload":{"z":[1.0,2e0],"chain":%d,"i":%d}}`, c, i)
	canonical, err := jcs.Append(nil, payload, 129)
	if err != nil {
		panic(err)
	}
	d := chain.Draft{Chain: c, Payload: payload, Canonical: canonical}
	if i%3 == 0 {
		d.Delegation = fmt.Appendf(nil, `{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"%d"}`, i)
	}
	return d
}

// reseal hashes and signs a row again, as the holder of k could.
func reseal(r *chain.Record, k ed25519.PrivateKey) {
	canonical, err := jcs.Append(nil, r.Payload, 129)
	if err != nil {
		panic(err)
	}
	preimage := fmt.Sprintf("%d|%s|%s", r.Index, r.Timestamp, canonical)
	if len(r.Delegation) > 0 {
		preimage += "|" + string(r.Delegation)
	}
	r.Hash = sha256.Sum256([]byte(preimage))
	copy(r.Signature[:], ed25519.Sign(k, r.Hash[:]))
}

// reference is an independent implementation of the specified tree on hex strings.
type reference struct {
	frontier []subtree
	nodes    map[[2]int64]chain.Hash // of the stored levels, when not nil
	length   int64
}

type subtree struct {
	hash   chain.Hash
	height int
}

func (r *reference) add(leaf chain.Hash) {
	f := append(r.frontier, subtree{leaf, 0})
	for n := len(f); n > 1 && f[n-1].height == f[n-2].height; n = len(f) {
		f[n-2] = subtree{sha256Sum(f[n-2].hash.String() + f[n-1].hash.String()), f[n-2].height + 1}
		f = f[:n-1]
		if height := f[n-2].height; height%8 == 0 && r.nodes != nil {
			r.nodes[[2]int64{int64(height), r.length >> height}] = f[n-2].hash
		}
	}
	r.frontier = f
	r.length++
}

func (r *reference) root() chain.Hash {
	n := len(r.frontier)
	root := r.frontier[n-1].hash
	for i := n - 2; i >= 0; i-- {
		root = sha256Sum(r.frontier[i].hash.String() + root.String())
	}
	return root
}

// rebuild makes nodes and head match the rows, as an intruder without the key could.
func rebuild(s *stored) {
	r := reference{nodes: make(map[[2]int64]chain.Hash)}
	var leaves []tlog.Hash
	for i := range s.rows {
		r.add(s.rows[i].Hash)
		leaf := tlog.NewLeaf(s.rows[i].Hash, s.rows[i].Signature, tlog.KeyDigest(key.Public().(ed25519.PublicKey)))
		leaves = append(leaves, leaf.Hash())
	}
	var nodes []tlog.Node
	s.head.Log, nodes = tlog.Frontier{}.Append(leaves...)
	s.head.LogRoot = s.head.Log.Root()
	for _, n := range nodes {
		s.log[[2]int64{int64(n.Level), n.Index}] = n.Hash
	}
	s.nodes, s.head.Root, s.head.Length, s.head.Frontier = r.nodes, r.root(), r.length, nil
	for _, f := range r.frontier {
		s.head.Frontier = append(s.head.Frontier, f.hash)
	}
}

func sha256Sum(s string) chain.Hash { return sha256.Sum256([]byte(s)) }

// run starts a log without publish and returns the function that stops it and waits.
func run(t testing.TB, l *chain.Log) (stop func()) {
	return runWith(t, l, func([]chain.Extension, bool) {})
}

// runWith starts a log that publishes.
func runWith(t testing.TB, l *chain.Log, publish func(batch []chain.Extension, external bool)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, time.Now, publish) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// grow appends records [from, to) of draft to a chain through a log of its own.
func grow(t testing.TB, d *disk, c int64, from, to int) {
	t.Helper()
	l := chain.NewLog(d)
	stop := run(t, l)
	defer stop()
	appendAll(t, l, c, from, to)
}

// appendAll appends records [from, to) of draft, one after the other.
func appendAll(t testing.TB, l *chain.Log, c int64, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := l.Append(t.Context(), draft(c, i)); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
}

// verify verifies a chain with a verifier of its own.
func verify(t testing.TB, d *disk, c int64) chain.Verdict {
	t.Helper()
	verdict, err := chain.NewVerifier(d, 2).Verify(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}
