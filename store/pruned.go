package store

import (
	"context"

	"attestd/chain"
)

// Pruned implements chain.Reader.
func (v *View) Pruned(ctx context.Context, number int64) (chain.Pruned, error) {
	return chain.Pruned{}, nil
}
