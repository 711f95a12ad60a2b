package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/server/httpapi"
)

// The limits of one page if each payload must be searched, or if pruned ones were passed over.
const (
	textRecords = 1 << 16
	textBytes   = 64 << 20
)

// pieces is a response that is written piece by piece. Until the first piece is sent, an error
// response is possible.
type pieces struct {
	bytes.Buffer
	c           *httpapi.Call
	status      int
	contentType string
	begun       bool
}

// send writes the buffered output if it has at least least bytes.
func (p *pieces) send(least int) error {
	if p.Len() < least {
		return nil
	}
	p.begin()
	_, err := p.WriteTo(p.c.W)
	return err
}

func (p *pieces) begin() {
	if !p.begun {
		p.begun = true
		p.c.W.Header().Set("Content-Type", p.contentType)
		p.c.W.WriteHeader(p.status)
	}
}

// isHead responds to a HEAD request.
func (p *pieces) isHead() bool {
	if p.c.Method != http.MethodHead {
		return false
	}
	p.begin()
	return true
}

// recordPage writes a page of records in JSON, in constant memory.
type recordPage struct{ *page }

func (a recordPage) WriteTo(c *httpapi.Call, status int) error {
	out := &pieces{c: c, status: status, contentType: "application/json"}
	if out.isHead() {
		return nil
	}
	out.WriteString(`{"records":[`)
	err := a.each(c, func(r *chain.Record) {
		if a.found > 0 {
			out.WriteByte(',')
		}
		out.Write(r.AppendJSON(out.AvailableBuffer()))
	}, func() (bool, error) {
		from, to := a.decided()
		return !a.filter.NeedsRecords() && a.scan.Pruned == 0 || to-from < textRecords && a.scan.Read < textBytes, out.send(rangeBytes)
	})
	if err != nil {
		return err
	}
	from, to := a.decided()
	fmt.Fprintf(out, `],"size":%d,"read":{"from":%d,"to":%d}`, a.size, from, to)
	if a.scan.Pruned > 0 {
		out.Write(strconv.AppendInt(append(out.AvailableBuffer(), `,"pruned":`...), a.scan.Pruned, 10))
	}
	if next := a.next(); next != "" {
		out.Write(jcs.AppendString(append(out.AvailableBuffer(), `,"next":`...), next))
	}
	out.WriteString("}\n")
	return out.send(0)
}

// recordLines writes the records in JSON, one per line, like GET /v1/chain.
type recordLines struct{ *page }

func (a recordLines) WriteTo(c *httpapi.Call, status int) error {
	out := &pieces{c: c, status: status, contentType: jsonLines.contentType}
	if out.isHead() {
		return nil
	}
	err := a.each(c, func(r *chain.Record) {
		out.Write(append(r.AppendLine(out.AvailableBuffer()), '\n'))
	}, func() (bool, error) { return true, out.send(rangeBytes) })
	if err != nil {
		return err
	}
	return out.send(0)
}
