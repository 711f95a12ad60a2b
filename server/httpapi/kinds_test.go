package httpapi

import (
	"testing"

	"attestd/store"
)

// Each caller is of its kinds, and one of an unknown role of none.
func TestKindsOfCallers(t *testing.T) {
	t.Parallel()
	company := &store.Company{ID: "acme"}
	callers := map[string]store.Caller{
		"nobody": {}, "a reader": {Company: company, Role: store.Reader}, "a writer": {Company: company, Role: store.Writer},
		"an admin": {Company: company, Role: store.Admin}, "a client": {Company: company, Role: store.Admin, Client: "cc_1"},
		"an agent": {Company: company, Role: store.ActsAsAgent, Agent: "bot"}, "a person's agent": {Company: company, Role: store.ActsAsAgent, Agent: "bot", Delegation: "{}", Client: "cc_1"},
		"an enrolment": {Company: company, Role: store.Enrolling, Agent: "bot"}, "a role of nobody": {Company: company, Role: "owner", Client: "cc_1"},
	}
	for name, by := range callers {
		is := kindsOf(by)
		if name == "a role of nobody" {
			if is != 0 {
				t.Errorf("%s is %b", name, is)
			}
			continue
		}
		if is == 0 || is == Anonymous && name != "nobody" || is != Anonymous && name == "nobody" {
			t.Errorf("%s is %b", name, is)
		}
	}
}
