package test

import (
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The passkeys of a database are of one host. serve and doctor say so where the address of the
// service has another one, since nobody could sign in.
func TestPasskeysAreOfOneHost(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	path := storetest.New(t)
	must.OK(t, serve(t, path).interrupt())
	db := storetest.Stranger(t, path)
	_, err := db.ExecContext(t.Context(), `INSERT INTO setting (name, value) VALUES ('relying_party', 'old.example')`)
	must.OK(t, err)
	must.OK(t, db.Close())
	const says = "none of them works for"
	for base, warns := range map[string]bool{"https://old.example": false, "https://old.example:8443/x": false, "https://new.example": true} {
		s := serve(t, path, "--base-url", base)
		must.OK(t, s.interrupt())
		if strings.Contains(s.log.String(), says) != warns {
			t.Errorf("serve --base-url %s:\n%s", base, s.log.String())
		}
		out, _ := attestd(t, "doctor", "--db", path, "--quick", "--base-url", base)
		if strings.Contains(out, says) != warns {
			t.Errorf("doctor --base-url %s:\n%s", base, out)
		}
	}
	local := serve(t, path)
	must.OK(t, local.interrupt())
	if !strings.Contains(local.log.String(), says) || !strings.Contains(local.log.String(), "localhost") {
		t.Errorf("serve:\n%s", local.log.String())
	}
}
