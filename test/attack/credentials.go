package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // to make a token expire

	"attestd/test/internal/harness"
)

// state is one way to present a credential, or none.
type state struct {
	name   string
	header []string
	query  string // added to the path
	who    caller
}

type caller int

const (
	stranger caller = iota // refused where a credential is due
	other                  // another tenant
	owner
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

// credentials asks for every route in every state of credentials. Who is not let in gets the 401 and nothing else; who is another
// tenant finds nothing of the first, in any byte; and nothing of the first has changed in the end.
func credentials(ctx context.Context, r *harness.Run) error {
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	db := filepath.Join(folder, "attestd.db")
	flags := []string{"--rate-limits", "sensitive=1000000,attest=1000000,standard=1000000", "--no-recover-endpoint"}
	s, err := r.Lab.Serve(ctx, db, flags...)
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	client := &harness.Client{Addr: s.Addr}
	document, routes, err := readDocument(client)
	if err != nil {
		return err
	}
	deletable := slices.ContainsFunc(routes, func(op operation) bool {
		return op.method == "DELETE" && op.path == "/v1/oauth/clients/{clientId}"
	})
	acme, err := newTenant(s.Addr, "acme", deletable) // acme is the company of the document's examples
	if err != nil {
		return err
	}
	globex, err := newTenant(s.Addr, "globex", deletable)
	if err != nil {
		return err
	}
	public := document + string(globex.seen)
	for _, path := range []string{"/v1/ca/public-key?companyId=acme", "/v1/ca/well-known?companyId=acme"} {
		a, err := client.Do(harness.Request{Method: "GET", Path: path})
		if err != nil {
			return err
		}
		public += string(a.Body)
	}
	if err := s.Stop(); err != nil {
		return err
	}
	if err := expire(db, acme.expired); err != nil {
		return err
	}
	if s, err = r.Lab.Serve(ctx, db, flags...); err != nil {
		return err
	}
	for _, t := range []*tenant{acme, globex} {
		t.Close() // it was the old server's
		t.Addr = s.Addr
	}
	before, err := acme.state()
	if err != nil {
		return err
	}

	w := &sweep{Run: r, routes: routes, secrets: acme.secrets(public), statuses: map[string]int{}, reached: map[string]bool{}}
	states := credentialStates(acme, globex)
	for i, st := range states {
		if st.who == owner && states[i-1].who != owner { // all that was hostile is over
			after, err := acme.state()
			if err != nil {
				return err
			}
			if before != after {
				r.Failf("what acme reads of itself has changed under the hands of others")
			}
		}
		r.Step(i, len(states), "states")
		if err := w.try(ctx, &harness.Client{Addr: s.Addr}, st, acme); err != nil {
			return err
		}
	}
	for _, f := range w.faults {
		r.Failf("%s (with %s; %d answers)", f.what, f.first, f.seen)
	}
	for _, op := range routes {
		if !op.public && !w.reached[op.id] {
			r.Failf("%s %s gave even its owner no success: the attack has to learn how to ask for it", op.method, op.path)
		}
	}
	if err := strangersStream(r, acme, globex); err != nil {
		return err
	}
	r.Count(w.requests, "requests")
	r.Count(len(states), "states of credentials")
	r.Count(len(routes), "routes")
	r.Count(len(w.secrets), "texts that nobody else may see")
	_, err = r.Lab.Verify(ctx, db)
	return errors.Join(err, s.Stop())
}

func credentialStates(acme, globex *tenant) []state {
	bearer := func(text string) []string { return []string{"Authorization: Bearer " + text} }
	key := acme.names["key"]
	unknown := make([]byte, 32)
	_, _ = rand.Read(unknown) // never fails
	list := []state{
		{name: "none"},
		{name: "an empty bearer", header: bearer("")},
		{name: "a malformed bearer", header: bearer(`"{}; DROP TABLE`)},
		{name: "an unknown key", header: bearer("svc_" + base64.RawURLEncoding.EncodeToString(unknown))},
		{name: "a deleted key", header: bearer(acme.deleted)},
		{name: "an expired token", header: bearer(acme.expired)},
		{name: "Basic with a good key", header: []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"+key))}},
		{name: "a good key in the query", query: "access_token=" + key + "&api_key=" + key + "&key=" + key},
		{name: "a good key in other headers", header: []string{"X-Api-Key: " + key, "Cookie: key=" + key, "Proxy-Authorization: Bearer " + key}},
		{name: "a good key in another case", header: bearer(strings.ToUpper(key))},
		{name: "a good key and more", header: bearer(key + "==")},
		{name: "a good key cut short", header: bearer(key[:len(key)-1])},
		{name: "a good key of another scheme", header: []string{"Authorization: Token " + key}},
		{name: "a wrong key, then a good one", header: append(bearer("svc_x"), bearer(key)...)},
		{name: "a good passport", header: bearer(acme.names["passport"])},
		{name: "an OAuth client's ID", header: bearer(acme.names["clientId"])},
	}
	if acme.orphan != "" {
		list = append(list, state{name: "a token of a deleted client", header: bearer(acme.orphan)})
	}
	return append(list,
		state{name: "another tenant's key", header: bearer(globex.key), who: other},
		state{name: "another tenant's token", header: bearer(globex.token), who: other},
		state{name: "a good key", header: bearer(acme.key), who: owner},
		state{name: "a good token", header: bearer(acme.token), who: owner})
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

// expire puts the end of a token into the past, in a file that nobody serves.
func expire(db, token string) error {
	file, err := sql.Open("sqlite", "file:"+db)
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.Sum256([]byte(token))
	result, err := file.Exec("UPDATE oauth_token SET expires_at = 1 WHERE hash = ?", hash[:])
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("the token to expire is not in the file: %w", err)
	}
	return nil
}
