package export

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"attestd/internal/outbound"
	"attestd/internal/sleep"
)

// Forms of requests to an HTTPS receiver.
const (
	FormLines   = "ndjson"  // lines, each with a line feed; a 2xx without an HTML page acknowledges
	FormSplunk  = "splunk"  // HTTP Event Collector, with indexer acknowledgement where it is on
	FormElastic = "elastic" // _bulk of Elasticsearch and OpenSearch
)

// maxAnswer bounds an answer. One of _bulk has some 60 bytes an item.
const maxAnswer = 4 << 20

// HTTPS posts lines to a receiver. It follows no redirect, because the token is for this address
// alone.
type HTTPS struct {
	url     *url.URL
	form    string
	token   string
	client  *http.Client
	channel string // of Splunk: a random UUID
	// redacts the token in an answer, and other parts of the address that may be one, before an
	// error quotes it
	hide *strings.Replacer
}

// NewHTTPS returns the destination. The token may be empty; it is sent as Bearer, and in the forms
// splunk and elastic as Splunk and ApiKey.
func NewHTTPS(address, form, token string, config *tls.Config) (*HTTPS, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("the URL of a receiver looks like https://siem.example.com/path, without a password")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return nil, errors.New("the URL of a receiver begins with https://; only one on a loopback address may be http://")
	}
	if form != FormLines && form != FormSplunk && form != FormElastic {
		return nil, fmt.Errorf("the form of a receiver is %s, %s or %s, not %q", FormLines, FormSplunk, FormElastic, form)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token has characters that no token has")
	}
	config = config.Clone()
	config.MinVersion = tls.VersionTLS12
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.MaxResponseHeaderBytes = config, 16<<10
	h := &HTTPS{url: u, form: form, token: token, channel: uuid(), client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if form == FormElastic {
		h.url = u.JoinPath("_bulk")
		q := h.url.Query()
		q.Set("filter_path", "errors,items.*.status,items.*.error.type,items.*.error.reason")
		h.url.RawQuery = q.Encode()
	}
	var hidden []string
	for secret, name := range map[string]string{token: "[token]", u.RawQuery: "[query]", u.EscapedPath(): "[path]", u.Path: "[path]"} {
		if len(secret) > 1 {
			hidden = append(hidden, secret, name)
		}
	}
	for _, values := range u.Query() {
		for _, value := range values {
			if len(value) > 1 {
				hidden = append(hidden, value, "[query]")
			}
		}
	}
	h.hide = strings.NewReplacer(hidden...)
	return h, nil
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// String has neither path nor query, which may have a token.
func (h *HTTPS) String() string {
	return "https " + h.form + " " + h.url.Scheme + "://" + h.url.Host
}

// ID implements Destination.
func (h *HTTPS) ID() string { return "https " + h.form + " " + h.url.String() }

// Close implements Destination.
func (h *HTTPS) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

// Prepare implements Destination.
func (h *HTTPS) Prepare() (isNew bool, err error) { return false, nil }

// Deliver implements Destination.
func (h *HTTPS) Deliver(ctx context.Context, b *Batch) error {
	var body bytes.Buffer
	body.Grow(b.bytes + 128*len(b.Lines))
	for _, l := range b.Lines {
		h.write(&body, l)
	}
	answer, err := h.post(ctx, h.url, body.Bytes(), b)
	if err != nil {
		return err
	}
	switch h.form {
	case FormSplunk:
		return h.splunk(ctx, answer)
	case FormElastic:
		return h.elastic(answer, b)
	}
	return nil
}

// write appends a line in the form of the receiver.
func (h *HTTPS) write(body *bytes.Buffer, l Line) {
	switch h.form {
	case FormSplunk:
		at, _ := time.Parse(time.RFC3339, l.At)
		fmt.Fprintf(body, `{"time":%d.%03d,"source":"attestd","sourcetype":"attestd:%s","event":`, at.Unix(), at.Nanosecond()/1e6, l.Type)
		body.Write(l.Text)
		body.WriteString("}\n")
	case FormElastic:
		// A document that is there already is not written again: data streams know only create.
		id, _ := json.Marshal(l.ID)
		fmt.Fprintf(body, "{\"create\":{\"_id\":%s}}\n", id)
		body.Write(l.Text)
		body.WriteByte('\n')
	default:
		body.Write(l.Text)
		body.WriteByte('\n')
	}
}

// post returns the answer of a request that succeeded, whose body is of a batch.
func (h *HTTPS) post(ctx context.Context, to *url.URL, body []byte, of *Batch) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	sent := &sending{body: body, may: func() error { return of.MayLeave(ctx) }}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), sent.rewind())
	if err != nil {
		return nil, errors.New("the URL cannot be used")
	}
	request.ContentLength = int64(len(body))
	request.GetBody = func() (io.ReadCloser, error) { return sent.rewind(), nil }
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("User-Agent", "attestd")
	scheme := map[string]string{FormLines: "Bearer", FormSplunk: "Splunk", FormElastic: "ApiKey"}[h.form]
	if h.token != "" {
		request.Header.Set("Authorization", scheme+" "+h.token)
	}
	if h.form == FormSplunk {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Splunk-Request-Channel", h.channel)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.url.Host, withoutURL(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		err = fmt.Errorf("%s answers %d: %.200q", h.url.Host, answer.StatusCode, h.hide.Replace(string(text)))
		if delay := retryAfter(answer.Header.Get("Retry-After")); delay > 0 {
			return nil, &RetryAfter{delay, err}
		}
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: its answer cannot be read: %w", h.url.Host, err)
	case !sent.sentAll.Load():
		return nil, fmt.Errorf("%s answers %d before it was sent everything", h.url.Host, answer.StatusCode)
	case outbound.IsPage(text):
		return nil, fmt.Errorf("%s answers %d with an HTML page, as gateways do that ask for a sign-in: nothing is acknowledged", h.url.Host, answer.StatusCode)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("%s answers with more than %d bytes", h.url.Host, maxAnswer)
	}
	return text, nil
}

// sending is the body of a request, and whether all of it was sent. A connection that turns out to
// be closed makes another attempt.
type sending struct {
	body    []byte
	may     func() error // asked before each part
	sentAll atomic.Bool
}

func (s *sending) rewind() io.ReadCloser {
	s.sentAll.Store(false)
	return &attempt{bytes.NewReader(s.body), s}
}

type attempt struct {
	*bytes.Reader
	of *sending
}

func (a *attempt) Read(p []byte) (int, error) {
	if err := a.of.may(); err != nil {
		return 0, err
	}
	n, err := a.Reader.Read(p)
	if a.Len() == 0 {
		a.of.sentAll.Store(true)
	}
	return n, err
}

// WriteTo does as Read: the one of bytes.Reader would not be noticed.
func (a *attempt) WriteTo(w io.Writer) (int64, error) {
	if err := a.of.may(); err != nil {
		return 0, err
	}
	n, err := a.Reader.WriteTo(w)
	if err == nil {
		a.of.sentAll.Store(true)
	}
	return n, err
}

func (a *attempt) Close() error { return nil }

// withoutURL drops the URL of an error of net/http, whose query may have a token.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the seconds of a Retry-After.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 || seconds > 86_400 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

const (
	ackEvery = 500 * time.Millisecond // between two questions for an acknowledgement
	splunkOK = 0                      // code of an answer
)

// splunk looks at the answer of an HTTP Event Collector. One with an ackId has the events in memory
// alone, until its index has them.
func (h *HTTPS) splunk(ctx context.Context, text []byte) error {
	var answer struct {
		Code  *int   `json:"code"`
		Text  string `json:"text"`
		AckID *int64 `json:"ackId"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Code == nil || *answer.Code != splunkOK {
		return fmt.Errorf("%s does not accept the events: %.200q", h.url.Host, h.hide.Replace(string(text)))
	}
	if answer.AckID == nil {
		return nil
	}
	path := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(h.url.Path, "/"), "/1.0"), "/event")
	ack := *h.url
	ack.Path, ack.RawQuery = path+"/ack", "channel="+h.channel
	for {
		text, err := h.post(ctx, &ack, fmt.Appendf(nil, `{"acks":[%d]}`, *answer.AckID), new(Batch))
		if err != nil {
			return err
		}
		var acks struct{ Acks map[string]bool }
		if err := json.Unmarshal(text, &acks); err != nil {
			return fmt.Errorf("%s: the answer about acknowledgements cannot be read: %.200q", h.url.Host, h.hide.Replace(string(text)))
		}
		if acks.Acks[strconv.FormatInt(*answer.AckID, 10)] {
			return nil
		}
		if err := sleep.For(ctx, ackEvery); err != nil {
			return fmt.Errorf("%s has not indexed the events in time: %w", h.url.Host, err)
		}
	}
}

// elastic looks at each item of a _bulk. An item that is refused is not left out: the batch fails,
// and what was accepted comes again and is there already (409).
func (h *HTTPS) elastic(text []byte, b *Batch) error {
	var answer struct {
		Items []map[string]struct {
			Status int
			Error  struct{ Type, Reason string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("the answer of _bulk cannot be read: %.200q", h.hide.Replace(string(text)))
	}
	if len(answer.Items) != len(b.Lines) {
		return fmt.Errorf("_bulk answers for %d of %d lines", len(answer.Items), len(b.Lines))
	}
	for i, item := range answer.Items {
		done, ok := item["create"]
		if len(item) != 1 || !ok {
			return fmt.Errorf("_bulk does not say what became of %s", b.Lines[i].ID)
		}
		if done.Status == http.StatusConflict || done.Status >= 200 && done.Status <= 299 {
			continue
		}
		return fmt.Errorf("_bulk refuses %s with %d: %s: %.200s", b.Lines[i].ID, done.Status, h.hide.Replace(done.Error.Type), h.hide.Replace(done.Error.Reason))
	}
	return nil
}
