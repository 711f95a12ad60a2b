package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"attestd/crypto/jcs"
)

// list is a response with an array of any length, and optionally its total. It is written while it
// is read, in constant memory, and aborted if reading fails. So a response with its closing brace
// is complete.
type list[T any] struct {
	name  string
	items iter.Seq2[T, error]
	most  int // items per page; 0 for all
	// returns the cursor after an item, for the member "next" if there are more than most
	next  func(T) string
	rest  string // cursor after the last item, if more may follow that were not read
	total *int64 // the member "total", if not nil
	log   string // the member "log", if not ""
}

// listBytes is the size after which the output is written.
const listBytes = 32 << 10

func (l list[T]) writeTo(c *call, status int) error {
	next, stop := iter.Pull2(l.items)
	defer stop()
	item, err, more := next()
	if err != nil { // nothing is written yet, so an error response is possible
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	b.WriteString(`{"` + l.name + `":[`)
	var cursor string
	for n := 0; more; n++ {
		if l.most > 0 && n == l.most {
			break
		}
		if n > 0 {
			b.WriteByte(',')
		}
		if err := encode.Encode(item); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the newline that an Encoder appends
		if b.Len() >= listBytes {
			if _, err := b.WriteTo(c.w); err != nil {
				return errors.Join(errClientGone, err)
			}
		}
		if l.next != nil {
			cursor = l.next(item)
		}
		if item, err, more = next(); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	if l.total != nil {
		fmt.Fprintf(&b, `,"total":%d`, *l.total)
	}
	if l.log != "" {
		b.Write(jcs.AppendString([]byte(`,"log":`), l.log))
	}
	if !more {
		cursor = l.rest
	}
	if cursor != "" {
		b.WriteString(`,"next":`)
		if err := encode.Encode(cursor); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("}\n")
	_, _ = b.WriteTo(c.w)
	return nil
}

var errClientGone = errors.New("the client takes no more of the answer")
