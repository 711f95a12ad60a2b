package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"attestd/server/internal/pipes"
)

// exhausted is a listener of a process that has no descriptor left for its first connections.
type exhausted struct {
	net.Listener
	left int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// Connections that cannot be accepted for want of descriptors are a warning, and the service goes
// on; the end of the listener is none.
func TestAcceptErrorsAreWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		var out bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		m := lifecycle{
			handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			begin:   func(context.Context) {},
			streams: func() {},
			leave:   func() {},
			log:     slog.New(slog.NewTextHandler(&out, nil)),
		}
		ended := make(chan error, 1)
		go func() { ended <- m.run(ctx, &exhausted{network, 2}) }()
		client := http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
		res, err := client.Get("http://attestd/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "level=WARN"); n != 2 || !strings.Contains(out.String(), "accept4: too many open files") {
			t.Errorf("logged: %s", out.String())
		}
	})
}
