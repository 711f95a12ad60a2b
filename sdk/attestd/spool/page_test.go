package spool_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/sdk/attestd"
)

// pages are answers of a gateway in front of the service. None has both of its marks.
var pages = map[string]struct {
	status int
	text   string
}{
	"400": {400, "<html>400 Bad Request</html>"}, "401": {401, ""}, "403": {403, "<html>403 Forbidden</html>    "}, "404": {404, "<html>"},
	"405": {405, "{}"}, "409": {409, `{"error":1}`}, "413": {413, "<html>"}, "422": {422, `{"message":"blocked"}`}, "429": {429, "<html>"},
	"451": {451, "<html>"}, "502": {502, "<html>"}, "503": {503, `{"error":"Service Unavailable","code":"NOT_DONE"}`},
	"a refusal without the header": {422, `{"error":"refused","code":"WHY","pointer":"/records/0/payload"}`},
}

// An answer without the marks of the service decides nothing, at whichever request it comes: all
// waits, and is recorded once by the next Flush.
func TestPageOfAGatewayDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, page := range pages {
		for at := range 3 {
			t.Run(fmt.Sprint(name, ", request ", at), func(t *testing.T) {
				t.Parallel()
				s := newService()
				q := s.open(t, t.TempDir())
				for n := range 4 {
					must.OK(t, q.Add(t.Context(), attestation(n)))
				}
				s.most = 2
				requests := 0
				s.page = func(string) (int, string) {
					if requests++; requests > at {
						return page.status, page.text
					}
					return 0, ""
				}
				err := q.Flush(t.Context())
				var answer *attestd.Error
				if !errors.As(err, &answer) || answer.Status != page.status || !answer.Foreign {
					t.Fatalf("%v", err)
				}
				if refused, err := q.Refused(); len(refused) > 0 || err != nil {
					t.Fatalf("set apart: %v, %v", refused, err)
				}
				s.page = nil
				must.OK(t, q.Flush(t.Context()))
				if slices.Sort(s.order); len(s.order) != 4 || q.Pending() != 0 {
					t.Errorf("recorded %q, %d wait", s.order, q.Pending())
				}
			})
		}
	}
}

// A gateway that answers one attestation with a page, for its content, does not hold up the others.
func TestOthersAreSentDespiteABlockedOne(t *testing.T) {
	t.Parallel()
	s := newService()
	q := s.open(t, t.TempDir())
	for n := range 40 {
		must.OK(t, q.Add(t.Context(), attestation(n)))
	}
	s.page = func(body string) (int, string) {
		if strings.Contains(body, `"a7"`) || strings.Contains(body, `"a23"`) {
			return 403, pages["403"].text
		}
		return 0, ""
	}
	for range 2 {
		var answer *attestd.Error
		if err := q.Flush(t.Context()); !errors.As(err, &answer) || !answer.Foreign {
			t.Fatal(err)
		}
		if len(s.order) != 38 || q.Pending() != 2 {
			t.Fatalf("%d recorded, %d wait", len(s.order), q.Pending())
		}
	}
	if s.requests > 60 {
		t.Errorf("%d requests", s.requests)
	}
	s.page = nil
	must.OK(t, q.Flush(t.Context()))
	if len(s.order) != 40 || q.Pending() != 0 {
		t.Errorf("%d recorded, %d wait", len(s.order), q.Pending())
	}
}
