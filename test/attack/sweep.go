package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"attestd/test/internal/harness"
)

// sweep is the attack by credentials under way.
type sweep struct {
	*harness.Run
	routes   []operation
	secrets  []string        // of the tenant that is attacked
	statuses map[string]int  // of public requests without a credential
	reached  map[string]bool // routes that gave its owner a success
	requests int
	faults   []fault
}

// fault is something that is wrong with a route, in perhaps many states.
type fault struct {
	what, first string // first is the state where it was seen first
	seen        int
}

func (w *sweep) fault(st state, what string) {
	for i := range w.faults {
		if w.faults[i].what == what {
			w.faults[i].seen++
			return
		}
	}
	w.faults = append(w.faults, fault{what, st.name, 1})
}

// try asks for every route in one state.
func (w *sweep) try(ctx context.Context, c *harness.Client, st state, acme *tenant) error {
	defer c.Close()
	names := acme.names
	if st.who == owner { // what is taken away must not be what the others stand on
		names = values{}
		for _, from := range []values{acme.names, acme.spare} {
			for name, value := range from {
				names[name] = value
			}
		}
	}
	for _, op := range w.routes {
		for _, request := range op.requests(names) {
			if err := ctx.Err(); err != nil {
				return err
			}
			asked := request.Method + " " + request.Path + " " + request.Body
			request.Header = append(request.Header, st.header...)
			if st.query != "" {
				request.Path += string("?&"[strings.Count(request.Path, "?")]) + st.query
			}
			a, err := c.Do(request)
			if err != nil {
				return fmt.Errorf("%s: %w", st.name, err)
			}
			w.requests++
			for _, wrong := range append(w.judge(op, st, asked, a), headerFaults(op, request.Method, a)...) {
				w.fault(st, fmt.Sprintf("%s %s: %s", request.Method, op.path, wrong))
			}
			if st.who != owner {
				w.hunt(op, st, string(request.Bytes()), a)
			}
		}
	}
	return nil
}

// judge says what is wrong with the status and the body of an answer.
func (w *sweep) judge(op operation, st state, asked string, a harness.Answer) (wrong []string) {
	if a.Status >= 500 {
		wrong = append(wrong, fmt.Sprintf("status %d", a.Status))
	}
	if _, ok := op.statuses[strconv.Itoa(a.Status)]; !ok {
		wrong = append(wrong, fmt.Sprintf("status %d is not in the API document", a.Status))
	}
	refused := `{"error":"Unauthorized"}`
	switch {
	case op.public && st.name == "none":
		w.statuses[asked] = a.Status
	case op.public && op.path != "/v1/ws" && op.path != "/v1/oauth/token" && a.Status != w.statuses[asked]:
		wrong = append(wrong, fmt.Sprintf("a public route answers %d, and %d to who comes without a credential", a.Status, w.statuses[asked]))
	case op.public:
	case st.who == stranger:
		body := strings.TrimSuffix(string(a.Body), "\n")
		if a.Status != 401 || body != refused && !(body == "" && strings.HasPrefix(asked, "HEAD")) {
			wrong = append(wrong, fmt.Sprintf("status %d, not 401: %.200s", a.Status, body))
		}
		if got := a.Header.Get("WWW-Authenticate"); got != "Bearer" {
			wrong = append(wrong, fmt.Sprintf("WWW-Authenticate is %q", got))
		}
	case a.Status == 401 && strings.Contains(string(a.Body), "Unauthorized"):
		wrong = append(wrong, "a good credential is refused")
	case st.who == owner && a.Status < 300:
		w.reached[op.id] = true
	}
	return wrong
}

// hunt looks for what is acme's alone in every byte of an answer to somebody else. What the request itself said may come back.
func (w *sweep) hunt(op operation, st state, request string, a harness.Answer) {
	var all strings.Builder
	_ = a.Header.Write(&all) // a Builder takes everything
	all.Write(a.Body)
	answer := all.String()
	for _, secret := range w.secrets {
		if strings.Contains(answer, secret) && !strings.Contains(request, secret) {
			w.fault(st, fmt.Sprintf("%s %s tells %.40q of acme", op.method, op.path, secret))
		}
	}
}
