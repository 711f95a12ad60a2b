package api

import (
	"context"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Attestations append records.
type Attestations struct{ Attestations *service.Attestations }

// AttestForm is the form of POST /v1/attest, where the idempotency key is a header. In an item of a
// batch it is a member.
var AttestForm = httpapi.FormOf[service.Attestation]().FromHeader("idempotencyKey", "Idempotency-Key")

// Attest appends a record.
func (s *Attestations) Attest(ctx context.Context, by store.Caller, r service.Attestation) (*appended, error) {
	all, err := s.Attestations.Append(ctx, by, r)
	if err != nil {
		return nil, err
	}
	record := &all[0]
	return &appended{append(record.AppendJSON(make([]byte, 0, len(record.Payload)+512)), '\n'), record.Replayed}, nil
}

// appended is the response to an append. A header tells if all records existed already.
type appended struct {
	json     []byte
	replayed bool
}

func (a *appended) WriteTo(c *httpapi.Call, status int) error {
	if a.replayed {
		c.W.Header().Set("Idempotent-Replayed", "true")
	}
	return c.Bytes(status, a.json)
}
