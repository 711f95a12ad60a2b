package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"attestd/crypto/jcs"
)

// List is a response with an array of any length, and optionally its total. It is written while it
// is read, in constant memory, and aborted if reading fails. So a response with its closing brace
// is complete.
type List[T any] struct {
	Name  string
	Items iter.Seq2[T, error]
	Most  int // items per page; 0 for all
	// returns the cursor after an item, for the member "next" if there are more than most
	Next  func(T) string
	Rest  string // cursor after the last item, if more may follow that were not read
	Total *int64 // the member "total", if not nil
	Log   string // the member "log", if not ""
}

// listBytes is the size after which the output is written.
const listBytes = 32 << 10

func (l List[T]) WriteTo(c *Call, status int) error {
	next, stop := iter.Pull2(l.Items)
	defer stop()
	item, err, more := next()
	if err != nil { // nothing is written yet, so an error response is possible
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	b.WriteString(`{"` + l.Name + `":[`)
	var cursor string
	for n := 0; more; n++ {
		if l.Most > 0 && n == l.Most {
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
			if _, err := b.WriteTo(c.W); err != nil {
				return errors.Join(errClientGone, err)
			}
		}
		if l.Next != nil {
			cursor = l.Next(item)
		}
		if item, err, more = next(); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	if l.Total != nil {
		fmt.Fprintf(&b, `,"total":%d`, *l.Total)
	}
	if l.Log != "" {
		b.Write(jcs.AppendString([]byte(`,"log":`), l.Log))
	}
	if !more {
		cursor = l.Rest
	}
	if cursor != "" {
		b.WriteString(`,"next":`)
		if err := encode.Encode(cursor); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("}\n")
	_, _ = b.WriteTo(c.W)
	return nil
}

var errClientGone = errors.New("the client takes no more of the answer")
