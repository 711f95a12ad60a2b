package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/server/limit"
	"attestd/store"
)

// newAPI is an API without credentials and limits.
func newAPI(maxBody int64) *API {
	bodies := limit.NewPool(limit.Size{})
	a := &API{Store: new(store.Store), Log: slog.New(slog.DiscardHandler), MaxBody: maxBody,
		Limiter: limit.NewLimiter(limit.Limits{}), Bodies: bodies, Decoding: limit.NewDecoding(bodies)}
	a.Set(nil, AccessAll)
	return a
}

// An answer that was begun and cannot be finished breaks the connection off: its reader must not
// mistake the part for the complete answer. One that was not begun is a 500.
func TestAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"a panic":  func() error { panic("a fault of ours") },
		"an error": func() error { return errors.New("the disk cannot be read") },
	} {
		for _, begun := range []bool{false, true} {
			s := newAPI(0)
			h := s.Handle(Route{Needs: Need{Who: Anonymous}, Handler: Handler{Serve: func(c *Call) error {
				if begun {
					_, _ = io.WriteString(c.W, `{"keys":[`)
				}
				return end()
			}}})
			mux := http.NewServeMux()
			mux.HandleFunc("GET /", h)
			srv := httptest.NewServer(mux)
			res, err := srv.Client().Get(srv.URL)
			var body []byte
			if err == nil {
				body, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			switch {
			case begun && err == nil:
				t.Errorf("%s after the first byte: the answer %q looks whole", name, body)
			case !begun && (err != nil || res.StatusCode != http.StatusInternalServerError):
				t.Errorf("%s before the first byte: %v, %v", name, res, err)
			}
			srv.Close()
		}
	}
}

// slowly is a body that arrives slowly.
type slowly struct {
	io.Reader
	time.Duration
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.Duration)
	return s.Reader.Read(p)
}

// The time of a request is read when its body is complete. So a passport that expired while the
// body arrived counts as expired.
func TestTimestampIsTakenAfterBody(t *testing.T) {
	t.Parallel()
	type request struct {
		Passport string `json:"passport" must:"string"`
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at time.Time
		s := newAPI(1000)
		h := s.Handle(Route{Needs: Need{Who: Anonymous}, Handler: Endpoint(http.StatusOK, func(_ context.Context, by store.Caller, _ request) (None, error) {
			at = by.At
			return None{}, nil
		})})
		body := slowly{strings.NewReader(`{"passport":"x"}`), 4 * time.Second}
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.Pattern = "POST /"
		w := httptest.NewRecorder()
		h(w, r)
		if w.Code != http.StatusOK || at.Sub(began) < 4*time.Second {
			t.Errorf("%d at %v after the header", w.Code, at.Sub(began))
		}
	})
}
