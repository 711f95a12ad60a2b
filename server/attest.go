package server

import (
	"context"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// attestations append records.
type attestations struct{ attestations *service.Attestations }

// attestForm is the form of POST /v1/attest, where the idempotency key is a header. In an item of a
// batch it is a member.
var attestForm = httpapi.FormOf[service.Attestation]().FromHeader("idempotencyKey", "Idempotency-Key")

// attest appends a record.
func (s *attestations) attest(ctx context.Context, by store.Caller, r service.Attestation) (*appended, error) {
	all, err := s.attestations.Append(ctx, by, r)
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
