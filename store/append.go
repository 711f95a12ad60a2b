package store

import (
	"context"

	"attestd/chain"
)

// Append returns a record once it is durable. An error means that nothing was written, unless it is
// ErrUnknown.
func (s *Store) Append(ctx context.Context, d chain.Draft) (chain.Record, error) {
	if err := s.base.haltedChain(d.Chain); err != nil {
		return chain.Record{}, err
	}
	return s.Ledger.Append(ctx, d)
}

// AppendAll returns the records of drafts once all of them are durable. Its errors are those of
// Append, and chain.DraftError. A *TablesChangedError within one means that an external write
// changed the entry of a key of that draft, or its record.
func (s *Store) AppendAll(ctx context.Context, drafts []chain.Draft) ([]chain.Appended, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	if err := s.base.haltedChain(drafts[0].Chain); err != nil {
		return nil, err
	}
	appended, err := s.Ledger.AppendAll(ctx, drafts)
	if err != nil {
		return nil, s.Refused(s.base.forged(ctx, drafts[0].Chain, err))
	}
	return appended, nil
}
