package limit

import "io"

// firstRead is the buffer of a body of which nothing has come, whatever it promises.
const firstRead = 4 << 10

// Body is a request body in memory. Its buffer is held of a Pool until Release.
type Body struct {
	Bytes  []byte
	pool   *Pool
	holder Holder
	held   int64
}

// ReadBody reads r to its end into a buffer that grows as bytes come: what a stranger promises
// takes nothing. The buffer is taken of pool before it is made, so ErrFull and ErrShare mean that
// there was no room for the next bytes; any other error is of r. promised is the length that the
// request announces, or -1. With an error nothing is held; without one the caller must Release.
func ReadBody(pool *Pool, h Holder, r io.Reader, promised int64) (*Body, error) {
	b := &Body{pool: pool, holder: h}
	for promised != 0 {
		if len(b.Bytes) == cap(b.Bytes) {
			if err := b.grow(promised); err != nil {
				b.Release()
				return nil, err
			}
		}
		n, err := r.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, err
		}
	}
	return b, nil
}

// grow doubles the buffer, but not beyond what was promised and a byte, for the read that finds the
// end.
func (b *Body) grow(promised int64) error {
	size := max(firstRead, 2*int64(cap(b.Bytes)))
	if promised >= int64(len(b.Bytes)) {
		size = min(size, promised+1)
	}
	if err := b.pool.Take(size-b.held, b.holder); err != nil {
		return err
	}
	b.held = size
	bigger := make([]byte, len(b.Bytes), size)
	copy(bigger, b.Bytes)
	b.Bytes = bigger
	return nil
}

// Release gives the buffer back. Bytes must not be used after it.
func (b *Body) Release() {
	if b.held > 0 {
		b.pool.Give(b.held, b.holder)
	}
	b.Bytes, b.held = nil, 0
}
