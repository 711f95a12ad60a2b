package service

import "iter"

// Map turns what the store yields into what the API shows.
func Map[S, T any](items iter.Seq2[S, error], show func(S) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !yield(show(item), nil) {
				return
			}
		}
	}
}
