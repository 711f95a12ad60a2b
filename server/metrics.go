package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"attestd/server/limit"
)

// Bounds of the listener of metrics, which few programs use.
const metricsConnections, metricsShare = 256, 16

// serveMetrics is a worker. It serves the metrics until the last request has ended. Without it the
// service continues.
func (s *Server) serveMetrics(ctx context.Context) error {
	srv := &http.Server{Handler: s.metrics.Handler(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readHeaderTimeout,
		WriteTimeout: time.Minute, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes}
	ended := make(chan error, 1)
	go func() {
		ended <- srv.Serve(limit.Listen(s.MetricsListener, limit.Connections(metricsConnections, metricsShare), nil, s.Log))
	}()
	select {
	case <-ctx.Done():
		_ = srv.Close()
		<-ended
		return ctx.Err()
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			s.Log.Error("metrics are not served any more", "error", err)
		}
		return nil
	}
}
