package attestd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"attestd/sdk/attestd"
)

// answered is a record as the service answers it.
func answered(payload, more string) string {
	return fmt.Sprintf(`{"index":7,"timestamp":"2026-03-04T05:06:07.008Z","payload":%s%s,"hash":"%s","signature":"%s"}`,
		payload, more, strings.Repeat("0", 64), strings.Repeat("A", 86))
}

// An answer counts only if its record is the one of what was sent. Any other is an error of its own
// type, alone and in a batch, and is not sent again.
func TestAnswersWithAnotherRecordAreRefused(t *testing.T) {
	const sent = `{"agentId":"bot","companyId":"acme","actionType":"refund","payload":{"cents":5000,"to":"x"}`
	const delegation = `,"delegation":{"subject":"https://idp.example#ann","delegationChain":["https://idp.example#ann","a"],"act":null,"tokenId":"t"}`
	for what, c := range map[string]struct{ record, differs string }{
		"the same":                   {answered(sent+"}", ""), ""},
		"in another order":           {answered(strings.Replace(sent, `"cents":5000,"to":"x"`, `"to":"x", "cents":5e3`, 1)+"}", ""), ""},
		"another agent":              {answered(strings.Replace(sent, `"bot"`, `"bat"`, 1)+"}", ""), "agentId"},
		"another action":             {answered(strings.Replace(sent, `"refund"`, `"greet"`, 1)+"}", ""), "actionType"},
		"another payload":            {answered(strings.Replace(sent, "5000", "5", 1)+"}", ""), "payload"},
		"a statement":                {answered(sent+`,"statement":"a.b.c"}`, ""), "statement"},
		"a delegation":               {answered(sent+"}", strings.ReplaceAll(delegation, "#", "/")), "delegation"},
		"that of the token's person": {answered(sent+"}", delegation), ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := attestd.Attestation{AgentID: "bot", ActionType: "refund", Payload: json.RawMessage(`{"cents":5000,"to":"x"}`)}
				for _, batch := range []bool{false, true} {
					body := c.record
					if batch {
						body = `{"records":[` + c.record + "]}"
					}
					s := &script{steps: []step{{status: 201, body: body}}}
					var err error
					if batch {
						_, err = s.client(t, attestd.Key("svc_k")).AttestBatch(t.Context(), []attestd.Attestation{a})
					} else {
						_, err = s.client(t, attestd.Key("svc_k")).Attest(t.Context(), a)
					}
					var wrong *attestd.RecordMismatchError
					switch {
					case c.differs == "":
						if err != nil {
							t.Error(err)
						}
					case !errors.As(err, &wrong) || wrong.Differs[0] != c.differs || attestd.NotRecorded(err):
						t.Errorf("%v", err)
					}
					if len(s.seen) != 1 {
						t.Errorf("%d requests", len(s.seen))
					}
				}
			})
		})
	}
}
