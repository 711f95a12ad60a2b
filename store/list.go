package store

import "iter"

// listBatch is how many rows of a list are read at once. Reads are short, and a list of any length takes the memory of a batch: its
// reader may be slow, and a read that waits for it would stop WAL checkpoints.
const listBatch = 64

// batches yields what read returns, one batch after another, until a batch is empty. read is given the last item, nil at first.
func batches[T any](read func(last *T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for {
			batch, err := read(last)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if len(batch) == 0 {
				return
			}
			for _, item := range batch {
				if !yield(item, nil) {
					return
				}
			}
			last = &batch[len(batch)-1]
		}
	}
}
