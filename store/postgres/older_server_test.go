package postgres_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
	"attestd/chain/tlog"
)

// The statements of a server of schema 17, which was the last one that counts no bytes, as it has
// sent them. Those of schemas 15 and 16 are the same.
var (
	writerOf17 = olderStatement("writer")
	headsOf17  = olderStatement("heads")
	appendOf17 = olderStatement("append")
)

func olderStatement(name string) string {
	text, err := os.ReadFile("testdata/schema-17-" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// olderServer is a server of schema 17 that has not been replaced yet.
type olderServer struct {
	conn *pgx.Conn
	row  int64 // in table writer
	seq  int64
	log  *chain.Log
}

func startOlder(t *testing.T, address string) *olderServer {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	s := &olderServer{conn: conn}
	// as every server does
	if _, err := conn.Exec(t.Context(), "SET synchronous_commit = on"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), writerOf17, chain.FormatTime(time.Now())).Scan(&s.row); err != nil {
		t.Fatal(err)
	}
	s.log = chain.NewLog(s)
	go s.log.Run(context.Background(), time.Now, func([]chain.Extension, bool) {})
	t.Cleanup(func() {
		s.log.Close()
		conn.Close(context.Background())
	})
	return s
}

// append appends n actions of a company, and one in each third with a delegation.
func (s *olderServer) append(t *testing.T, number int64, company string, n int) {
	t.Helper()
	for i := range n {
		d := action(number, company)
		if i%3 == 0 {
			d.Delegation = []byte(`{"act":null,"delegationChain":["a"],"subject":"a","tokenId":"ä"}`)
		}
		if _, err := s.log.Append(t.Context(), d); err != nil {
			t.Error(err)
			return
		}
	}
}

func action(number int64, company string) chain.Draft {
	payload := fmt.Appendf(nil, `{"actionType":"build","agentId":"bot","companyId":"%s","payload":{"name":"Zoë"}}`, company)
	return chain.Draft{Chain: number, Payload: payload, Canonical: payload}
}

// Begin implements chain.Storage.
func (s *olderServer) Begin(time.Time) (chain.Transaction, bool, error) {
	return &olderTransaction{s: s}, false, nil
}

// olderTransaction is an append, which is one statement.
type olderTransaction struct {
	s    *olderServer
	rows []*chain.Extension
}

func (tx *olderTransaction) Bases(chains []int64) []chain.Base {
	bases := make([]chain.Base, len(chains))
	for i := range bases {
		bases[i].Err = chain.ErrMissing
	}
	found, err := tx.s.conn.Query(context.Background(), headsOf17, chains)
	for err == nil && found.Next() {
		var number, generation int64
		var root, frontier, logRoot, logFrontier, seed, public []byte
		var beyond bool
		var b chain.Base
		h := &b.Head
		err = found.Scan(&number, &h.Length, &root, &frontier, &h.Timestamp, &logRoot, &logFrontier, &b.Epoch, &generation, &seed, &public, &beyond)
		copy(h.Root[:], root)
		copy(h.LogRoot[:], logRoot)
		h.Frontier, h.Log = split[chain.Hash](frontier), tlog.Frontier{Size: h.Length, Roots: split[tlog.Hash](logFrontier)}
		b.Key = ed25519.NewKeyFromSeed(seed)
		bases[slices.Index(chains, number)] = b
	}
	if err == nil {
		err = found.Err()
	}
	for i := range bases {
		if err != nil {
			bases[i].Err = err
		}
	}
	return bases
}

func (*olderTransaction) Rekeyed() ([]int64, bool) { return nil, false }
func (*olderTransaction) Room() chain.Room         { return chain.Room{} }
func (*olderTransaction) KeyEntries(map[int64][]chain.Hash, func(int64, chain.Hash, chain.KeyEntry)) (int64, error) {
	return 0, nil
}
func (*olderTransaction) Free(int64, []chain.Key) error              { return nil }
func (*olderTransaction) Record(int64, int64) (*chain.Record, error) { return nil, chain.ErrMissing }
func (*olderTransaction) Savepoint(rows func() error) error          { return rows() }
func (*olderTransaction) Err() error                                 { return nil }
func (*olderTransaction) Rollback()                                  {}
func (tx *olderTransaction) Extend(e *chain.Extension) error {
	tx.rows = append(tx.rows, e)
	return nil
}
func (tx *olderTransaction) Commit() (stale []int64, err error) {
	var chains, fromLength, epoch, length []int64
	var fromRoot, root, frontier, logRoot, logFrontier [][]byte
	var headTime []string
	var id, nodeChain, level, index []int64
	var hash, signature, nodeHash, nodeLogHash [][]byte
	var timestamp, payload []string
	var delegation []*string
	for _, e := range tx.rows {
		h := &e.Head
		chains, fromLength, epoch, length = append(chains, e.Chain), append(fromLength, e.From.Length), append(epoch, e.Epoch), append(length, h.Length)
		fromRoot, root, frontier = append(fromRoot, e.From.Root[:]), append(root, h.Root[:]), append(frontier, join(h.Frontier))
		headTime, logRoot, logFrontier = append(headTime, h.Timestamp), append(logRoot, h.LogRoot[:]), append(logFrontier, join(h.Log.Roots))
		for i := range e.Records {
			r := &e.Records[i]
			id, hash, signature = append(id, e.Chain<<40+r.Index), append(hash, r.Hash[:]), append(signature, r.Signature[:])
			timestamp, payload = append(timestamp, r.Timestamp), append(payload, string(r.Payload))
			var text *string
			if r.Delegation != nil {
				d := string(r.Delegation)
				text = &d
			}
			delegation = append(delegation, text)
		}
		for i := range e.Nodes {
			n := &e.Nodes[i]
			nodeChain, level, index = append(nodeChain, e.Chain), append(level, int64(n.Level)), append(index, n.Index)
			nodeHash, nodeLogHash = append(nodeHash, n.Hash[:]), append(nodeLogHash, n.LogHash[:])
		}
	}
	if len(chains) == 0 {
		return nil, nil
	}
	tx.s.seq++
	var mine bool
	var moved []int64
	err = tx.s.conn.QueryRow(context.Background(), appendOf17, tx.s.row, tx.s.seq, chains, fromLength, fromRoot, epoch, length, root, frontier, headTime, logRoot, logFrontier,
		id, hash, signature, timestamp, payload, delegation, nodeChain, level, index, nodeHash, nodeLogHash,
		[]int64{}, [][]byte{}, [][]byte{}, []int64{}, []int64{}, []int64{}, [][]byte{}).Scan(&mine, &moved)
	if err == nil && !mine {
		err = errors.New("the row of the writer is gone")
	}
	return slices.DeleteFunc(chains, func(c int64) bool { return slices.Contains(moved, c) }), err
}

func join[H ~[32]byte](hashes []H) (joined []byte) {
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return append([]byte{}, joined...)
}

func split[H ~[32]byte](joined []byte) (hashes []H) {
	for ; len(joined) > 0; joined = joined[32:] {
		hashes = append(hashes, H(joined[:32]))
	}
	return hashes
}
