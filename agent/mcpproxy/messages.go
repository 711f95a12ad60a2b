package mcpproxy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"strings"
	"sync"

	"attestd/chain/action"
	"attestd/sdk/attestd"
)

const (
	// maxMessages bounds the requests of a server that have a record of their own, in each interval
	// in which a session looks for calls that are overdue. The others are counted.
	maxMessages = 100
	// maxMethods bounds the methods that are counted apart, and maxAsked the requests of a server
	// whose answers are recorded.
	maxMethods, maxAsked = 32, 1000
)

// otherMethods counts the messages of further methods.
const otherMethods = "others"

// otherMessage is a message that is no call of a tool.
type otherMessage struct {
	action.Message
	content []byte // of which the hash is recorded
	counts  bool   // it is counted, and has no record of its own
}

// messages are the messages of a session other than calls, as far as they are not recorded yet.
// What a server says without being asked may come by the thousand, such as progress: it is counted,
// and recorded once in each interval.
type messages struct {
	mu    sync.Mutex
	apart int               // requests of the server with a record of their own in this interval
	asked map[string]string // methods of the server's open requests, by exchange and ID

	// of the goroutine that records
	last    uint64 // number of the last record
	counted map[string]*counted
	methods []string // of counted, in the order in which they came
}

// counted are messages of one method that share a record.
type counted struct {
	count, bytes int
	hashes       hash.Hash
	first        []byte // the hash of the first
}

// contentOf names what a request of the client reads, also where a lenient server alone reads its
// method so. reads is false for one that reads nothing. duplicate says that two parsers could find
// another name.
func contentOf(m message) (name string, reads, duplicate bool) {
	for method, member := range namedBy {
		if method != toolsCall && resembles(m.method, method) {
			_, duplicate, _ = members(m.params, map[string]func([]byte){member: func(v []byte) { name = text(v) }})
			return name, true, duplicate
		}
	}
	return "", false, false
}

// read is what the client has read with a request, or why it has read nothing.
func read(c *call, content []byte, why string) *otherMessage {
	return &otherMessage{Message: action.Message{From: "client", Method: c.method, Name: c.tool, RequestID: c.name, Error: why}, content: content}
}

// fromServer returns a message of the server that is no response; nil for one that is not recorded.
func (p *Proxy) fromServer(exchange uint64, m message) *otherMessage {
	if p.CallsOnly || m.method == "ping" {
		return nil
	}
	one := &otherMessage{Message: action.Message{From: "server", Method: m.method, RequestID: spelt(m.id)}, content: m.params, counts: true}
	if m.id == nil {
		return one
	}
	s := &p.messages
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]string{}
	}
	if len(s.asked) < maxAsked {
		s.asked[askedKey(exchange, m.id)] = action.RecordedName(m.method)
	}
	if s.apart < maxMessages {
		s.apart++
		one.counts = false
	}
	return one
}

// answeredServer is the client's answer to a request of the server; nil for any other.
func (p *Proxy) answeredServer(exchange uint64, m message) *otherMessage {
	s := &p.messages
	s.mu.Lock()
	defer s.mu.Unlock()
	method, known := s.asked[askedKey(exchange, m.id)]
	if !known {
		return nil
	}
	delete(s.asked, askedKey(exchange, m.id))
	one := &otherMessage{Message: action.Message{From: "client", Method: method, RequestID: spelt(m.id), Error: faultOf(m)}, content: m.result}
	one.counts = s.apart >= maxMessages
	s.apart++
	return one
}

// faultOf returns what the error of a response says; "" for none.
func faultOf(m message) string {
	if m.fault == nil {
		return ""
	}
	code, text, _ := readFault(m.fault)
	return fmt.Sprintf("%s (code %s)", text, code)
}

func askedKey(exchange uint64, id []byte) string {
	key := keyOf(exchange, id)
	return fmt.Sprintf("%d:%s", key.exchange, key.id)
}

// recordOther queues a message for recording; nil is none.
func (p *Proxy) recordOther(m *otherMessage) {
	if m != nil {
		p.outcome(ended{message: m, size: int64(len(m.content))})
	}
}

// hasRecorded reports whether the session has records but for its end. It is asked when all is
// recorded.
func (p *Proxy) hasRecorded() bool { return p.calls.last > 0 || p.messages.last > 0 }

// nextInterval lets the requests of the server have records of their own again.
func (s *messages) nextInterval() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apart = 0
}

// messageRecords makes the records that are due with a message: its own, or with nil those of the
// messages that were counted.
func (p *Proxy) messageRecords(m *otherMessage) (list []attestd.Attestation) {
	if m == nil {
		for _, counted := range p.messages.drain() {
			list = append(list, p.messageRecord(counted))
		}
		return list
	}
	if len(m.content) > 0 {
		m.Content = p.Policy.Hash(m.content)
	}
	if m.counts {
		p.messages.count(m.From, action.RecordedName(m.Method), m.Content)
		return nil
	}
	return []attestd.Attestation{p.messageRecord(m.Message)}
}

func (p *Proxy) messageRecord(m action.Message) attestd.Attestation {
	m.Server, m.SessionID = p.Server, p.session
	r := p.Policy.Message(m)
	p.messages.last++
	return attestd.Attestation{AgentID: p.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: fmt.Sprintf("%s:message:%d", p.keys, p.messages.last)}
}

// count adds a message to those of its sender and method.
func (s *messages) count(from, method string, content []byte) {
	if s.counted == nil {
		s.counted = map[string]*counted{}
	}
	of := s.counted[from+" "+method]
	if of == nil && len(s.counted) >= maxMethods {
		method = otherMethods
		of = s.counted[from+" "+method]
	}
	if of == nil {
		of = &counted{hashes: sha256.New(), first: content}
		s.counted[from+" "+method] = of
		s.methods = append(s.methods, from+" "+method)
	}
	var one struct {
		SHA256 string
		Bytes  int
	}
	_ = json.Unmarshal(content, &one) // a message without content has neither
	of.count++
	of.bytes += one.Bytes
	fmt.Fprintf(of.hashes, "%s\n", one.SHA256)
}

// drain returns the counts and resets them.
func (s *messages) drain() (list []action.Message) {
	for _, name := range s.methods {
		of := s.counted[name]
		from, method, _ := strings.Cut(name, " ")
		m := action.Message{From: from, Method: method, Count: of.count, Content: of.first}
		if of.count > 1 {
			m.Content = fmt.Appendf(nil, `{"sha256":"%x","bytes":%d}`, of.hashes.Sum(nil), of.bytes)
		}
		list = append(list, m)
	}
	s.counted, s.methods = nil, nil
	return list
}
