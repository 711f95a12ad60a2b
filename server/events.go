package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
	"attestd/store/feed"
)

// streams pass connections to the hub.
type streams struct {
	mode    stream.Mode
	Store   *store.Store
	tokens  *service.Tokens
	hub     *stream.Hub
	monitor *chain.Monitor
	feed    *feed.Feed
}

func (s *streams) endpoint() handler { return handler{s.follow, formOf[followRequest]()} }

// followRequest has the parameters of a request for the stream.
type followRequest struct {
	From string `query:"from"`
}

// follow passes a connection to the hub. A presented credential must be valid, and restricts the
// stream to its company.
func (s *streams) follow(c *call) error {
	if s.mode == stream.Off {
		return fail(http.StatusNotFound, "Not Found: the stream is switched off")
	}
	may := anybody
	if s.mode == stream.Authenticated {
		may &^= nobody
	}
	by, err := c.by(may)
	if err != nil {
		return err
	}
	who := stream.Subscriber{Holder: c.holder()}
	if by.Company != nil {
		who.Chain, who.Credential, who.Expires = by.Company.Chain, by.Credential, by.Expires
		who.Check = func() error {
			ctx, now := context.WithoutCancel(c.Context()), time.Now()
			err := s.Store.Credentials.Recheck(ctx, c.hash, now)
			if err == nil && service.IsJWT(c.bearer) {
				err = s.tokens.CheckOwn(ctx, store.Caller{Company: by.Company, At: now}, c.bearer)
			}
			if errors.Is(err, store.ErrNotFound) {
				err = stream.ErrGone
			}
			return err
		}
	}
	if err := s.resume(c, by, &who); err != nil {
		return err
	}
	return s.hub.Serve(c.w, c.Request, who, c.w.Header())
}
