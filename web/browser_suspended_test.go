package web_test

import (
	"os/exec"
	"testing"
)

// A company that the operator has suspended sees that above every page, with the reason as text,
// and reads on.
func TestBrowserSuspendedCompany(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 2)
	path, err := binary()
	must(t, err)
	if out, err := exec.Command(path, "company", "suspend", "acme", "--reason", "unpaid <b>bills</b>", "--db", s.db).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.reads("[data-suspended]", "The operator of this service has suspended acme")
	b.reads("[data-suspended]", "“unpaid <b>bills</b>”")
	b.goTo("#/records")
	b.reads("[data-suspended]", "has suspended acme")
	b.wait(`document.querySelector('[data-index="1"]')`)
	b.goTo("#/control")
	b.wait(`document.body.textContent.includes('The operator of the service suspended the company')`)
}
