package limit

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// A promised length reserves nothing: 1,800 promises of a mebibyte hold the first small buffer
// each, and no more before bytes come.
func TestContentLengthReservesNothing(t *testing.T) {
	t.Parallel()
	pool := NewPool(Bodies(256<<20, 4<<20))
	const promises = 1800
	waiting := make(chan struct{})
	type outcome struct {
		body *Body
		err  error
	}
	outcomes := make(chan outcome)
	var silent []*io.PipeWriter
	for range promises {
		r, w := io.Pipe()
		silent = append(silent, w)
		go func() {
			body, err := ReadBody(pool, Holder{}, announced{r, waiting}, 1<<20)
			outcomes <- outcome{body, err}
		}()
	}
	for range promises {
		<-waiting
	}
	pool.wantUse(t, promises*firstRead)
	for _, w := range silent {
		_ = w.CloseWithError(errors.New("gone"))
	}
	for range promises {
		if o := <-outcomes; o.err == nil || o.body != nil {
			t.Fatalf("a body that never came: %v, %v", o.body, o.err)
		}
	}
	pool.wantUse(t, 0)
}

// announced is a reader that says when it is first asked.
type announced struct {
	io.Reader
	asked chan<- struct{}
}

func (a announced) Read(p []byte) (int, error) {
	a.asked <- struct{}{}
	return a.Reader.Read(p)
}

// A body is read in full whatever its length, its promise and its pace, in a buffer of at most
// twice its length, and given back.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 300, firstRead - 1, firstRead, firstRead + 1, 2 * firstRead, 100_000, 1 << 20} {
		want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		for name, promised := range map[string]int64{"exact": int64(size), "none": -1, "too little": int64(size / 2), "too much": int64(2 * size)} {
			if promised == 0 && size > 0 {
				continue // net/http lets nothing come when nothing is promised
			}
			for pace, r := range map[string]io.Reader{
				"at once": bytes.NewReader(want), "by halves": iotest.HalfReader(bytes.NewReader(want)), "with the end": iotest.DataErrReader(bytes.NewReader(want)),
			} {
				pool := NewPool(Size{})
				body, err := ReadBody(pool, Holder{}, r, promised)
				if err != nil || !bytes.Equal(body.Bytes, want) {
					t.Fatalf("%d bytes, promise %s, %s: %d bytes, %v", size, name, pace, len(body.Bytes), err)
				}
				held, _ := pool.Use()
				if held != int64(cap(body.Bytes)) || held > int64(max(firstRead, 2*size)) {
					t.Errorf("%d bytes, promise %s, %s: %d held for a buffer of %d", size, name, pace, held, cap(body.Bytes))
				}
				if name == "exact" && held > int64(size+1) {
					t.Errorf("%d bytes, as promised, %s: %d held", size, pace, held)
				}
				body.Release()
				body.Release() // twice is once
				pool.wantUse(t, 0)
			}
		}
	}
}

// Over the budget a body is refused and holds nothing; what the others hold stays, and when it is
// given back there is room again.
func TestBodiesOverBudget(t *testing.T) {
	t.Parallel()
	pool := NewPool(Size{Most: 1 << 20, Share: 512 << 10, Reserved: 256 << 10})
	stranger := func(n int) Holder { return Holder{Address: address(n)} }
	read := func(h Holder, size int) (*Body, error) {
		return ReadBody(pool, h, bytes.NewReader(make([]byte, size)), int64(size))
	}
	first, err := read(stranger(1), 400<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(stranger(1), 200<<10); !errors.Is(err, ErrShare) {
		t.Errorf("over the share of an address: %v", err)
	}
	second, err := read(stranger(2), 300<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(stranger(3), 200<<10); !errors.Is(err, ErrFull) || errors.Is(err, ErrShare) {
		t.Errorf("a stranger, when only what is kept is left: %v", err)
	}
	third, err := read(Holder{Company: 1, Known: true}, 200<<10)
	if err != nil {
		t.Errorf("one with a credential: %v", err)
	}
	for _, b := range []*Body{first, second, third} {
		b.Release()
	}
	pool.wantUse(t, 0)
	if again, err := read(stranger(1), 400<<10); err != nil {
		t.Errorf("afterwards: %v", err)
	} else {
		again.Release()
	}
}
