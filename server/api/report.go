package api

import (
	"bytes"
	"context"
	"net/http"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/server/httpapi"
	"attestd/store"
)

type reportRequest struct {
	From string `query:"from"`
	To   string `query:"to"`
}

// report is a response with the stored records of a period, in constant memory.
type report struct {
	store *store.Store
	evidence.Report
	chains [2]int64
}

// Report returns all records of a period from both logs.
func (s *Evidence) Report(ctx context.Context, by store.Caller, r reportRequest) (report, error) {
	head, err := s.Proofs.Report(ctx, by, r.From, r.To)
	return report{s.Store, head, [2]int64{by.Company.Actions.Chain, by.Company.Control.Chain}}, err
}

func (report) SetHeader(h http.Header) { h.Set("Cache-Control", "no-store") }

func (a report) WriteTo(c *httpapi.Call, status int) error {
	c.W.Header().Set("Content-Type", jsonLines.contentType)
	c.W.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	buf := bytes.NewBuffer(append(a.Header(), '\n'))
	for _, i := range []int{1, 0} { // changes before actions
		l := &a.File.Logs[i]
		checkpoint, _, err := tlog.ParseSignedCheckpoint([]byte(a.Periods[i].End))
		if err == nil {
			err = eachRecord(c, a.store, buf, a.chains[i], a.Periods[i].Frontier.Size, checkpoint.Size, func(r *chain.Record) {
				buf.Write(append(evidence.AppendLine(buf.AvailableBuffer(), l.Name, r), '\n'))
			})
		}
		if err != nil {
			return err
		}
	}
	_, err := buf.WriteTo(c.W)
	return err
}
