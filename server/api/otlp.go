package api

import (
	"fmt"
	"net/http"
	"unicode/utf8"

	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service"
	"attestd/service/telemetry"
)

// Telemetry records telemetry.
type Telemetry struct{ Attestations *service.Attestations }

// exportRequest has the query parameters of an export of telemetry. Package telemetry decodes the
// body.
type exportRequest struct {
	Agent   string `query:"agent" must:"given"`
	All     string `query:"all" must:"given"`
	Content string `query:"content" must:"given"`
}

// Export implements OTLP/HTTP 1.x for a signal: each span or log record of an agent
// becomes a record. The answer is 200 only when each is recorded, or refused by partial_success.
func (s *Telemetry) Export(signal telemetry.Signal) httpapi.Handler {
	form := httpapi.FormOf[exportRequest]()
	serve := func(c *httpapi.Call) error {
		var r exportRequest
		if err := form.Read(c, &r); err != nil {
			return err
		}
		options, err := r.options()
		if err != nil {
			return err
		}
		encoding, err := exportEncoding(c)
		if err != nil {
			return err
		}
		export, err := readExport(c, signal, encoding)
		if err != nil {
			return err
		}
		by, err := c.By(httpapi.Anybody)
		if err != nil {
			return err
		}
		if options.Agent == "" { // a caller that is one agent acts for no other
			options.Agent = by.Agent
		}
		items := export.Select(options)
		if err := spendExport(c, items); err != nil {
			return err
		}
		if err := s.Attestations.AppendTelemetry(c.Context(), by, items, options); err != nil {
			return err
		}
		return answerExport(c, signal, encoding, items)
	}
	return httpapi.Handler{Serve: serve, Form: form, Refuse: refuseExport}
}

func (r *exportRequest) options() (o telemetry.Options, err error) {
	if o.Agent = r.Agent; !utf8.ValidString(r.Agent) || utf8.RuneCountInString(r.Agent) > httpapi.MaxName {
		return o, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: agent must have 1 to 256 characters")
	}
	if o.All = r.All == "true"; !o.All && r.All != "" && r.All != "false" {
		return o, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: all must be true or false")
	}
	if o.RecordContent = r.Content == "keep"; !o.RecordContent && r.Content != "" && r.Content != "hash" {
		return o, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: content must be hash or keep")
	}
	return o, nil
}

// spendExport counts the items that are to be recorded as that many calls of POST /v1/attest.
func spendExport(c *httpapi.Call, items []telemetry.Item) error {
	n := 0
	for i := range items {
		if items[i].Refused == "" {
			n++
		}
	}
	most := c.Most(limit.Attest)
	switch {
	case n == 0:
		return nil
	case most > 0 && n > most:
		return httpapi.Fail(http.StatusBadRequest, fmt.Sprintf("An export of %d records is more than the %d that this server lets a credential attest in a minute; "+
			"export smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_BLRP_MAX_EXPORT_BATCH_SIZE), or have the operator raise attest in --rate-limits", n, most))
	}
	return c.Spend(limit.Attest, n)
}

// The memory that decoding an export is charged for beyond its bytes and their copies: for each
// message in it, and for each record of the part that is appended at once.
const (
	messageCost = 256
	exportCost  = 4 << 10
)

// readExport reads and decodes the body, which stays charged until the response.
func readExport(c *httpapi.Call, signal telemetry.Signal, encoding telemetry.Encoding) (*telemetry.Export, error) {
	raw, err := c.ReadCompressed()
	if err != nil {
		return nil, err
	}
	messages, err := telemetry.Weigh(signal, encoding, raw)
	if err != nil {
		return nil, malformedExport(err)
	}
	if len(raw) > httpapi.Uncharged {
		size := int64(len(raw))
		if encoding == telemetry.JSON && !utf8.Valid(raw) {
			size *= int64(len("\uFFFD")) // which replaces each byte that is no text
		}
		cost := int64(messages)*messageCost + httpapi.Copies*size + int64(min(messages, service.MaxItems))*exportCost
		if err := c.ChargeDecoding(cost); err != nil {
			return nil, err
		}
	}
	export, err := telemetry.Decode(signal, encoding, raw)
	if err != nil {
		return nil, malformedExport(err)
	}
	return export, nil
}

func malformedExport(err error) error {
	return httpapi.Fail(http.StatusBadRequest, "Malformed export: "+telemetry.Reason(err))
}
