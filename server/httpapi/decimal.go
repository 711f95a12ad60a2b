package httpapi

import (
	"errors"
	"strconv"
)

// Decimal parses a non-negative integer that consists of digits only. A number larger than any
// index becomes the largest int64.
func Decimal(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}
