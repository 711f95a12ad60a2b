package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
	"attestd/store/feed"
)

// Streams pass connections to the hub.
type Streams struct {
	Mode    stream.Mode
	Store   *store.Store
	Tokens  *service.Tokens
	Hub     *stream.Hub
	Monitor *chain.Monitor
	Feed    *feed.Feed
}

func (s *Streams) Endpoint() httpapi.Handler {
	return httpapi.Handler{Serve: s.follow, Form: httpapi.FormOf[followRequest]()}
}

// followRequest has the parameters of a request for the stream.
type followRequest struct {
	From string `query:"from"`
}

// follow passes a connection to the hub. A presented credential must be valid, and restricts the
// stream to its company.
func (s *Streams) follow(c *httpapi.Call) error {
	if s.Mode == stream.Off {
		return httpapi.Fail(http.StatusNotFound, "Not Found: the stream is switched off")
	}
	may := httpapi.Anybody
	if s.Mode == stream.Authenticated {
		may &^= httpapi.Anonymous
	}
	by, err := c.By(may)
	if err != nil {
		return err
	}
	who := stream.Subscriber{Holder: c.Holder()}
	if by.Company != nil {
		who.Chain, who.Credential, who.Expires = by.Company.Chain, by.Credential, by.Expires
		if by.Session != "" {
			who.Credential = personSession(by.Session)
		}
		who.Check = func() error {
			ctx, now := context.WithoutCancel(c.Context()), time.Now()
			err := s.recheck(ctx, c, now)
			if err == nil && service.IsJWT(c.Bearer) {
				err = s.Tokens.CheckOwn(ctx, store.Caller{Company: by.Company, At: now}, c.Bearer)
			}
			if errors.Is(err, store.ErrNotFound) {
				err = stream.ErrCredentialEnded
			}
			return err
		}
	}
	if err := s.resume(c, by, &who); err != nil {
		return err
	}
	return s.Hub.Serve(c.W, c.Request, who, c.W.Header())
}

// recheck returns store.ErrNotFound where the credential of a connection has ended.
func (s *Streams) recheck(ctx context.Context, c *httpapi.Call, now time.Time) error {
	if hash, is := c.Session(); is {
		_, err := s.Store.People.Session(ctx, hash, now, false)
		return err
	}
	return s.Store.Credentials.Recheck(ctx, c.Hash, now)
}

// personSession is by which the stream knows the connections of a session.
func personSession(id string) string { return "person-session:" + id }
