package test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A demo company has what it says, and its log verifies. A second one needs another name, and
// without a server the command says how to start one.
func TestDemo(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	out, err := attestd(t, "demo", "--url", s.URL, "--json")
	must(t, err)
	var made struct{ CompanyID, APIKey, Fingerprint, Console string }
	must(t, json.Unmarshal([]byte(out), &made))
	if made.CompanyID != "demo" || made.Console != s.URL+"/" || !strings.HasPrefix(made.Fingerprint, "SHA256:") {
		t.Errorf("%+v", made)
	}
	c := s.client(t, made.APIKey)
	var verdict struct{ Valid bool }
	c.call(t, 200, "GET", "/v1/verify", "", &verdict)
	var counted struct {
		Total     int
		TopAgents []struct{ AgentID string }
	}
	c.call(t, 200, "GET", "/v1/records/histogram?by=agent", "", &counted)
	if !verdict.Valid || counted.Total != 24 || len(counted.TopAgents) != 4 || counted.TopAgents[0].AgentID != "coder" {
		t.Errorf("%+v %+v", verdict, counted)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", s.URL}, "Company already exists: demo; choose another name with --company"},
		{[]string{"--url", s.URL, "--company", "a b"}, "companyId"},
		{[]string{"--url", "http://127.0.0.1:1"}, "start attestd serve"},
		{[]string{"--url", "ftp://x"}, "must look like https://"},
	} {
		if _, err := attestd(t, append([]string{"demo"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	out, err = attestd(t, "demo", "--url", s.URL, "--company", "second")
	must(t, err)
	if !strings.Contains(out, "API key      svc_") {
		t.Error(out)
	}
}
