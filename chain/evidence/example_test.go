package evidence_test

import (
	"bytes"
	"fmt"
	"os"

	"attestd/chain/evidence"
)

// A file is checked with the fingerprint of a key of the company, got from elsewhere.
func ExampleCheck() {
	file, err := os.ReadFile("testdata/small.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	const fingerprint = "SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM"
	verdict := evidence.Check(file, evidence.Trust{Fingerprint: fingerprint})
	fmt.Println(verdict.Outcome)

	// One character of the payload is changed.
	changed := bytes.Replace(file, []byte(`"version":1`), []byte(`"version":2`), 1)
	verdict = evidence.Check(changed, evidence.Trust{Fingerprint: fingerprint})
	fmt.Println(verdict.Outcome, verdict.Code)

	// Without anything from elsewhere nothing says whose the key is.
	fmt.Println(evidence.Check(file, evidence.Trust{}).Outcome)
	// Output:
	// holds
	// fails RECORD
	// self-consistent
}
