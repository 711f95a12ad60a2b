package server_test

import (
	"errors"
	"testing"

	"attestd/internal/must"
	"attestd/store"
)

// Where a head counts the bytes of its records wrongly, GET /v1/verify and attestd verify say the
// same of the log: it is valid. The command also reports the count, and the server continues.
func TestWrongCountIsNoDamage(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	s.file(t, "UPDATE head SET bytes = bytes + 7 WHERE chain IN (1, -1)")
	root := acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`).str("merkleRoot")
	acme.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)

	read, err := store.OpenReadOnly(t.Context(), s.path)
	must.OK(t, err)
	defer read.Close()
	var found []string
	err = read.VerifyAll(t.Context(), "acme", 1, func(v store.ChainVerdict) {
		if !v.Valid || v.Bytes == nil || v.Bytes.Counted-v.Bytes.Found != 7 {
			t.Errorf("%s: %+v, %+v", v.Title(), v.Verdict, v.Bytes)
		}
		found = append(found, v.Root.String())
	}, nil)
	var miscount *store.MiscountError
	if !errors.As(err, &miscount) || miscount.Logs != 2 || len(found) != 2 || found[0] != root {
		t.Errorf("verify says %v of %q, and the server has %s", err, found, root)
	}
	acme.attestMany(t, 1)
	acme.checkChain(t)
}
