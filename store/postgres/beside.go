package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
)

// KeyEntries yields the entries of idempotency keys, given by chain and name, in one round trip.
func (w *Writer) KeyEntries(
	names map[int64][]chain.Hash, now time.Time,
	yield func(number int64, name chain.Hash, kept chain.KeyEntry),
) error {
	var chains []int64
	var wanted [][]byte
	for number := range names {
		for i := range names[number] {
			chains, wanted = append(chains, number), append(wanted, names[number][i][:])
		}
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT k.chain, k.name, k.request, k.idx, k.expires_at <= $3 FROM unnest($1::bigint[], $2::bytea[]) AS w (chain, name)
		JOIN idempotency_key k ON k.chain = w.chain AND k.name = w.name`, chains, wanted, now.UnixMilli()).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var number int64
			var name, request []byte
			var kept chain.KeyEntry
			if err := rows.Scan(&number, &name, &request, &kept.Index, &kept.Expired); err != nil {
				return err
			}
			copy(kept.Request[:], request)
			yield(number, chain.Hash(name), kept)
		}
		return rows.Err()
	})
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		return w.failed(err)
	}
	return nil
}

// Use is the hour of the last use of a credential.
type Use struct {
	Row  int64 // row ID in its table
	Hour string
}

// Used stores the last uses of API keys and OAuth clients in one round trip. All servers update
// rows in the order of their IDs, which avoids deadlocks.
func (w *Writer) Used(keys, clients []Use) error {
	b := &pgx.Batch{}
	for _, of := range []struct {
		statement string
		uses      []Use
	}{
		{`UPDATE api_key SET last_used_at = $1 WHERE id = $2 AND last_used_at IS DISTINCT FROM $1`, keys},
		{`UPDATE oauth_client SET last_used_at = $1 WHERE id = $2 AND last_used_at IS DISTINCT FROM $1`, clients},
	} {
		slices.SortFunc(of.uses, func(x, y Use) int { return cmp.Compare(x.Row, y.Row) })
		for _, u := range of.uses {
			b.Queue(of.statement, u.Hour, u.Row)
		}
	}
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		return w.failed(err)
	}
	return nil
}
