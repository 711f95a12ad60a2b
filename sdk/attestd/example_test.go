package attestd_test

import (
	"context"
	"fmt"
	"log"

	"attestd/sdk/attestd"
)

// An action is attested, and its record and proof are checked here, with a key that was pinned and
// a stored root.
func Example() {
	ctx := context.Background()
	address, stop := exampleServer(ctx)
	defer stop()

	c, err := attestd.New(attestd.Config{URL: address})
	if err != nil {
		log.Fatal(err)
	}
	company, err := c.CreateCompany(ctx, attestd.NewCompany{CompanyID: "acme"})
	if err != nil {
		log.Fatal(err)
	}
	c, err = attestd.New(attestd.Config{URL: address, Credential: attestd.Key(company.APIKey)})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	record, err := c.Attest(ctx, attestd.Attestation{
		AgentID: "deploy-bot", ActionType: "deploy.started", Payload: map[string]any{"service": "checkout"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("recorded at index", record.Index)

	// Get the key once, compare its fingerprint with one from elsewhere, and keep it.
	published, err := c.PublicKey(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	key, err := attestd.ParsePublicKey(published.PEM)
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := c.VerifyChain(ctx, attestd.Actions)
	if err != nil {
		log.Fatal(err)
	}
	proof, err := c.Proof(ctx, attestd.Actions, record.Index)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("record:", record.Verify(attestd.Pin(key)))
	fmt.Println("proof:", proof.Verify(attestd.Pin(key), verdict.MerkleRoot))
	// Output:
	// recorded at index 0
	// record: <nil>
	// proof: <nil>
}

// Evidence is checked without a service.
func ExampleCheckEvidence() {
	verdict := attestd.CheckEvidence([]byte(`{"format":"attestd-evidence/v1"}`), "SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM")
	fmt.Println(verdict.Outcome, verdict.Code)
	// Output: fails MALFORMED
}
