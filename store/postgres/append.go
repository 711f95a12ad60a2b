package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
	"attestd/chain/search"
)

// The parts of the statement that writes a batch. It first locks the heads, in the order of their
// chains, if they still are those that the batch was built on. It writes only the rows that extend
// them, and the receipt lists these chains.
const (
	appendHeads = `WITH mine AS (SELECT id FROM writer WHERE id = $1 AND ` + mine + ` FOR UPDATE),
want AS (SELECT * FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::text[], $11::bytea[], $12::bytea[], $13::bigint[])
	AS w (chain, from_length, from_root, epoch, length, root, frontier, timestamp, log_root, log_frontier, bytes)),
locked AS (SELECT h.chain FROM head h JOIN want w ON w.chain = h.chain
	WHERE EXISTS (SELECT FROM mine) AND h.length = w.from_length AND h.root = w.from_root AND h.epoch = w.epoch ORDER BY h.chain FOR UPDATE OF h`
	appendRecords = `),
moved AS (UPDATE head h SET length = w.length, root = w.root, frontier = w.frontier, timestamp = w.timestamp, log_root = w.log_root, log_frontier = w.log_frontier, bytes = w.bytes
	FROM want w WHERE h.chain = w.chain AND h.chain IN (SELECT chain FROM locked) RETURNING h.chain, h.length),
records AS (INSERT INTO record (id, hash, signature, timestamp, payload, delegation)
	SELECT * FROM unnest($14::bigint[], $15::bytea[], $16::bytea[], $17::text[], $18::text[], $19::text[]) AS r (id, hash, signature, timestamp, payload, delegation)
	WHERE r.id >> 40 IN (SELECT chain FROM moved)),
noted AS (INSERT INTO feed (chains, lengths) SELECT array_agg(chain), array_agg(length) FROM moved HAVING count(*) > 0),
`
	appendNodes = `nodes AS (INSERT INTO node (chain, level, idx, hash, log_hash)
	SELECT * FROM unnest($20::bigint[], $21::bigint[], $22::bigint[], $23::bytea[], $24::bytea[]) AS n (chain, level, idx, hash, log_hash)
	WHERE n.chain IN (SELECT chain FROM moved)),
summaries AS (INSERT INTO summary (id, terms) SELECT * FROM unnest($30::bigint[], $31::bytea[]) AS s (id, terms)
	WHERE s.id >> 32 IN (SELECT chain FROM moved) ON CONFLICT (id) DO NOTHING),
keys AS (INSERT INTO idempotency_key (chain, name, request, idx, expires_at)
	SELECT * FROM unnest($25::bigint[], $26::bytea[], $27::bytea[], $28::bigint[], $29::bigint[]) AS k (chain, name, request, idx, expires_at)
	WHERE k.chain IN (SELECT chain FROM moved) ORDER BY k.chain, k.name
	ON CONFLICT (chain, name) DO UPDATE SET request = excluded.request, idx = excluded.idx, expires_at = excluded.expires_at),
`
	appendReceipt = `receipt AS (UPDATE writer SET seq = $2, moved = (SELECT coalesce(array_agg(chain), '{}') FROM moved), touched = now() WHERE id = (SELECT id FROM mine))
SELECT EXISTS (SELECT FROM mine), (SELECT coalesce(array_agg(chain), '{}') FROM moved)`
)

// An open transaction may hold locks that were acquired in another order than that of chains.
// There, heads that others have locked are skipped.
const (
	appendText      = appendHeads + appendRecords + appendReceipt
	appendWithNodes = appendHeads + appendRecords + appendNodes + appendReceipt
	appendSkipping  = appendHeads + ` SKIP LOCKED` + appendRecords + appendNodes + appendReceipt
)

// rows are the array parameters of the statement.
type rows struct {
	chain, fromLength, epoch, length []int64
	bytes                            []int64
	fromRoot, root, frontier         [][]byte
	headTime                         []string
	logRoot, logFrontier             [][]byte

	id              []int64
	hash, signature [][]byte
	timestamp       []string
	payload         []string
	delegation      []*string

	nodeChain, level, index []int64
	nodeHash, nodeLogHash   [][]byte

	summary []int64
	terms   [][]byte

	keyChain, keyIndex, keyExpires []int64
	keyName, keyRequest            [][]byte
}

// The width of the index in the row ID of a record and of a summary; the upper bits are the chain
// ID.
const (
	indexBits   = 40
	summaryBits = 32
)

// add adds the rows of an extension; its keys count until keysExpire, except for those that are
// unique.
func (r *rows) add(e *chain.Extension, keysExpire time.Time) {
	h := &e.Head
	r.chain, r.fromLength, r.epoch, r.length = append(r.chain, e.Chain), append(r.fromLength, e.From.Length), append(r.epoch, e.Epoch), append(r.length, h.Length)
	r.fromRoot, r.root, r.frontier = append(r.fromRoot, e.From.Root[:]), append(r.root, h.Root[:]), append(r.frontier, join(h.Frontier))
	r.headTime, r.bytes = append(r.headTime, h.Timestamp), append(r.bytes, h.Bytes)
	r.logRoot, r.logFrontier = append(r.logRoot, h.LogRoot[:]), append(r.logFrontier, join(h.Log.Roots))
	for i := range e.Records {
		a := &e.Records[i]
		r.id = append(r.id, e.Chain<<indexBits+a.Index)
		r.hash, r.signature = append(r.hash, a.Hash[:]), append(r.signature, a.Signature[:])
		r.timestamp, r.payload = append(r.timestamp, a.Timestamp), append(r.payload, string(a.Payload))
		var delegation *string // NULL
		if a.Delegation != nil {
			text := string(a.Delegation)
			delegation = &text
		}
		r.delegation = append(r.delegation, delegation)
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		r.nodeChain, r.level, r.index = append(r.nodeChain, e.Chain), append(r.level, int64(n.Level)), append(r.index, n.Index)
		r.nodeHash, r.nodeLogHash = append(r.nodeHash, n.Hash[:]), append(r.nodeLogHash, n.LogHash[:])
	}
	for i := range e.Keys {
		k := &e.Keys[i]
		expires := keysExpire
		if k.Unique {
			expires = chain.LastTime
		}
		r.keyChain, r.keyIndex, r.keyExpires = append(r.keyChain, e.Chain), append(r.keyIndex, k.Index), append(r.keyExpires, expires.UnixMilli())
		r.keyName, r.keyRequest = append(r.keyName, k.Name[:]), append(r.keyRequest, k.Request[:])
	}
}

func (r *rows) addSummaries(ready []search.Ready) {
	for _, s := range ready {
		r.summary, r.terms = append(r.summary, s.Chain<<summaryBits+s.Index), append(r.terms, s.Terms)
	}
}

// queue puts the statement into a batch.
func (r *rows) queue(b *pgx.Batch, writer, seq int64, skipping bool) *pgx.QueuedQuery {
	text, args := appendText, []any{
		writer, seq, r.chain, r.fromLength, r.fromRoot, r.epoch, r.length, r.root, r.frontier, r.headTime, r.logRoot, r.logFrontier, r.bytes,
		r.id, r.hash, r.signature, r.timestamp, r.payload, r.delegation,
	}
	if skipping || len(r.level) > 0 || len(r.keyName) > 0 {
		text = appendWithNodes
		args = append(args, r.nodeChain, r.level, r.index, r.nodeHash, r.nodeLogHash, r.keyChain, r.keyName, r.keyRequest, r.keyIndex, r.keyExpires, r.summary, r.terms)
	}
	if skipping {
		text = appendSkipping
	}
	return b.Queue(text, args...)
}

// stale returns the chains that were not moved.
func (r *rows) stale(moved []int64) (left []int64) {
	for _, c := range r.chain {
		if !slices.Contains(moved, c) {
			left = append(left, c)
		}
	}
	return left
}

func join[H ~[32]byte](hashes []H) []byte {
	joined := make([]byte, 0, len(hashes)*len(H{}))
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return joined
}
