package service

import "sync"

// maxParsed bounds the texts of one parsed, in bytes.
const maxParsed = 4 << 20

// parsed remembers what texts of rows mean. That depends on nothing else, so none is parsed anew at
// each use, and nothing has to be forgotten when a row goes. It is safe for concurrent use.
type parsed[T any] struct {
	parse func([]byte) (T, error)

	mu    sync.Mutex
	known map[string]T
	size  int // of the texts
}

// of returns what a text means. Beyond maxParsed all is forgotten at once: what is in use fits.
func (p *parsed[T]) of(text string) (T, error) {
	p.mu.Lock()
	v, is := p.known[text]
	p.mu.Unlock()
	if is {
		return v, nil
	}
	v, err := p.parse([]byte(text))
	if err != nil {
		return v, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, is := p.known[text]; is {
		return v, nil
	}
	if p.size += len(text); p.known == nil || p.size > maxParsed {
		p.known, p.size = map[string]T{}, len(text)
	}
	p.known[text] = v
	return v, nil
}
