package api

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/server/httpapi"
)

// progressEvery is the interval of progress events.
const progressEvery = 250 * time.Millisecond

// recordEvents sends the records as server-sent events (text/event-stream in the HTML standard),
// each when it is found.
type recordEvents struct{ *page }

func (a recordEvents) WriteTo(c *httpapi.Call, status int) error {
	out := &pieces{c: c, status: status, contentType: "text/event-stream"}
	if out.isHead() {
		return nil
	}
	flusher := http.NewResponseController(c.W)
	last := time.Time{}
	var line []byte
	err := a.each(c, func(r *chain.Record) {
		line = r.AppendJSON(line[:0])
		writeEvent(&out.Buffer, "record", line)
	}, func() (bool, error) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			writeEvent(&out.Buffer, "progress", fmt.Appendf(nil, `{"read":%d,"at":%d,"size":%d}`, a.read(), a.border(), a.size))
		}
		if out.Len() == 0 {
			return true, nil
		}
		if err := out.send(0); err != nil {
			return false, err
		}
		return true, flusher.Flush()
	})
	if err != nil {
		return err
	}
	end := fmt.Appendf(nil, `{"read":%d,"found":%d`, a.read(), a.found)
	if a.scan.Pruned > 0 {
		end = fmt.Appendf(end, `,"pruned":%d`, a.scan.Pruned)
	}
	if next := a.next(); next != "" {
		end = jcs.AppendString(append(end, `,"next":`...), next)
	}
	writeEvent(&out.Buffer, "end", append(end, '}'))
	return out.send(0)
}

// read returns the number of searched records.
func (p *page) read() int64 {
	from, to := p.decided()
	return to - from
}

// writeEvent writes an event. White space in JSON may include line breaks; each starts another data
// line.
func writeEvent(b *bytes.Buffer, name string, data []byte) {
	b.WriteString("event: " + name + "\n")
	for {
		at := bytes.IndexAny(data, "\r\n")
		b.WriteString("data: ")
		if at < 0 {
			b.Write(data)
			b.WriteString("\n\n")
			return
		}
		b.Write(data[:at])
		b.WriteByte('\n')
		if data[at] == '\r' && at+1 < len(data) && data[at+1] == '\n' {
			at++
		}
		data = data[at+1:]
	}
}
