package attestd_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/sdk/attestd"
)

// operations says which method is which operation of the API reference.
var operations = map[string]string{
	"createCompany": "CreateCompany", "setup": "Setup", "getCompany": "Company", "recoverKey": "RecoverKey", "createCompanySVID": "CompanySVID", "rotateKeys": "RotateKeys",
	"registerAgent": "RegisterAgent", "listAgents": "Agents", "getAgent": "Agent", "disableAgent": "DisableAgent", "enableAgent": "EnableAgent", "getAgentSVID": "AgentSVID",
	"issuePassport": "IssuePassport", "rotatePassport": "RotatePassport", "verifyPassport": "VerifyPassport", "listPassports": "Passports",
	"listRevokedPassports": "RevokedPassports", "revokePassport": "RevokePassport", "getPassportStatus": "PassportStatus",
	"enrolAgentKey": "EnrolKey", "listAgentKeys": "AgentKeys", "revokeAgentKey": "RevokeAgentKey", "createEnrolment": "CreateEnrolment", "getEnrolment": "Enrolment",
	"listPeople": "People", "createPerson": "CreatePerson", "getPerson": "Person", "changePerson": "ChangePerson", "deletePerson": "DeletePerson", "invitePerson": "InvitePerson", "revokePasskey": "RevokePasskey",
	"setAgentPolicy": "SetAgentPolicy", "setCompanyPolicy": "SetCompanyPolicy",
	"listPolicies": "Policies", "getPolicy": "Policy", "putPolicy": "PutPolicy", "deletePolicy": "DeletePolicy", "testPolicies": "TestPolicies",
	"requestApproval": "RequestApproval", "listApprovals": "Approvals", "getApproval": "Approval", "withdrawApproval": "WithdrawApproval",
	"evaluateAccess": "EvaluateAccess", "evaluateAccesses": "EvaluateAccesses", "getAuthzenMetadata": "AuthZENMetadata", "getCompanyAuthzenMetadata": "CompanyAuthZENMetadata",
	"listSessions": "Sessions", "getSession": "SessionEvidence", "listSessionRecords": "SessionRecords",
	"createKey": "CreateKey", "listKeys": "Keys", "deleteKey": "DeleteKey", "listCredentials": "Credentials",
	"createOAuthClient": "CreateOAuthClient", "listOAuthClients": "OAuthClients", "deleteOAuthClient": "DeleteOAuthClient", "getOAuthToken": "OAuthToken",
	"getCompanyToken": "CompanyToken", "introspectToken": "IntrospectToken", "revokeToken": "RevokeToken",
	"attest": "Attest", "attestBatch": "AttestBatch", "claudeCodeHook": "ClaudeCodeHook", "exportTraces": "ExportTraces", "exportLogs": "ExportLogs", "getChain": "Records", "searchRecords": "Search", "countRecords": "Count", "verifyChain": "VerifyChain", "getProof": "Proof", "getConsistency": "Consistency",
	"getAuthority": "Authority", "getEvidence": "Evidence", "getReport": "Report",
	"listLogs": "Logs", "getCheckpoint": "Checkpoint", "getTile": "Tile", "getLogProof": "LogProof", "getLogConsistency": "LogConsistency",
	"addCheckpoint": "AddCheckpoint", "getWitness": "Witness", "getCosignedCheckpoint": "CosignedCheckpoint",
	"delegate": "Delegate", "exchangeToken": "ExchangeToken",
	"getPublicKey": "PublicKey", "getPublicKeys": "PublicKeys", "getDiscovery": "Discovery",
	"getResourceMetadata": "ResourceMetadata", "getCompanyResourceMetadata": "CompanyResourceMetadata",
	"getIssuerMetadata": "IssuerMetadata", "getOpenIDMetadata": "OpenIDMetadata", "getOpenIDConfiguration": "OpenIDConfiguration", "getTokenKeys": "TokenKeys", "getSPIFFEBundle": "SPIFFEBundle", "createAgentToken": "CreateAgentToken",
	"createFederation": "CreateFederation", "listFederations": "Federations", "getFederation": "Federation", "deleteFederation": "DeleteFederation",
	"createWebhook": "CreateWebhook", "listWebhooks": "Webhooks", "getWebhook": "Webhook", "deleteWebhook": "DeleteWebhook", "enableWebhook": "EnableWebhook",
	"disableWebhook": "DisableWebhook", "rotateWebhookSecret": "RotateWebhookSecret", "testWebhook": "TestWebhook",
	"stream": "Stream", "getHealth": "Health", "getReadiness": "Ready", "getOpenAPI": "OpenAPI",
}

// Each operation of the API reference has a method, and none is listed here that the reference does
// not have.
func TestEveryOperation(t *testing.T) {
	reference, err := os.ReadFile("../../web/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	methods := reflect.TypeFor[*attestd.Client]()
	var found []string
	parts := regexp.MustCompile(`(?m)^      operationId: (\w+)$`).Split(string(reference), -1)
	for i, m := range regexp.MustCompile(`(?m)^      operationId: (\w+)$`).FindAllStringSubmatch(string(reference), -1) {
		if about, _, _ := strings.Cut(parts[i+1], "\n      responses:"); strings.Contains(about, "\n      x-browser: true") {
			continue // what only the console does
		}
		found = append(found, m[1])
		if _, ok := methods.MethodByName(operations[m[1]]); !ok {
			t.Errorf("the operation %s has no method", m[1])
		}
	}
	for id := range operations {
		if !slices.Contains(found, id) {
			t.Errorf("there is no operation %s", id)
		}
	}
}
