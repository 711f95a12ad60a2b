package evidence_test

import (
	"bytes"
	"fmt"
	"os"

	"attestd/chain/evidence"
)

// Check a file with the fingerprint of a company key from another source.
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

	// Without a fingerprint the owner of the key is not confirmed.
	fmt.Println(evidence.Check(file, evidence.Trust{}).Outcome)
	// Output:
	// holds
	// fails RECORD
	// self-consistent
}
