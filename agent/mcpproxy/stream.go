package mcpproxy

import (
	"io"
	"net/http"
	"time"
)

// stream forwards a stream of events, one by one, until it ends or the client has gone.
func (x *exchange) stream(d *departure, resp *http.Response) {
	h := x.w.Header()
	x.Remote.returnHeader(h, resp.Header)
	h.Set("Content-Type", sseType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	x.w.WriteHeader(http.StatusOK)
	x.write(nil)
	if d.answer != nil { // to refused messages of a batch
		x.write((&event{name: "message", data: d.answer[:len(d.answer)-1]}).bytes())
	}
	in, resumable := newEvents(resp.Body, x.MaxLine, x.budget), false
	for first := true; !x.gone; first = false {
		ev, err := in.next()
		if err != nil {
			if err != io.EOF && x.ctx.Err() == nil {
				x.warn("a response of the server has ended: %v", plainError(err))
			}
			break
		}
		if first && ev.name == "endpoint" && x.r.Method == http.MethodGet {
			x.warn("the server speaks the transport HTTP+SSE of 2024-11-05, which is not supported: name its address for streamable HTTP")
		}
		resumable = resumable || ev.id != ""
		outcomes := x.session.proxy.filterEvent(x.number, &ev, time.Now())
		x.write(ev.bytes())
		for _, o := range outcomes {
			x.session.proxy.outcome(o)
		}
		x.budget.release()
	}
	answers, record := x.abandon(d, x.reason().Error(), resumable && x.id != "")
	for _, a := range answers {
		if !x.gone {
			x.write((&event{name: "message", data: a}).bytes())
		}
	}
	record()
}

// write sends bytes of a stream to the client at once.
func (x *exchange) write(text []byte) {
	_ = x.out.SetWriteDeadline(time.Now().Add(bodyTimeout))
	if len(text) > 0 {
		if _, err := x.w.Write(text); err != nil {
			x.gone = true
			return
		}
	}
	x.gone = x.out.Flush() != nil
}

// filterEvent judges the messages in an event, whatever its name, because some clients ignore it.
// It replaces what is not forwarded, and returns the outcomes to record.
func (p *Proxy) filterEvent(exchange uint64, ev *event, arrived time.Time) (outcomes []ended) {
	if isBlank(ev.data) {
		return nil
	}
	data, err := escapeSeparators(ev.data, p.MaxLine)
	if err == nil {
		ev.data = data
		var messages []message
		var batch bool
		if messages, batch, err = readBody(data); err == nil {
			var instead []byte
			if instead, outcomes = p.judge(exchange, messages, batch, arrived); instead != nil {
				ev.data = instead
			}
			return outcomes
		}
	}
	p.warn("an event of the server is withheld: %v", err)
	line := withheldLine(err)
	ev.data = line[:len(line)-1]
	return nil
}
