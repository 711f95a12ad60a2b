package limit

import "io"

// firstRead is the initial buffer size of a body, whatever its announced length.
const firstRead = 4 << 10

// Body is a request body in memory. Its buffer counts against a Pool until Release.
type Body struct {
	Bytes  []byte
	pool   *Pool
	holder Holder
	held   int64
}

// ReadBody reads r to its end into a buffer that grows as bytes arrive, so an announced length
// reserves nothing. The buffer is charged to pool before it is allocated. ErrFull and ErrShare mean
// that there was no room for the next bytes; any other error is from r. promised is the announced
// length, or -1. After an error nothing is held; otherwise the caller MUST call Release.
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

// grow doubles the buffer, up to the announced length and one byte for the read that finds the end.
func (b *Body) grow(promised int64) error {
	size := max(firstRead, 2*int64(cap(b.Bytes)))
	if promised >= int64(len(b.Bytes)) {
		size = min(size, promised+1)
	}
	if err := b.pool.Acquire(size-b.held, b.holder); err != nil {
		return err
	}
	b.held = size
	bigger := make([]byte, len(b.Bytes), size)
	copy(bigger, b.Bytes)
	b.Bytes = bigger
	return nil
}

// Release returns the buffer to the pool. Bytes MUST NOT be used afterwards.
func (b *Body) Release() {
	if b.held > 0 {
		b.pool.Release(b.held, b.holder)
	}
	b.Bytes, b.held = nil, 0
}
