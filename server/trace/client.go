package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"attestd/internal/sleep"
)

// Collector is where spans are sent.
type Collector struct {
	URL     string
	Headers map[string]string // which may be secret
	Timeout time.Duration     // of an attempt
	Gzip    bool
	Roots   *x509.CertPool // nil for those of the system
}

const (
	attempts  = 3           // of an export
	firstWait = time.Second // before the second one
	maxAnswer = 64 << 10
)

// client implements otlptrace.Client. It is here instead of otlptracehttp's, because that one links
// gRPC: 8 MB of the binary, and 4 MB in the memory of every command.
type client struct {
	to      Collector
	http    *http.Client
	ended   context.Context // of all attempts
	abandon context.CancelFunc
}

func newClient(to Collector) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: to.Roots, MinVersion: tls.VersionTLS12}
	ended, abandon := context.WithCancel(context.Background())
	return &client{to: to, ended: ended, abandon: abandon, http: &http.Client{Transport: transport, Timeout: to.Timeout,
		// a redirect would send the headers elsewhere
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (c *client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. TracesData has the encoding of an ExportTraceServiceRequest.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ended, cancel)()
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.to.Gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err = w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
		body = packed.Bytes()
	}
	wait := firstWait
	for n := 1; ; n++ {
		again, err := c.send(ctx, body)
		if err == nil || !again || n == attempts {
			return err
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// send makes one attempt. Its error has no address and no header.
func (c *client) send(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address of the collector is malformed")
	}
	for name, value := range c.to.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.to.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := c.http.Do(req)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err
		}
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answers with status %d", res.StatusCode)
}
