package mcpproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// event is a server-sent event (HTML Standard, section 9.2.6), or a comment.
type event struct {
	comment  bool
	name, id string
	retry    string // digits
	hasID    bool
	data     []byte // nil if it has none
}

// events reads server-sent events. Lines end with CR, LF or CRLF. The lines of an event's data are
// joined with spaces instead of line feeds, which JSON does not distinguish.
type events struct {
	in      *bufio.Reader
	limit   int     // bytes of an event
	budget  *budget // charged for long events; nil for none
	began   bool
	afterCR bool
	size    int // bytes of the current event so far
}

func newEvents(in io.Reader, limit int, b *budget) *events {
	return &events{in: bufio.NewReaderSize(in, 32<<10), limit: limit, budget: b}
}

// next returns the next event. At the end of the stream it returns an event without the blank line
// after it, and then io.EOF. A stream that is cut off loses its last event.
func (e *events) next() (ev event, err error) {
	e.size = 0
	for {
		line, err := e.line()
		if err != nil && err != io.EOF {
			return event{}, err
		}
		if !e.began {
			e.began, line = true, bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		switch {
		case len(line) > 0 && line[0] == ':':
			if ev.isEmpty() && err == nil {
				return event{comment: true}, nil
			}
		case len(line) > 0:
			ev.add(line)
		case !ev.isEmpty():
			return ev, nil
		default:
			e.size = 0
		}
		if err == io.EOF {
			if ev.isEmpty() {
				return event{}, io.EOF
			}
			return ev, nil // the next read returns io.EOF again
		}
	}
}

func (ev *event) isEmpty() bool {
	return ev.name == "" && !ev.hasID && ev.retry == "" && ev.data == nil
}

// add adds the field in a line. Unknown fields are ignored.
func (ev *event) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		ev.name = string(value)
	case "data":
		if ev.data != nil {
			ev.data = append(ev.data, ' ')
		}
		ev.data = append(ev.data, value...)
		if ev.data == nil {
			ev.data = []byte{}
		}
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			ev.id, ev.hasID = string(value), true
		}
	case "retry":
		if len(value) > 0 && len(bytes.Trim(value, "0123456789")) == 0 {
			ev.retry = string(value)
		}
	}
}

// line returns the next line without its end. With io.EOF it returns what follows the last one.
func (e *events) line() (line []byte, err error) {
	for {
		if _, err := e.in.Peek(1); err != nil {
			return line, err
		}
		part, _ := e.in.Peek(e.in.Buffered())
		if e.afterCR {
			e.afterCR = false
			if part[0] == '\n' {
				_, _ = e.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(part, "\r\n")
		n := end
		if end < 0 {
			n = len(part)
		}
		if e.size += n; e.size > e.limit {
			return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, e.limit)
		}
		if !e.budget.cover(e.size) {
			return nil, errNoMemory
		}
		line = append(line, part[:n]...)
		if end < 0 {
			_, _ = e.in.Discard(n)
			continue
		}
		e.afterCR = part[end] == '\r'
		_, _ = e.in.Discard(n + 1)
		return line, nil
	}
}

// bytes returns the event in the form that every parser reads alike: lines end with LF, each field
// occurs once, and names and IDs are printable ASCII. Others are dropped, as is the text of
// comments.
func (ev *event) bytes() []byte {
	if ev.comment {
		return []byte(":\n\n")
	}
	text := make([]byte, 0, len(ev.data)+len(ev.name)+len(ev.id)+64)
	if ev.name != "" && isPrintable(ev.name) {
		text = append(append(append(text, "event: "...), ev.name...), '\n')
	}
	if ev.hasID && isPrintable(ev.id) {
		text = append(append(append(text, "id: "...), ev.id...), '\n')
	}
	if ev.retry != "" {
		text = append(append(append(text, "retry: "...), ev.retry...), '\n')
	}
	if ev.data != nil {
		text = append(append(append(text, "data: "...), ev.data...), '\n')
	}
	return append(text, '\n')
}

// isPrintable reports whether a text has only visible ASCII characters and spaces between them.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) && text == strings.TrimSpace(text)
}

// stream forwards a stream of events, one by one, until it ends or the client has gone.
func (x *exchange) stream(d *departure, resp *http.Response) {
	if !x.streams {
		x.Remote.returnHeader(x.w.Header(), resp.Header)
		x.beginStream()
	}
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
			if instead, outcomes = p.filterMessages(exchange, messages, batch, arrived); instead != nil {
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
