package web_test

import "testing"

// Who has nothing yet gets a company with some work in it by one click, and is signed in to it. A
// second click says that it is there already.
func TestBrowserDemo(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.press("Fill a demo company")
	b.reads("h1", "Welcome, demo")
	b.reads(`.value`, "svc_")
	b.shows(`[data-activity="24"] tr[data-agent="coder"]`)
	b.reads(`[aria-label="Needs a look"]`, "1 tool call denied")
	b.reads(`[aria-label="Needs a look"]`, "1 key or client will expire within two weeks")
	b.press("Sign out")
	b.press("Fill a demo company")
	b.reads(`[aria-label="Demo"] [role=alert]`, "already exists")
}
