package server_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// companyLog returns the line for a witness's policy file, and the origin, of the log of the
// companies of a database.
func companyLog(t *testing.T, path string) (line, origin string) {
	t.Helper()
	s, err := store.OpenReadOnly(t.Context(), path)
	must.OK(t, err)
	defer s.Close()
	origin, ring, err := s.KeyRing(t.Context(), store.CompanyLogChain)
	must.OK(t, err)
	return "log " + store.Log{Origin: origin}.VKey(ring[0].Public).String(), origin
}

// If the newest company is deleted from a database together with its record in the log of the
// companies, and the server has no head file, the witness of that log detects it: registrations are
// refused until that is put right, and the other companies go on.
func TestWitnessMissesACompanyThatIsCutOut(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	first := startOn(t, path, cred.Domain{})
	acme := first.company(t, "acme")
	first.stop()
	older := storetest.Copy(t, path)
	line, origin := companyLog(t, path)
	w := start(t, cosigning(t, line))

	with := startOn(t, path, cred.Domain{}, asking(t, w))
	with.company(t, "zoo")
	eventually(t, "the witness has cosigned the record of zoo", func() bool {
		// This includes the record of the setting.
		return strings.Contains(string(w.anyone().do(t, monitored(origin), "").raw), "\n4\n")
	})
	with.stop()
	storetest.Replace(t, path, older)
	must.OK(t, os.Remove(storetest.Heads(path)))

	again := startOn(t, path, cred.Domain{}, asking(t, w))
	eventually(t, "the log of the companies is halted", func() bool { return again.anyone().do(t, "GET /readyz", "").str("status") == "degraded" })
	if code := again.anyone().do(t, "POST /v1/companies", `{"companyId":"zoo"}`).status(503).str("code"); code != "ROLLED_BACK" {
		t.Errorf("code %s", code)
	}
	acme.on(again).attestMany(t, 1)
	again.stop()

	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	lost, err := admin.AcceptRollback(t.Context(), path, string(schema), admin.AcceptOptions{Heads: storetest.Heads(path), Reason: "a test", Master: master()})
	if err != nil || len(lost) != 1 || lost[0].Company != db.InstallationID || !strings.Contains(lost[0].Why, "was signed by a witness at size 4") {
		t.Fatalf("accepted %+v, %v", lost, err)
	}
	after := startOn(t, path, cred.Domain{}, asking(t, w))
	after.company(t, "newcomer")
}

// The check after the start finds and reports a company that is missing with all its rows.
func TestRemovedCompanyIsDetectedAfterStart(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := storetest.New(t)
	first := startOn(t, path, cred.Domain{})
	acme := first.company(t, "acme")
	first.company(t, "zoo")
	first.stop()
	statements := []string{"DROP TRIGGER company_no_delete", "DROP TRIGGER log_no_delete", "DROP TRIGGER head_no_delete", "DROP TRIGGER record_no_delete", "DROP TRIGGER company_key_no_delete", "DROP TRIGGER log_key_no_delete"}
	for _, from := range []string{"record WHERE id >> 40 IN (2, -2)", "head WHERE chain IN (2, -2)", "log_key WHERE chain IN (2, -2)", "log WHERE company = 2", "company_key WHERE company = 2", "api_key WHERE company = 2", "company WHERE id = 2"} {
		statements = append(statements, "DELETE FROM "+from)
	}
	must.OK(t, storetest.Stranger(t, path, statements...).Close())
	must.OK(t, os.Remove(storetest.Heads(path)))
	s := startOn(t, path, cred.Domain{})
	eventually(t, "the log of the companies was compared", func() bool {
		return s.log.says(`row \"zoo\": is missing, and the log of the companies tells of it`) > 0
	})
	if code := s.anyone().do(t, "POST /v1/companies", `{"companyId":"zoo"}`).status(503).str("code"); code != "TABLES_CHANGED" {
		t.Errorf("code %s", code)
	}
	acme.on(s).attestMany(t, 1)
}

// No route reaches the owner of the log of the companies as a company.
func TestInstallationIsReachedByNoRoute(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{})
	acme := s.company(t, "acme")
	_, origin := companyLog(t, path)
	id := url.QueryEscape(db.InstallationID)
	for request, status := range map[string]int{
		"GET /v1/ca/public-key?companyId=" + id:                                            404,
		"GET /v1/ca/well-known?companyId=" + id:                                            404,
		"GET /v1/log/" + origin[strings.LastIndexByte(origin, '/')+1:] + "/checkpoint":     404,
		"GET /v1/log/" + origin[strings.LastIndexByte(origin, '/')+1:] + "/tile/0/000.p/1": 404,
	} {
		acme.do(t, request, "").status(status)
	}
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"`+db.InstallationID+`"}`).status(400)
	s.anyone().do(t, "POST /v1/recover-key", `{"companyId":"`+db.InstallationID+`"}`).status(400)
	if acme.actions(t).Origin == origin || acme.logNamed(t, "control").Origin == origin {
		t.Error("a company is shown the log of the companies")
	}
}
