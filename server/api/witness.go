package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"attestd/chain/witness"
	"attestd/server/httpapi"
	"attestd/store"
)

// Witness are those that this service makes as a witness of the logs of others.
type Witness struct {
	Store    *store.Store
	Cosigner *witness.Cosigner // nil cosigns none
	Stopped  error             // why Cosigner is nil although configured, or nil
}

func (s *Witness) AddCheckpoint() httpapi.Handler {
	return httpapi.Handler{Serve: s.cosign, Form: httpapi.FormOf[httpapi.None]()}
}

// IsWitness admits calls if this service cosigns the logs of others.
func (s *Witness) IsWitness(c *httpapi.Call) error {
	if s.Cosigner == nil && s.Stopped != nil {
		return s.Stopped
	}
	if s.Cosigner == nil {
		return httpapi.Fail(http.StatusNotFound, "Not Found: this server is no witness")
	}
	return nil
}

type witnessBody struct {
	Name string `json:"name"`
	VKey string `json:"vkey"`
}

// Get returns the name and the key of this service's cosignatures. It is an addition to the
// specification.
func (s *Witness) Get(context.Context, store.Caller, httpapi.None) (witnessBody, error) {
	key := s.Cosigner.VKey()
	return witnessBody{key.Name, key.String()}, nil
}

// addCheckpoint cosigns a checkpoint of another log (c2sp.org/tlog-witness). Its errors have the
// format of all others, except for the last cosigned size, which has its own.
func (s *Witness) cosign(c *httpapi.Call) error {
	// a text format with a bounded size
	raw, err := c.ReadAtMost(min(c.MaxBody(), witness.MaxRequest))
	if err != nil {
		return err
	}
	by, err := c.By(httpapi.Anonymous)
	if err != nil {
		return err
	}
	answer, err := s.Cosigner.AddCheckpoint(c.Context(), raw, by.At)
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK && answer.Status != http.StatusConflict {
		return httpapi.Fail(answer.Status, answer.Body)
	}
	return httpapi.File{ContentType: answer.ContentType, Caching: "no-store", Content: []byte(answer.Body)}.WriteTo(c, answer.Status)
}

type cosignedRequest struct {
	OriginHash string `path:"originHash"`
}

// Checkpoint returns the last cosigned checkpoint of a log, for monitors.
func (s *Witness) Checkpoint(ctx context.Context, _ store.Caller, r cosignedRequest) (httpapi.File, error) {
	var hash [sha256.Size]byte
	if n, err := hex.Decode(hash[:], []byte(r.OriginHash[:min(len(r.OriginHash), 2*len(hash))])); err != nil ||
		n != len(hash) || hex.EncodeToString(hash[:]) != r.OriginHash {
		return httpapi.File{}, httpapi.Fail(http.StatusNotFound, "No such log is cosigned here")
	}
	note, err := s.Store.Cosigner.Logs().Checkpoint(ctx, hash)
	if errors.Is(err, store.ErrNotFound) {
		return httpapi.File{}, httpapi.Fail(http.StatusNotFound, "No such log is cosigned here")
	}
	return httpapi.File{ContentType: httpapi.PlainText, Caching: "no-cache", Content: []byte(note)}, err
}
