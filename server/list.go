package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
)

// list is an answer that is an array of any length, and perhaps their number. It is written as it
// is read, in constant memory, and broken off where reading fails: what ends with its last brace is
// whole.
type list[T any] struct {
	name  string
	items iter.Seq2[T, error]
	most  int            // items of a page; 0 for all
	next  func(T) string // cursor after an item: the member "next" where there are more than most
	rest  string         // cursor after the last item where more may follow that were not looked at
	total *int64         // the member "total", if the answer has one
}

// listBytes is after how many bytes of a list what was read is written.
const listBytes = 32 << 10

func (l list[T]) writeTo(c *call, status int) error {
	next, stop := iter.Pull2(l.items)
	defer stop()
	item, err, more := next()
	if err != nil { // nothing is written yet: this can still be an answer of its own
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
		b.Truncate(b.Len() - 1) // the line feed that an Encoder ends with
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
