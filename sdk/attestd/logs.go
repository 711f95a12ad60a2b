package attestd

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// LogInfo describes a log for standard tools.
type LogInfo struct {
	Log        Log      `json:"log"`
	LogID      string   `json:"logId"`
	Origin     string   `json:"origin"`
	VKeys      []string `json:"vkeys"` // the current one first
	Size       int64    `json:"size"`
	MerkleRoot string   `json:"merkleRoot"` // of the tree of chain
	Root       string   `json:"root"`       // of the tree of RFC 6962
}

// Logs lists the company's logs.
func (c *Client) Logs(ctx context.Context) ([]LogInfo, error) {
	var answer struct{ Logs []LogInfo }
	err := c.get(ctx, "/v1/logs", nil, &answer)
	return answer.Logs, err
}

// Checkpoint returns the newest signed checkpoint of a log (c2sp.org/tlog-checkpoint).
func (c *Client) Checkpoint(ctx context.Context, logID string) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/checkpoint", nil, &text, logID)
	return text, err
}

// Tile returns a tile or an entry bundle by its path without "tile/" (c2sp.org/tlog-tiles):
// 0/000.p/2.
func (c *Client) Tile(ctx context.Context, logID, path string) (data []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/tile/{path}", nil, &data, logID, path)
	return data, err
}

// LogProof returns the inclusion proof of a record, with the checkpoint (c2sp.org/tlog-proof).
func (c *Client) LogProof(ctx context.Context, logID string, index int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/proof/{index}", nil, &text, logID, strconv.FormatInt(index, 10))
	return text, err
}

// LogConsistency returns the newest checkpoint of a log, and its consistency proof from the first
// from records.
func (c *Client) LogConsistency(ctx context.Context, logID string, from int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/consistency", url.Values{"from": {strconv.FormatInt(from, 10)}}, &text, logID)
	return text, err
}

// Witness describes a service as a witness.
type Witness struct {
	Name string `json:"name"`
	VKey string `json:"vkey"`
}

// Witness returns the name and key of the service as a witness.
func (c *Client) Witness(ctx context.Context) (w Witness, err error) {
	err = c.get(ctx, "/v1/witness", nil, &w)
	return w, err
}

// AddCheckpoint requests a cosignature from the service as a witness. c2sp.org/tlog-witness
// specifies the body.
func (c *Client) AddCheckpoint(ctx context.Context, body []byte) (cosignature []byte, err error) {
	err = c.do(ctx, request{
		method: http.MethodPost, route: "/v1/witness/add-checkpoint", body: body, contentType: "text/plain", status: http.StatusOK,
	}, &cosignature)
	return cosignature, err
}

// CosignedCheckpoint returns the last checkpoint of another's log that the service has cosigned.
// originHash is the SHA-256 of the log's origin in hex.
func (c *Client) CosignedCheckpoint(ctx context.Context, originHash string) (text []byte, err error) {
	err = c.get(ctx, "/v1/witness/{originHash}/checkpoint", nil, &text, originHash)
	return text, err
}
