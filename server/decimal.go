package server

import (
	"errors"
	"strconv"
)

// decimal reads a non-negative whole number written with digits alone. One beyond all indices reads
// as the greatest.
func decimal(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}
