package attestd

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// LogInfo is a chain as a log that standard tools read.
type LogInfo struct {
	Log        Log      `json:"log"`
	LogID      string   `json:"logId"`
	Origin     string   `json:"origin"`
	VKeys      []string `json:"vkeys"` // the one that signs now first
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

// LogProof returns a proof that a record is in a log, with the checkpoint (c2sp.org/tlog-proof).
func (c *Client) LogProof(ctx context.Context, logID string, index int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/proof/{index}", nil, &text, logID, strconv.FormatInt(index, 10))
	return text, err
}

// LogConsistency returns the newest checkpoint and the proof that a log has only grown since it had
// from records.
func (c *Client) LogConsistency(ctx context.Context, logID string, from int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/consistency", url.Values{"from": {strconv.FormatInt(from, 10)}}, &text, logID)
	return text, err
}

// Witness is a service as a witness of others' logs.
type Witness struct {
	Name string `json:"name"`
	VKey string `json:"vkey"`
}

// Witness returns the witness that the service is.
func (c *Client) Witness(ctx context.Context) (w Witness, err error) {
	err = c.get(ctx, "/v1/witness", nil, &w)
	return w, err
}

// AddCheckpoint asks the service, as a witness, for a cosignature; the body is that of
// c2sp.org/tlog-witness.
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
