package server

import (
	"context"

	"attestd/service"
	"attestd/store"
)

// attestForm is how POST /v1/attest reads an attestation: its idempotency key is a header, and not
// the member that it is in an item of a batch.
var attestForm = formOf[service.Attestation]().fromHeader("idempotencyKey", "Idempotency-Key")

// attest appends a record.
func (s *Server) attest(ctx context.Context, by store.Caller, r service.Attestation) (*appended, error) {
	all, err := s.attestations.Append(ctx, by, r)
	if err != nil {
		return nil, err
	}
	record := &all[0]
	return &appended{append(record.AppendJSON(make([]byte, 0, len(record.Payload)+512)), '\n'), record.Replayed}, nil
}

// appended is the answer of an append. One in which nothing is new says so in a header.
type appended struct {
	json     []byte
	replayed bool
}

func (a *appended) writeTo(c *call, status int) error {
	if a.replayed {
		c.w.Header().Set("Idempotent-Replayed", "true")
	}
	return c.bytes(status, a.json)
}
