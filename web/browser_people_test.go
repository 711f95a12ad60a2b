package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"

	"attestd/internal/must"
)

// authenticator gives the browser one that holds passkeys, and verifies its person where it is told
// so.
func (b *browser) authenticator() webauthn.AuthenticatorID {
	b.t.Helper()
	call(b, webauthn.Enable, webauthn.EnableParams{})
	return call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}}).AuthenticatorID
}

// The first person opens the link of the terminal, makes a passkey, and is in the console of a new
// company without ever having seen a key. Another person is invited, and joins. What each of them
// changes is on record with their name. Sessions end.
func TestBrowserPeople(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, strings.Replace(s.base, "127.0.0.1", "localhost", 1))
	b.authenticator()
	b.goTo("#/join/" + <-s.invitation)
	b.press("Make a passkey")
	b.fill(`[name=companyId]`, "acme")
	b.fill(`[name=personId]`, "alice")
	b.fill(`[name=name]`, "Alice <b>")
	b.press("Create the company and a passkey")
	b.shows(`.top-company`)
	b.reads(`.top .who`, "Alice <b>")
	b.reload()
	b.reads(`.top .who`, "Alice <b>")
	b.goTo("#/people")
	b.reads(`[data-me]`, "(here)")
	b.fill(`[name=personId]`, "bob")
	b.fill(`[aria-label="New person"] [name=name]`, "Bob")
	b.press("Create")
	b.shows(`[data-person=bob]`)
	b.reads(`[data-listed=same]`, "2 created")
	eval[bool](b, `(document.querySelector('[data-person=bob] button').click(), true)`)
	b.shows(`[data-person=bob] .value`)
	invitation := eval[string](b, `document.querySelector('[data-person=bob] .value code').textContent`)
	b.goTo("#/control")
	b.reads("main", "alice")
	b.press("Sign out")
	b.press("Sign in with a passkey")
	b.reads(`.top .who`, "Alice <b>")

	other := openBrowser(t, strings.Replace(s.base, "127.0.0.1", "localhost", 1))
	other.authenticator()
	at, err := url.Parse(invitation)
	must.OK(t, err)
	other.goTo("#" + at.Fragment)
	other.press("Make a passkey")
	other.reads(`.top .who`, "Bob")
	other.goTo("#/people")
	other.press("Sign out everywhere")
	other.reads("main", "You signed out everywhere")
	third := openBrowser(t, strings.Replace(s.base, "127.0.0.1", "localhost", 1))
	third.authenticator()
	third.goTo("#" + at.Fragment)
	third.press("Make a passkey")
	third.reads(`[role=alert]`, "the invitation is unknown, was used or has ended")
}
