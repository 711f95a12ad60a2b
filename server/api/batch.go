package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"attestd/chain"
	"attestd/crypto/strictjson"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service"
	"attestd/store"
)

type batchRequest struct {
	_       struct{}        `missing:"Missing or invalid field: records is required" list:"yes"`
	Records json.RawMessage `json:"records" must:"present"`
	items   []service.Attestation
}

// AttestBatch appends records, all or none.
func (s *Attestations) AttestBatch(ctx context.Context, by store.Caller, r batchRequest) (*appended, error) {
	all, err := s.Attestations.Append(ctx, by, r.items...)
	if err != nil {
		return nil, inBatch(err)
	}
	size := 32
	for i := range all {
		size += len(all[i].Payload) + 512
	}
	answer := &appended{append(make([]byte, 0, size), `{"records":[`...), true}
	for i := range all {
		if i > 0 {
			answer.json = append(answer.json, ',')
		}
		answer.json = all[i].AppendJSON(answer.json)
		answer.replayed = answer.replayed && all[i].Replayed
	}
	answer.json = append(answer.json, "]}\n"...)
	return answer, nil
}

// inBatch adds the index of the item to a refusal of it.
func inBatch(err error) error {
	var item *chain.DraftError
	if !errors.As(err, &item) {
		return err
	}
	refused := *httpapi.Classify(item.Err)
	if refused.Status >= http.StatusInternalServerError {
		return &refused // no fault of the item
	}
	refused.Pointer = "/records/" + strconv.Itoa(item.Draft) + refused.At
	return &refused
}

var itemForm = httpapi.FormOf[service.Attestation]()

// Spend parses the items and counts them as that many calls of POST /v1/attest.
func (r *batchRequest) Spend(c *httpapi.Call) error {
	if err := r.read(); err != nil {
		return err
	}
	if most := c.Most(limit.Attest); most > 0 && len(r.items) > most {
		return httpapi.Fail(http.StatusBadRequest, fmt.Sprintf("A batch of %d records is more than the %d that this server lets a credential attest in a minute; "+
			"send smaller ones, or have the operator raise attest in --rate-limits", len(r.items), most))
	}
	return c.Spend(limit.Attest, len(r.items))
}

func (r *batchRequest) read() error {
	var raw [][]byte
	err := strictjson.EachElement(r.Records, 2*httpapi.MaxDepth, func(value []byte) {
		if len(raw) <= service.MaxItems {
			raw = append(raw, value)
		}
	})
	if errors.Is(err, strictjson.ErrKind) || err == nil && (len(raw) == 0 || len(raw) > service.MaxItems) {
		return httpapi.Fail(http.StatusBadRequest, fmt.Sprintf("Invalid field: records must be an array of 1 to %d objects",
			service.MaxItems))
	}
	if err != nil {
		return httpapi.Malformed(err)
	}
	r.items = make([]service.Attestation, len(raw))
	keys := make(map[string]int)
	for i, text := range raw {
		item := &r.items[i]
		if err := readItem(text, item); err != nil {
			return inBatch(&chain.DraftError{Draft: i, Err: err})
		}
		if first, twice := keys[item.Key]; twice && item.Key != "" {
			refused := httpapi.Fail(http.StatusBadRequest,
				fmt.Sprintf("Invalid field: idempotencyKey is that of records[%d] too; each record needs a key of its own", first))
			return inBatch(&chain.DraftError{Draft: i, Err: httpapi.At(refused, "/idempotencyKey")})
		}
		keys[item.Key] = i
	}
	return nil
}

func readItem(text []byte, item *service.Attestation) error {
	members, err := itemForm.ParseObject(text, 2*httpapi.MaxDepth, httpapi.Strict)
	switch {
	case errors.Is(err, strictjson.ErrKind):
		return itemForm.MissingField(nil)
	case err != nil:
		return err
	}
	return itemForm.Fill(nil, members, reflect.ValueOf(item).Elem())
}
