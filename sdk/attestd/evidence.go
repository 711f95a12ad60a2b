package attestd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"attestd/chain"
)

// Evidence returns the evidence file of a record, with a passport unless jti is "". CheckEvidence
// checks it, and so does `attestd check`.
func (c *Client) Evidence(ctx context.Context, l Log, index int64, jti string) (json.RawMessage, error) {
	query := l.query()
	if jti != "" {
		query.Set("jti", jti)
	}
	var text []byte
	err := c.get(ctx, "/v1/evidence/{index}", query, &text, strconv.FormatInt(index, 10))
	return text, err
}

// Report returns the report of a period: all records of both logs, as JSON lines for `attestd
// report`. A zero time means the beginning of the logs, or now. The caller MUST close it. A
// truncated report does not verify.
func (c *Client) Report(ctx context.Context, from, to time.Time) (io.ReadCloser, error) {
	query := url.Values{}
	if !from.IsZero() {
		query.Set("from", chain.FormatTime(from))
	}
	if !to.IsZero() {
		query.Set("to", chain.FormatTime(to))
	}
	return c.open(ctx, request{method: http.MethodGet, route: "/v1/report", query: query, status: http.StatusOK})
}
