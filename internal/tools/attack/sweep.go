package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"attestd/crypto/jose"
	"attestd/internal/harness"
)

// sweep is the state of the attack by credentials.
type sweep struct {
	*harness.Run
	routes   []operation
	secrets  []string        // of the attacked tenant
	statuses map[string]int  // of public requests without a credential
	reached  map[string]bool // routes that returned a success to its owner
	requests int
	faults   []fault
}

// fault is a fault of a route, possibly in many states.
type fault struct {
	what, first string // first is the first state with it
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

// report reports the faults, and routes that were not tried seriously.
func (w *sweep) report() {
	for _, f := range w.faults {
		w.Failf("%s (with %s; %d answers)", f.what, f.first, f.seen)
	}
	for _, op := range w.routes {
		if !op.public && !w.reached[op.id] {
			w.Failf("%s %s gave even its owner no success: the attack has to learn how to ask for it", op.method, op.path)
		}
	}
}

// try requests every route in one state.
func (w *sweep) try(ctx context.Context, c *harness.Client, st state, acme *tenant) error {
	defer c.Close()
	names := values{}
	maps.Copy(names, acme.names)
	switch st.who {
	case owner: // an owner's destructive request uses the spare objects
		maps.Copy(names, acme.spare)
	case other:
		names["agentId"] = acme.word("agent") // globex does not have it
	}
	given := maps.Clone(acme.names)
	delete(given, "name") // a new federation has another one
	if st.who == owner {
		if err := proveNewKey(given); err != nil {
			return err
		}
	}
	for _, op := range w.routes {
		if st.who == owner {
			names["agentId"], names["webhookId"], names["name"] = acme.names["agentId"], acme.names["webhookId"], acme.names["name"]
			if op.method == "DELETE" {
				names["webhookId"], names["name"] = acme.spare["webhookId"], acme.spare["name"]
			}
			if strings.HasSuffix(op.path, "/disable") || strings.HasSuffix(op.path, "/enable") {
				names["agentId"] = acme.spare["agentId"]
			}
		}
		named, madeUp := op.requests(names, given)
		answers, err := w.askAll(ctx, c, op, st, named)
		if err != nil {
			return err
		}
		strangers, err := w.askAll(ctx, c, op, st, madeUp)
		if err != nil {
			return err
		}
		if st.who != other || op.public || op.namesPlaces() {
			continue
		}
		for i := range strangers { // objects of another tenant and of nobody must look alike
			if !alike(answers[i], strangers[i], op, names) {
				w.fault(st, fmt.Sprintf("%s %s answers %d %.200s for what is acme's, and %d %.200s for what is nobody's",
					named[i].Method, op.path, answers[i].Status, answers[i].Body, strangers[i].Status, strangers[i].Body))
			}
		}
	}
	return nil
}

// proveNewKey adds a new key of the agent and a proof of it, which is good once.
func proveNewKey(given values) error {
	key, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return err
	}
	proof, err := proofOf(key, "POST", keysOf(given["agentId"]), "")
	var jwk struct{ X string }
	if err == nil {
		err = json.Unmarshal([]byte(key.Key().JWK()), &jwk)
	}
	given["x"], given["DPoP"] = jwk.X, strings.TrimPrefix(proof, "DPoP: ")
	return err
}

func (w *sweep) askAll(
	ctx context.Context, c *harness.Client, op operation, st state, list []harness.Request,
) (answers []harness.Answer, err error) {
	for _, request := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		asked := request.Method + " " + request.Path + " " + request.Body
		request.Header = append(slices.Clone(request.Header), st.header...)
		if st.query != "" {
			request.Path += string("?&"[strings.Count(request.Path, "?")]) + st.query
		}
		a, err := c.Do(request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		w.requests++
		for _, wrong := range append(w.judge(op, st, asked, a), headerFaults(op, request.Method, a)...) {
			w.fault(st, fmt.Sprintf("%s %s: %s", request.Method, op.path, wrong))
		}
		if st.who != owner {
			w.hunt(op, st, string(request.Bytes()), a)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// alike reports whether two responses differ only in the requested name, the time, and a signature
// over both.
func alike(a, b harness.Answer, op operation, names values) bool {
	plain := func(answer harness.Answer) string {
		var body any
		if json.Unmarshal(answer.Body, &body) != nil {
			return string(answer.Body)
		}
		if members, ok := body.(map[string]any); ok {
			for _, name := range []string{"checkedAt", "signature"} {
				delete(members, name)
			}
		}
		text := string(marshal(body))
		for name, value := range names {
			if strings.Contains(op.path, "{"+name+"}") {
				text = strings.ReplaceAll(text, value, madeUpName)
			}
		}
		return text
	}
	return a.Status == b.Status && plain(a) == plain(b)
}

// judge lists what is wrong with the status and the body of a response.
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
	case op.authenticatesClients():
		if (st.who != owner || st.enrols) && a.Status < 300 {
			wrong = append(wrong, fmt.Sprintf("status %d: it lets in who is no client, agent or admin of the company", a.Status))
		}
	case op.public && op.path != "/v1/ws" && op.path != "/v1/oauth/token" && a.Status != w.statuses[asked] &&
		(st.query == "" || a.Status != 400):
		wrong = append(wrong, fmt.Sprintf("a public route answers %d, and %d to who comes without a credential", a.Status,
			w.statuses[asked]))
	case op.public:
	case st.who == stranger:
		body := strings.TrimSuffix(string(a.Body), "\n")
		if op.isExport() && a.Header.Get("Content-Type") == "application/json" && strings.HasPrefix(body, `{"code"`) {
			refused = `{"code":16,"message":"Unauthorized","error":"Unauthorized"}`
		}
		if st.reason && strings.HasPrefix(body, `{"`) { // which the body gives
			refused = body
		}
		if a.Status != 401 || body != refused && !(body == "" && strings.HasPrefix(asked, "HEAD")) {
			wrong = append(wrong, fmt.Sprintf("status %d, not 401: %.200s", a.Status, body))
		}
		if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `resource_metadata="`) {
			wrong = append(wrong, fmt.Sprintf("WWW-Authenticate is %q", got))
		}
	case a.Status == 401 && strings.Contains(string(a.Body), "Unauthorized"):
		wrong = append(wrong, "a good credential is refused")
	case st.who == owner && a.Status < 300:
		w.reached[op.id] = true
	}
	return wrong
}

// isExport reports whether a route is one of OTLP, which answers errors in the encoding of the
// request.
func (op operation) isExport() bool { return strings.HasPrefix(op.path, "/v1/otlp/") }

// authenticatesClients reports whether a route of no role finds out for itself who calls.
func (op operation) authenticatesClients() bool {
	return strings.HasPrefix(op.path, "/o/{companyId}/") && op.method == "POST"
}

// hunt searches every byte of a response to another caller for acme's secrets. What the request
// itself contained may be echoed.
func (w *sweep) hunt(op operation, st state, request string, a harness.Answer) {
	var all strings.Builder
	_ = a.Header.Write(&all) // a Builder never returns an error
	all.Write(a.Body)
	answer := all.String()
	for _, secret := range w.secrets {
		if strings.Contains(answer, secret) && !strings.Contains(request, secret) {
			w.fault(st, fmt.Sprintf("%s %s tells %.40q of acme", op.method, op.path, secret))
		}
	}
}
