package server

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// query returns a parameter of the URL. The token endpoint reads none: secrets do not belong there.
func (c *call) query(name string) string {
	return c.URL.Query().Get(name) // what is malformed counts as absent
}

// number returns a parameter that is a whole number from least to most, or fallback when it is absent.
func (c *call) number(name string, fallback, least, most int64) (int64, error) {
	values := c.URL.Query()
	if !values.Has(name) {
		return fallback, nil
	}
	n, ok := decimal(values.Get(name))
	if !ok || n < least || n > most {
		return 0, fail(http.StatusBadRequest, fmt.Sprintf("Invalid query parameter: %s must be a whole number from %d to %d", name, least, most))
	}
	return n, nil
}

// decimal reads a non-negative whole number written with digits alone. One beyond all indices reads as the greatest.
func decimal(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}
