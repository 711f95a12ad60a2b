package store_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/approval"
	authorization "attestd/crypto/cred/details"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/crypto/tokenkey"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/names"
	"attestd/store/storetest"
)

// obeyed are the columns that are compared with a log, each with a statement that changes it in one
// row without the service. Those of idempotency_key and agent_session are in nameForgeries.
var obeyed = map[string]string{
	"company.id":            `UPDATE company SET id = 9 WHERE company_id = 'zoo'`,
	"company.company_id":    `UPDATE company SET company_id = 'other' WHERE company_id = 'acme'`,
	"company.registered_at": `UPDATE company SET registered_at = '2020-01-01T00:00:00.000Z' WHERE company_id = 'acme'`,
	"company.metadata":      `UPDATE company SET metadata = '{"tier":"gold"}' WHERE company_id = 'acme'`,

	"company_key.public_key":     `UPDATE company_key SET public_key = zeroblob(32) WHERE company = 1 AND generation = 0`,
	"company_key.generation":     `UPDATE company_key SET generation = 7 WHERE company = 1 AND generation = 2`,
	"company_key.ended_at":       `UPDATE company_key SET ended_at = '2030-01-01T00:00:00.000Z' WHERE company = 1 AND generation = 0`,
	"company_key.compromised_at": `UPDATE company_key SET compromised_at = NULL WHERE company = 1 AND generation = 1`,
	"company_key.company":        `INSERT INTO company_key (company, generation, public_key, created_at, ended_at) SELECT 1, 9, public_key, created_at, created_at FROM company_key WHERE company = 2`,

	"company_key.seed": `UPDATE company_key SET seed = zeroblob(32) WHERE company = 2`,

	"log.chain":   `UPDATE log SET chain = 9 WHERE chain = 2`,
	"log.company": `UPDATE log SET company = 3 WHERE chain = 2`,
	"log.name":    `UPDATE log SET name = 'other' WHERE chain = 2`,
	"log.log_id":  `UPDATE log SET log_id = '0' WHERE chain = 2`,
	"log.origin":  `UPDATE log SET origin = 'elsewhere/v1/log/0' WHERE chain = 1`,

	"log_key.chain":         `UPDATE log_key SET chain = 9 WHERE chain = 1 AND generation = 1`,
	"log_key.generation":    `UPDATE log_key SET generation = 9 WHERE chain = 1 AND generation = 1`,
	"log_key.first_record":  `UPDATE log_key SET first_record = first_record - 1 WHERE chain = 1 AND generation = 1`,
	"log_key.statement":     `UPDATE log_key SET statement = statement || ' ' WHERE chain = 1 AND generation = 1`,
	"log_key.old_signature": `UPDATE log_key SET old_signature = zeroblob(64) WHERE chain = 1 AND generation = 1`,
	"log_key.new_signature": `UPDATE log_key SET new_signature = zeroblob(64) WHERE chain = 1 AND generation = 1`,

	"record.id":         `UPDATE record SET id = id + 5000 WHERE id = (1 << 40) + 3`,
	"record.hash":       `UPDATE record SET hash = zeroblob(32) WHERE id = (1 << 40) + 3`,
	"record.signature":  `UPDATE record SET signature = zeroblob(64) WHERE id = (1 << 40) + 3`,
	"record.timestamp":  `UPDATE record SET timestamp = '2020-01-01T00:00:00.000Z' WHERE id = (1 << 40) + 3`,
	"record.payload":    `UPDATE record SET payload = replace(payload, 'true', 'false') WHERE id = (1 << 40)`,
	"record.delegation": `UPDATE record SET delegation = '{}' WHERE id = (1 << 40) + 3`,
	"node.chain":        `UPDATE node SET chain = 2 WHERE chain = 1`,
	"node.level":        `UPDATE node SET level = 16 WHERE chain = 1`,
	"node.idx":          `UPDATE node SET idx = 7 WHERE chain = 1`,
	"node.hash":         `UPDATE node SET hash = zeroblob(32) WHERE chain = 1`,
	"node.log_hash":     `UPDATE node SET log_hash = zeroblob(32) WHERE chain = 1`,
	"summary.id":        `UPDATE summary SET id = id + 9`,
	"summary.terms":     `UPDATE summary SET terms = zeroblob(9)`,
	"head.chain":        `UPDATE head SET chain = 9 WHERE chain = 2`,
	"head.length":       `UPDATE head SET length = length - 1 WHERE chain = 1`,
	"head.root":         `UPDATE head SET root = zeroblob(32) WHERE chain = 1`,
	"head.frontier":     `UPDATE head SET frontier = zeroblob(length(frontier)) WHERE chain = 1`,
	"head.timestamp":    `UPDATE head SET timestamp = '2030-01-01T00:00:00.000Z' WHERE chain = 1`,
	"head.log_root":     `UPDATE head SET log_root = zeroblob(32) WHERE chain = 1`,
	"head.log_frontier": `UPDATE head SET log_frontier = zeroblob(length(log_frontier)) WHERE chain = 1`,
	"head.bytes":        `UPDATE head SET bytes = bytes + 1 WHERE chain = 1`,

	"api_key.company":     `UPDATE api_key SET company = 2 WHERE label = 'reader'`,
	"api_key.hash":        `UPDATE api_key SET hash = zeroblob(32) WHERE label = 'reader'`,
	"api_key.fingerprint": `UPDATE api_key SET fingerprint = '0123456789abcdef' WHERE label = 'reader'`,
	"api_key.role":        `UPDATE api_key SET role = 'admin' WHERE label = 'reader'`,
	"api_key.expires_at":  `UPDATE api_key SET expires_at = 9999999999999 WHERE label = 'reader'`,
	"api_key.made_by":     `UPDATE api_key SET made_by = 'fedcba9876543210' WHERE label = 'reader'`,
	"api_key.key":         `UPDATE api_key SET key = 'svc_another' WHERE label = 'reader'`,

	"oauth_client.company":     `UPDATE oauth_client SET company = 2`,
	"oauth_client.client_id":   `UPDATE oauth_client SET client_id = 'cc_other'`,
	"oauth_client.fingerprint": `UPDATE oauth_client SET fingerprint = '0123456789abcdef'`,
	"oauth_client.role":        `UPDATE oauth_client SET role = 'admin'`,
	"oauth_client.expires_at":  `UPDATE oauth_client SET expires_at = 9999999999999`,
	"oauth_client.made_by":     `UPDATE oauth_client SET made_by = NULL`,
	"oauth_client.jwks":        `UPDATE oauth_client SET jwks = '{"keys":[]}'`,
	"oauth_client.jwks_uri":    `UPDATE oauth_client SET jwks_uri = 'https://keys.example/'`,
	"oauth_client.secret_hash": `UPDATE oauth_client SET secret_hash = zeroblob(32)`,

	"agent.company":       `UPDATE agent SET company = 2 WHERE agent_id = 'bot'`,
	"agent.agent_id":      `UPDATE agent SET agent_id = 'bob' WHERE agent_id = 'bot'`,
	"agent.registered_at": `UPDATE agent SET registered_at = '2020-01-01T00:00:00.000Z' WHERE agent_id = 'bot'`,
	"agent.metadata":      `UPDATE agent SET metadata = NULL WHERE agent_id = 'bot'`,
	"agent.disabled_at":   `UPDATE agent SET disabled_at = NULL WHERE agent_id = 'gone'`,

	"passport.company":    `UPDATE passport SET company = 2 WHERE jti = 'live'`,
	"passport.jti":        `UPDATE passport SET jti = 'alive' WHERE jti = 'live'`,
	"passport.agent_id":   `UPDATE passport SET agent_id = 'admin' WHERE jti = 'live'`,
	"passport.scopes":     `UPDATE passport SET scopes = '["*"]' WHERE jti = 'live'`,
	"passport.issued_at":  `UPDATE passport SET issued_at = issued_at - 1 WHERE jti = 'live'`,
	"passport.expires_at": `UPDATE passport SET expires_at = expires_at + 3600 WHERE jti = 'live'`,
	"passport.revoked_at": `UPDATE passport SET revoked_at = NULL WHERE jti = 'revoked'`,
	"passport.jkt":        `UPDATE passport SET jkt = NULL WHERE jti = 'live'`,
	"passport.details":    `UPDATE passport SET details = NULL WHERE jti = 'live'`,
	"passport.reason":     `UPDATE passport SET reason = 'another' WHERE jti = 'revoked'`,

	"webhook.company":     `UPDATE webhook SET company = 2`,
	"webhook.webhook_id":  `UPDATE webhook SET webhook_id = 'wh_other'`,
	"webhook.url":         `UPDATE webhook SET url = 'https://elsewhere.example'`,
	"webhook.agents":      `UPDATE webhook SET agents = NULL`,
	"webhook.actions":     `UPDATE webhook SET actions = '["tool.*"]'`,
	"webhook.made_by":     `UPDATE webhook SET made_by = NULL`,
	"webhook.fingerprint": `UPDATE webhook SET fingerprint = '0123456789abcdef'`,
	"webhook.disabled_at": `UPDATE webhook SET disabled_at = '2020-01-01T00:00:00.000Z', disabled_reason = 'gone'`,

	"agent_key.company":    `UPDATE agent_key SET company = 2 WHERE label = 'live'`,
	"agent_key.thumbprint": `UPDATE agent_key SET thumbprint = 'another' WHERE label = 'live'`,
	"agent_key.agent_id":   `UPDATE agent_key SET agent_id = 'gone' WHERE label = 'live'`,
	"agent_key.jwk":        `UPDATE agent_key SET jwk = (SELECT jwk FROM agent_key WHERE label = 'revoked') WHERE label = 'live'`,
	"agent_key.expires_at": `UPDATE agent_key SET expires_at = NULL WHERE label = 'live'`,
	"agent_key.revoked_at": `UPDATE agent_key SET revoked_at = NULL WHERE label = 'revoked'`,

	"agent_key.statement_version": `UPDATE agent_key SET statement_version = 1 WHERE label = 'live'`,

	"token_key.company":        `UPDATE token_key SET company = 2 WHERE alg = 'RS256'`,
	"token_key.kid":            `UPDATE token_key SET kid = 'another' WHERE alg = 'RS256' AND ended_at IS NULL`,
	"token_key.alg":            `UPDATE token_key SET alg = 'ES256' WHERE alg = 'RS256' AND ended_at IS NOT NULL`,
	"token_key.jwk":            `UPDATE token_key SET jwk = (SELECT jwk FROM token_key WHERE alg = 'EdDSA' LIMIT 1) WHERE alg = 'ES256' AND ended_at IS NULL`,
	"token_key.signs_from":     `UPDATE token_key SET signs_from = '2020-01-01T00:00:00.000Z' WHERE alg = 'ES256' AND ended_at IS NULL`,
	"token_key.ended_at":       `UPDATE token_key SET ended_at = '2030-01-01T00:00:00.000Z' WHERE alg = 'ES256' AND ended_at IS NOT NULL`,
	"token_key.private":        `UPDATE token_key SET private = zeroblob(138) WHERE alg = 'ES256' AND ended_at IS NULL`,
	"token_key.compromised_at": `UPDATE token_key SET compromised_at = NULL WHERE alg = 'EdDSA' AND compromised_at IS NOT NULL`,

	"federation.company":  `UPDATE federation SET company = 2 WHERE name = 'fetched'`,
	"federation.name":     `UPDATE federation SET name = 'other' WHERE name = 'fetched'`,
	"federation.issuer":   `UPDATE federation SET issuer = 'https://evil.example' WHERE name = 'fetched'`,
	"federation.audience": `UPDATE federation SET audience = 'everybody' WHERE name = 'fetched'`,
	"federation.jwks":     `UPDATE federation SET jwks = '{"keys":[]}' WHERE name = 'pinned'`,
	"federation.jwks_uri": `UPDATE federation SET jwks_uri = 'https://evil.example/jwks' WHERE name = 'fetched'`,
	"federation.rules":    `UPDATE federation SET rules = '[{"agentId":"bot","match":{"sub":"evil"},"register":true,"scope":"agent","ttl":3600}]' WHERE name = 'pinned'`,

	"enrolment.company":     `UPDATE enrolment SET company = 2 WHERE label = 'spent'`,
	"enrolment.hash":        `UPDATE enrolment SET hash = zeroblob(32) WHERE label = 'open'`,
	"enrolment.fingerprint": `UPDATE enrolment SET fingerprint = '0123456789abcdef' WHERE label = 'spent'`,
	"enrolment.agent_id":    `UPDATE enrolment SET agent_id = 'gone' WHERE label = 'open'`,
	"enrolment.expires_at":  `UPDATE enrolment SET expires_at = 9999999999999 WHERE label = 'open'`,
	"enrolment.key":         `UPDATE enrolment SET key = NULL WHERE label = 'spent'`,

	"attest_policy.company":  `UPDATE attest_policy SET company = 2 WHERE agent_id = 'bot'`,
	"attest_policy.agent_id": `UPDATE attest_policy SET agent_id = 'gone' WHERE agent_id = 'bot'`,
	"attest_policy.attest":   `UPDATE attest_policy SET attest = 'any' WHERE agent_id = ''`,

	"company_policy.company":            `UPDATE company_policy SET company = 2`,
	"company_policy.exchange_audiences": `UPDATE company_policy SET exchange_audiences = '["https://mcp.example","sts.amazonaws.com","vault"]'`,

	"cedar_policy.company":      `UPDATE cedar_policy SET company = 2 WHERE policy_id = 'small'`,
	"cedar_policy.policy_id":    `UPDATE cedar_policy SET policy_id = 'large' WHERE policy_id = 'small'`,
	"cedar_policy.cedar":        `UPDATE cedar_policy SET cedar = 'permit (principal, action, resource);' WHERE policy_id = 'small'`,
	"cedar_policy.description":  `UPDATE cedar_policy SET description = 'another' WHERE policy_id = 'small'`,
	"cedar_set.company":         `UPDATE cedar_set SET company = 2`,
	"cedar_set.revision":        `UPDATE cedar_set SET revision = revision - 1`,
	"cedar_set.sha256":          `UPDATE cedar_set SET sha256 = ''`,
	"agent_groups.company":      `UPDATE agent_groups SET company = 2`,
	"agent_groups.agent_id":     `UPDATE agent_groups SET agent_id = 'gone'`,
	"agent_groups.names":        `UPDATE agent_groups SET names = '["admins"]'`,
	"decision_policy.company":   `UPDATE decision_policy SET company = 2`,
	"decision_policy.decisions": `UPDATE decision_policy SET decisions = 'denied'`,

	"person.company":     `UPDATE person SET company = 2 WHERE person_id = 'rita'`,
	"person.person_id":   `UPDATE person SET person_id = 'root' WHERE person_id = 'rita'`,
	"person.name":        `UPDATE person SET name = 'Another' WHERE person_id = 'rita'`,
	"person.email":       `UPDATE person SET email = 'evil@example.com' WHERE person_id = 'rita'`,
	"person.roles":       `UPDATE person SET roles = '["admin"]' WHERE person_id = 'rita'`,
	"person.groups":      `UPDATE person SET groups = '["finance"]' WHERE person_id = 'rita'`,
	"person.subjects":    `UPDATE person SET subjects = '[{"issuer":"https://evil.example","sub":"x"}]' WHERE person_id = 'rita'`,
	"person.created_at":  `UPDATE person SET created_at = '2020-01-01T00:00:00.000Z' WHERE person_id = 'rita'`,
	"person.disabled_at": `UPDATE person SET disabled_at = NULL WHERE person_id = 'otto'`,

	"passkey.company":       `UPDATE passkey SET company = 2 WHERE person_id = 'alice'`,
	"passkey.credential_id": `UPDATE passkey SET credential_id = 'another' WHERE person_id = 'alice' AND company = 1 AND revoked_at IS NULL`,
	"passkey.person_id":     `UPDATE passkey SET person_id = 'rita' WHERE person_id = 'alice'`,
	"passkey.public_key":    `UPDATE passkey SET public_key = 'pQECAyYgASFYIA'`,
	"passkey.algorithm":     `UPDATE passkey SET algorithm = -257`,
	"passkey.transports":    `UPDATE passkey SET transports = '["usb"]' WHERE revoked_at IS NULL`,
	"passkey.flags":         `UPDATE passkey SET flags = 24 - flags`,
	"passkey.aaguid":        `UPDATE passkey SET aaguid = ''`,
	"passkey.revoked_at":    `UPDATE passkey SET revoked_at = NULL`,

	"invitation.company":     `UPDATE invitation SET company = 2`,
	"invitation.hash":        `UPDATE invitation SET hash = zeroblob(32) WHERE company = 1 AND passkey IS NULL`,
	"invitation.fingerprint": `UPDATE invitation SET fingerprint = '66687aadf862bd77', hash = zeroblob(32) WHERE company = 1 AND passkey IS NULL`,
	"invitation.person_id":   `UPDATE invitation SET person_id = 'alice' WHERE passkey IS NULL`,
	"invitation.created_at":  `UPDATE invitation SET created_at = '2031-01-01T00:00:00.000Z'`,
	"invitation.expires_at":  `UPDATE invitation SET expires_at = 9999999999999`,
	"invitation.passkey":     `UPDATE invitation SET passkey = NULL`,

	"change_policy.company": `UPDATE change_policy SET company = 2`,
	"change_policy.changes": `UPDATE change_policy SET changes = 'people'`,

	"company_suspension.company":      `UPDATE company_suspension SET company = 2`,
	"company_suspension.suspended_at": `UPDATE company_suspension SET suspended_at = '2026-03-04T05:06:07.008Z'`,
	"company_suspension.reason":       `UPDATE company_suspension SET reason = 'another'`,
	"company_quota.company":           `UPDATE company_quota SET company = 2`,
	"company_quota.max_records":       `UPDATE company_quota SET max_records = 7`,
	"company_quota.max_bytes":         `UPDATE company_quota SET max_bytes = 7`,

	"setting.name":  `UPDATE setting SET name = 'another' WHERE name = 'database_id'`,
	"setting.value": `UPDATE setting SET value = 'evil.example' WHERE name = 'trust_domain'`,
}

// authenticated are the columns that are under the HMAC of their row, as obeyed.
var authenticated = map[string]string{
	"webhook.id":              `UPDATE webhook SET id = id + 9`,
	"webhook.description":     `UPDATE webhook SET description = 'another'`,
	"webhook.created_at":      `UPDATE webhook SET created_at = '2020-01-01T00:00:00.000Z'`,
	"webhook.public_key":      `UPDATE webhook SET public_key = zeroblob(32)`,
	"webhook.secret":          `UPDATE webhook SET secret = x'01'`,
	"webhook.former_secret":   `UPDATE webhook SET former_secret = zeroblob(64)`,
	"webhook.former_until":    `UPDATE webhook SET former_until = 9999999999999`,
	"webhook.disabled_reason": `UPDATE webhook SET disabled_reason = 'gone'`,
	"webhook.next_record":     `UPDATE webhook SET next_record = next_record + 7`,
	"webhook.next_control":    `UPDATE webhook SET next_control = next_control + 7`,
	"webhook.attempts":        `UPDATE webhook SET attempts = 9`,
	"webhook.retry_at":        `UPDATE webhook SET retry_at = 9999999999999`,
	"webhook.mac":             `UPDATE webhook SET mac = NULL`,

	"oauth_token.hash":       `UPDATE oauth_token SET hash = zeroblob(32) WHERE client IS NOT NULL`,
	"oauth_token.company":    `UPDATE oauth_token SET company = 2 WHERE client IS NOT NULL`,
	"oauth_token.expires_at": `UPDATE oauth_token SET expires_at = expires_at + 3600000`,
	"oauth_token.client":     `UPDATE oauth_token SET client = client + 1 WHERE client IS NOT NULL`,
	"oauth_token.mac":        `UPDATE oauth_token SET mac = zeroblob(32)`,
	"oauth_token.agent_key":  `UPDATE oauth_token SET agent_key = agent_key + 1 WHERE agent_key IS NOT NULL`,
	"oauth_token.bound":      `UPDATE oauth_token SET bound = 1 - bound WHERE agent_key IS NOT NULL`,
	"oauth_token.scope":      `UPDATE oauth_token SET scope = 'admin'`,
	"oauth_token.jkt":        `UPDATE oauth_token SET jkt = 'k'`,
	"oauth_token.details":    `UPDATE oauth_token SET details = CASE WHEN details IS NULL THEN '[{"tools":["*"],"type":"tool_call"}]' END`,

	"federated_token.hash":              `UPDATE federated_token SET hash = zeroblob(32) WHERE jkt IS NULL`,
	"federated_token.company":           `UPDATE federated_token SET company = 2`,
	"federated_token.federation":        `UPDATE federated_token SET federation = 3 - federation`,
	"federated_token.agent_id":          `UPDATE federated_token SET agent_id = 'gone'`,
	"federated_token.jkt":               `UPDATE federated_token SET jkt = NULL`,
	"federated_token.expires_at":        `UPDATE federated_token SET expires_at = expires_at + 3600000`,
	"federated_token.mac":               `UPDATE federated_token SET mac = zeroblob(32)`,
	"federated_token.client":            `UPDATE federated_token SET client = 2, delegation = '{}'`,
	"federated_token.delegation":        `UPDATE federated_token SET delegation = '{}'`,
	"approval.company":                  `UPDATE approval SET company = 3 - company`,
	"approval.approval_id":              `UPDATE approval SET approval_id = 'apr_AAAAAAAAAAAAAAAAAAAAAA' WHERE id = 1`,
	"approval.call":                     `UPDATE approval SET call = zeroblob(32)`,
	"approval.session":                  `UPDATE approval SET session = 'another'`,
	"approval.agent_id":                 `UPDATE approval SET agent_id = 'gone'`,
	"approval.action_type":              `UPDATE approval SET action_type = 'deploy'`,
	"approval.tool":                     `UPDATE approval SET tool = 'another'`,
	"approval.idx":                      `UPDATE approval SET idx = idx + 1`,
	"approval.hash":                     `UPDATE approval SET hash = '00'`,
	"approval.asked_by":                 `UPDATE approval SET asked_by = 'me'`,
	"approval.person":                   `UPDATE approval SET person = 'person:rita'`,
	"approval.reason":                   `UPDATE approval SET reason = 'another'`,
	"approval.quorum":                   `UPDATE approval SET quorum = 1`,
	"approval.approvers":                `UPDATE approval SET approvers = '["staff"]'`,
	"approval.created_at":               `UPDATE approval SET created_at = created_at + 1`,
	"approval.expires_at":               `UPDATE approval SET expires_at = expires_at + 3600000`,
	"approval.state":                    `UPDATE approval SET state = 'approved'`,
	"approval.granted":                  `UPDATE approval SET granted = '[["rita",1]]'`,
	"approval.decided":                  `UPDATE approval SET decided = 'fine'`,
	"approval.uses":                     `UPDATE approval SET uses = 1000`,
	"approval.remaining":                `UPDATE approval SET remaining = 1000`,
	"approval.until":                    `UPDATE approval SET until = 9999999999999`,
	"approval.gone_at":                  `UPDATE approval SET gone_at = gone_at + 1`,
	"approval.mac":                      `UPDATE approval SET mac = zeroblob(32)`,
	"approval.id":                       `UPDATE approval SET id = id + 100`,
	"person_session.hash":               `UPDATE person_session SET hash = zeroblob(32) WHERE company = 1`,
	"person_session.company":            `UPDATE person_session SET company = 3 - company`,
	"person_session.session_id":         `UPDATE person_session SET session_id = '0011223344556677'`,
	"person_session.person_id":          `UPDATE person_session SET person_id = 'rita'`,
	"person_session.signed_in":          `UPDATE person_session SET signed_in = 'oidc'`,
	"person_session.passkey":            `UPDATE person_session SET passkey = 'another'`,
	"person_session.created_at":         `UPDATE person_session SET created_at = created_at + 1`,
	"person_session.last_used_at":       `UPDATE person_session SET last_used_at = last_used_at + 3600000`,
	"person_session.reauthenticated_at": `UPDATE person_session SET reauthenticated_at = reauthenticated_at + 3600000`,
	"person_session.expires_at":         `UPDATE person_session SET expires_at = expires_at + 3600000`,
	"person_session.mac":                `UPDATE person_session SET mac = zeroblob(32)`,

	"federated_token.details": `UPDATE federated_token SET details = '[{"tools":["*"],"type":"tool_call"}]'`,
}

// forgeries are all statements that change a column of obeyed or authenticated.
func forgeries() map[string]string {
	all := maps.Clone(obeyed)
	maps.Copy(all, authenticated)
	for what, forged := range nameForgeries {
		if strings.Contains(what, ".") {
			all[what] = forged.statement
		}
	}
	return all
}

// sealedAway reports whether a sealed database has only an HMAC of the secret with which a column
// is compared. There, who uses the row is refused.
func sealedAway(what string) bool {
	return master() != nil && (what == "oauth_client.secret_hash" || strings.HasPrefix(what, "oauth_token.") || strings.HasPrefix(what, "federated_token."))
}

// rows are statements that add, delete or swap whole rows.
var rows = map[string]string{
	"a key that comes back":               `INSERT INTO api_key (company, hash, key, created_at, role, fingerprint) VALUES (1, zeroblob(32), 'svc_back', '2026-03-04T05:06:07.008Z', 'admin', '0011223344556677')`,
	"a key that is gone":                  `DELETE FROM api_key WHERE label = 'reader'`,
	"a client that is gone":               `DELETE FROM oauth_client`,
	"an agent of nobody":                  `INSERT INTO agent (company, agent_id, registered_at) VALUES (1, 'nobody', '2026-03-04T05:06:07.008Z')`,
	"a disabled agent that is gone":       `DELETE FROM agent WHERE agent_id = 'gone'`,
	"a passport that was never issued":    `INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at) VALUES (1, 'forged', 'bot', '["*"]', 1, 9999999999)`,
	"a passport that is gone":             `DELETE FROM passport WHERE jti = 'live'`,
	"a revocation of another passport":    `UPDATE passport SET revoked_at = CASE jti WHEN 'live' THEN '2026-03-04T05:06:07.008Z' END, reason = CASE jti WHEN 'live' THEN 'leaked' END WHERE jti IN ('live', 'revoked')`,
	"a webhook that is gone":              `DELETE FROM webhook`,
	"an agent's key that nobody enrolled": `INSERT INTO agent_key (company, thumbprint, agent_id, jwk, created_at) VALUES (1, 'forged', 'bot', '{}', '2026-03-04T05:06:07.008Z')`,
	"an agent's key that is gone":         `DELETE FROM agent_key WHERE label = 'revoked'`,
	"a token key that nobody made":        `INSERT INTO token_key (company, kid, alg, jwk, created_at, signs_from, ended_at) VALUES (1, 'forged', 'RS256', '{}', '2026-03-04T05:06:07.008Z', '2026-03-04T05:06:07.008Z', '2031-03-04T05:06:07.008Z')`,
	"a token key that is gone":            `DELETE FROM token_key WHERE alg = 'RS256'`,
	"an enrolment that nobody made":       `INSERT INTO enrolment (company, hash, fingerprint, agent_id, created_at, expires_at) VALUES (1, zeroblob(32), '66687aadf862bd77', 'bot', '2026-03-04T05:06:07.008Z', 9999999999999)`,
	"a federation that nobody made":       `INSERT INTO federation (company, name, issuer, audience, rules, created_at) VALUES (1, 'forged', 'https://evil.example', 'a', '[]', '2026-03-04T05:06:07.008Z')`,
	"a federation that is gone":           `DELETE FROM federation WHERE name = 'pinned'`,
	"a policy that is gone":               `DELETE FROM attest_policy WHERE agent_id = ''`,
	"audiences that are gone":             `DELETE FROM company_policy`,
	"audiences that nobody named":         `INSERT INTO company_policy (company, exchange_audiences) VALUES (2, '["vault"]')`,
	"a Cedar policy that is gone":         `DELETE FROM cedar_policy WHERE policy_id = 'small'`,
	"a Cedar policy that nobody put":      `INSERT INTO cedar_policy (company, policy_id, cedar, put_at) VALUES (1, 'zzz', 'permit (principal, action, resource);', '2026-03-04T05:06:07.008Z')`,
	"all Cedar policies that are gone":    `DELETE FROM cedar_policy; DELETE FROM cedar_set`,
	"groups that are gone":                `DELETE FROM agent_groups`,
	"groups that nobody set":              `INSERT INTO agent_groups (company, agent_id, names) VALUES (1, 'gone', '["admins"]')`,
	"a person that nobody made":           `INSERT INTO person (company, person_id, name, roles, groups, subjects, created_at) VALUES (1, 'root', 'Root', '["admin"]', '[]', '[]', '2026-03-04T05:06:07.008Z')`,
	"a person that is gone":               `DELETE FROM person WHERE person_id = 'rita'`,
	"a passkey that nobody enrolled":      `INSERT INTO passkey (company, credential_id, person_id, public_key, algorithm, transports, flags, aaguid, created_at) VALUES (1, 'forged', 'alice', 'x', -7, '[]', 0, '', '2026-03-04T05:06:07.008Z')`,
	"a passkey that is gone":              `DELETE FROM passkey WHERE revoked_at IS NOT NULL`,
	"an invitation that nobody made":      `INSERT INTO invitation (company, hash, fingerprint, person_id, created_at, expires_at) VALUES (1, zeroblob(32), '66687aadf862bd77', 'alice', '2026-03-04T05:06:07.008Z', 9999999999999)`,
	"who changes rights that is gone":     `DELETE FROM change_policy`,
	"a suspension that is gone":           `DELETE FROM company_suspension`,
	"a suspension that nobody made":       `INSERT INTO company_suspension (company, suspended_at) VALUES (2, '2026-03-04T05:06:07.008Z')`,
	"a quota that is gone":                `DELETE FROM company_quota`,
	"bytes that were not counted":         `UPDATE head SET bytes = bytes - 1 WHERE chain = -1`,
	"two roles swapped":                   `UPDATE api_key SET role = CASE role WHEN 'reader' THEN 'admin' ELSE 'reader' END WHERE company = 1`,
}

// believed are the columns that are compared with nothing, by table, each list with the reason.
// docs/security/rewriting.md has the same.
var believed = map[string][][2]string{
	"agent_key":      {{"id, label, created_at", "order of listing and what people are shown; a later time delays the first use of a key, or refuses it"}},
	"api_key":        {{"id, label, created_at, last_used_at", "order of listing and what people are shown"}},
	"cedar_policy":   {{"put_at, made_by", "what people are shown; the control log says who put a policy, and when"}},
	"checkpoint":     {{"log_id, size, note", "signed: its reader checks the signature. One that was changed, put back or deleted hides that the log went back from this file alone"}},
	"company_key":    {{"created_at", "decides how long ago a key may have ended to be looked at, whose tokens have ended by then"}},
	"call_watch":     {{"company, next_record", "at worst the service does not say that a refused call ran: reports and the files of sessions do"}},
	"company_usage":  {{"company, agents, revocations, deleted_revocations", "counts: at worst a company has more agents than its bound, or fewer. The head file knows how many revocations there were"}},
	"cosignature":    {{"log_id, witness, size, note, line", "signed by the log and the witness, which its reader checks. One that was changed or deleted hides what a witness has seen, and ends a halt for it"}},
	"enrolment":      {{"id, label, created_at", "order of listing and what people are shown"}},
	"federation":     {{"id, created_at", "order of listing; the HMACs of its tokens are over the time, so they end with a change"}},
	"federation_use": {{"federation, rule, day, subjects", "at worst a rule lets in more new subjects in a day than it may, or fewer"}},
	"agent_session":  {{"id", "order of listing"}},
	"oauth_client":   {{"id, created_at, last_used_at", "order of listing and what people are shown; a token names its client under its HMAC"}},
	"passport":       {{"id", "order of listing"}},
	"person":         {{"made_by", "what people are shown; the control log says who made a person, and who changed it last"}},
	"passkey":        {{"id, created_at", "order of listing and what people are shown"}},
	"invitation":     {{"id", "order of listing"}},
	"refused_call": {{"call, company, counted, requests, refusals, refused, done, tool, expires_at", "as for `call_watch`; what was found is a control record"},
		{"found_at", "counted by readyz alone"}},
	"revoked_token": {{"name, expires_at", "at worst a revoked JWT counts until its hour is over, for its holder, or one that was not revoked does not"}},
	"token_key":     {{"created_at", "at worst a server waits a moment before it signs"}},
	"used_proof":    {{"name, expires_at", "at worst a proof or a token of another issuer counts twice while it counts, for its holder, or not at all"}},
	"witness_key":   {{"id, name, public_key, seed, created_at", "another key is another witness: who asks it knows its key, and the seed must fit"}},
	"witness_log":   {{"origin, origin_hash, size, root, note", "signed by the log and by the witness, which a reader of the note checks. What was cosigned is known to the running server and to the head file: it signs nothing when the table has less"}},
}

// believedOfPostgres are those of the tables that PostgreSQL alone has.
var believedOfPostgres = map[string][][2]string{
	"budget": {{"account, spent, until", "at worst somebody has more calls of a minute, or fewer"}},
	"duty":   {{"name, holder, until, run", "at worst two servers deliver the same messages, or none does for a while"}},
	"feed":   {{"tx, at, chains, lengths", "a hint: what it says was appended is read from the records"}},
	"head":   {{"epoch", "at worst an append is tried once more"}},
	"writer": {{"id, started_at, seq, moved, touched, schema", "at worst an append whose answer was lost is answered as unknown, or HMACs are demanded a day later"}},
}

// A row that an attacker without any key changes is found by verify, which names the table.
func TestVerifyFindsEveryChangedRow(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	storetest.AboutFile(t)
	start := filled(t)
	for _, list := range []map[string]string{forgeries(), rows} {
		for _, what := range slices.Sorted(maps.Keys(list)) {
			t.Run(what, func(t *testing.T) {
				if sealedAway(what) {
					t.Skip("of a sealed database it cannot be told")
				}
				path := storetest.Copy(t, start)
				must.OK(t, other(t, path, append(guards(t, path), list[what])...).Close())
				s := got(store.OpenReadOnly(ctx, path))(t)
				defer s.Close()
				// The texts of sealed keys can be compared with their hashes only with the master
				// key.
				must.OK(t, s.Unseal(master()))
				err := s.VerifyAll(ctx, "", 2, nil, nil)
				if err != nil && strings.Contains(err.Error(), "omitempty") {
					t.Errorf("%s: verify names no column: %v", list[what], err)
				}
				// a wrong count of bytes is no damage of the log
				invalid, miscount := (*store.VerifyError)(nil), (*store.MiscountError)(nil)
				isCount := what == "head.bytes" || what == "bytes that were not counted"
				if errors.As(err, &invalid) == isCount || errors.As(err, &miscount) != isCount {
					t.Errorf("%s: verify says %v", list[what], err)
				}
			})
		}
	}
}

// ofLogs are the tables whose rows are the logs themselves, and what is derived from them. They
// give no right; verification, the stream and proofs find what was changed.
var ofLogs = []string{"record.", "node.", "head.", "summary.", "log.", "log_key."}

// An external change of a row while a server runs is detected by the checks that the server makes
// every five seconds: see TestExternalWriteIsDetectedWithinTenSeconds of package jobs.
func TestRunningServerFindsEveryChangedRight(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	storetest.AboutFile(t)
	start := filled(t)
	list := forgeries()
	maps.Copy(list, rows)
	delete(list, "bytes that were not counted")
	for _, what := range slices.Sorted(maps.Keys(list)) {
		if sealedAway(what) || slices.ContainsFunc(ofLogs, func(table string) bool { return strings.HasPrefix(what, table) }) {
			continue
		}
		t.Run(what, func(t *testing.T) {
			path := storetest.Copy(t, start)
			s := open(t, path)
			must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"registration": "open"}))
			if errs := looksAt(t, s, 0); len(errs) > 0 {
				t.Fatalf("before: %v", errs)
			}
			seen := s.Tables.ExternalWrites()
			must.OK(t, other(t, path, append(guards(t, path), list[what])...).Close())
			if errs := looksAt(t, s, seen); len(errs) == 0 {
				t.Errorf("%s: nothing is noticed", list[what])
			}
			must.OK(t, s.Close())
		})
	}
}

// looksAt does what a running server does every five seconds, and after an external write.
func looksAt(t testing.TB, s *store.Store, seen int64) []error {
	t.Helper()
	must.OK(t, s.Tables.Look(ctx))
	_ = s.Tables.CheckIdentity(ctx) // what differs is in Changed
	if s.Tables.ExternalWrites() == seen {
		return s.Tables.Changed()
	}
	numbers := []int64{db.Installation}
	for number, err := range s.Companies.Numbers(ctx, 0) {
		must.OK(t, err)
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		for _, check := range []func(context.Context, int64) error{s.Tables.CheckRights, s.Tables.CheckNames} {
			_ = check(ctx, number)
		}
	}
	return s.Tables.Changed()
}

// Every column of the schema is in exactly one list: compared with a log, under an HMAC, or
// believed for a reason.
func TestEveryColumnIsComparedAuthenticatedOrBelieved(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	_, path := fresh(t)
	db := other(t, path)
	found := got(db.Query(`SELECT t.name || '.' || c.name FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`))(t)
	defer found.Close()
	columns := map[string]bool{}
	for found.Next() {
		var column string
		must.OK(t, found.Scan(&column))
		columns[column] = true
	}
	must.OK(t, found.Err())
	lists := map[string]int{}
	for column := range forgeries() {
		lists[column]++
	}
	for column := range authenticated { // none of which is compared as well
		if _, is := obeyed[column]; is {
			t.Errorf("the column %s is in two lists", column)
		}
	}
	for column := range columnsOf(believed) {
		lists[column]++
	}
	for column := range columns {
		if n := lists[column]; n != 1 {
			t.Errorf("the column %s is in %d lists", column, n)
		}
		delete(lists, column)
	}
	for column := range lists {
		t.Errorf("there is no column %s", column)
	}
	// PostgreSQL has the same columns, and some of running servers
	catalog := string(got(os.ReadFile("postgres/catalog.txt"))(t))
	theirs := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^column (\w+\.\w+):`).FindAllStringSubmatch(catalog, -1) {
		theirs[m[1]] = true
	}
	if len(theirs) < 200 {
		t.Fatalf("%d columns of PostgreSQL", len(theirs))
	}
	own := columnsOf(believedOfPostgres)
	for column := range theirs {
		if columns[column] == own[column] {
			t.Errorf("PostgreSQL has the column %s, which is in no list, or in two", column)
		}
	}
	for _, list := range []map[string]bool{columns, own} {
		for column := range list {
			if !theirs[column] {
				t.Errorf("PostgreSQL has no column %s", column)
			}
		}
	}
}

func columnsOf(lists map[string][][2]string) map[string]bool {
	columns := map[string]bool{}
	for table, list := range lists {
		for _, of := range list {
			for column := range strings.SplitSeq(of[0], ", ") {
				columns[table+"."+column] = true
			}
		}
	}
	return columns
}

// docs/security/rewriting.md lists the columns that are believed, with the reasons.
func TestBelievedColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	const header = "| table | columns | why nothing is compared |\n|---|---|---|\n"
	page := string(got(os.ReadFile("../docs/security/rewriting.md"))(t))
	_, after, found := strings.Cut(page, header)
	if !found {
		t.Fatal("docs/security/rewriting.md has no table of believed columns")
	}
	table, _, _ := strings.Cut(after, "\n\n")
	var want []string
	for _, lists := range []map[string][][2]string{believed, believedOfPostgres} {
		for name, list := range lists {
			for _, of := range list {
				want = append(want, "| `"+name+"` | `"+strings.ReplaceAll(of[0], ", ", "`, `")+"` | "+of[1]+" |")
			}
		}
	}
	slices.Sort(want)
	if got := strings.Split(strings.TrimSuffix(table, "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("the table must be\n%s", strings.Join(want, "\n"))
	}
}

// filled returns a closed database with rows of every kind.
func filled(t *testing.T) string {
	t.Helper()
	s, path := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"registration": "open"}))
	c := fill(t, s, "acme")
	company(t, s, "zoo")
	named(t, s, c)
	drafts := make([]chain.Draft, 256) // so many have a node and a summary
	for i := range drafts {
		drafts[i] = draft(c)
	}
	got(s.AppendAll(ctx, drafts))(t)
	rotate(t, s, c, now, false)
	c = got(s.Companies.Get(ctx, "acme"))(t)
	rotate(t, s, c, now, true)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	return path
}

// fill registers a company with credentials, agents, passports and a webhook.
func fill(t *testing.T, s *store.Store, id string) *store.Company {
	t.Helper()
	c, _ := company(t, s, id)
	who := by(c, now)
	got(s.Credentials.CreateKey(ctx, who, ptr("reader"), store.Grant{Role: store.Reader, Expires: now.Add(time.Hour)}, 10))(t)
	client, clientSecret, err := s.Credentials.CreateClient(ctx, who, store.Grant{Role: store.Writer}, 10)
	must.OK(t, err)
	_, _, err = s.Credentials.IssueTo(ctx, client.ID, clientSecret, time.Hour, now)
	must.OK(t, err)
	for _, agent := range []string{"bot", "gone"} {
		got(s.Agents.Register(ctx, who, agent, raw(`{"team":"ops"}`), store.AgentBounds{Most: 10}))(t)
	}
	limits := got(authorization.Parse([]byte(`[{"tools":["a"],"type":"tool_call"}]`)))(t)
	for _, p := range []store.Passport{{JTI: "live", AgentID: "bot", JKT: "bound", Details: limits}, {JTI: "revoked", AgentID: "bot"}, {JTI: "disabled", AgentID: "gone"}} {
		// rows that have ended may be gone
		p.Scopes, p.IssuedAt, p.ExpiresAt = []string{"tool:a<b", "tool:*"}, now.Unix(), now.AddDate(50, 0, 0).Unix()
		must.OK(t, s.Passports.Record(ctx, who, p))
	}
	got(s.Passports.Revoke(ctx, who, "revoked", ptr("leaked")))(t)
	_, _, err = s.Agents.Disable(ctx, who, "gone")
	must.OK(t, err)
	secret := store.WebhookSecret{Bytes: make([]byte, 64), Fingerprint: "aa11bb22cc33dd44", Public: c.Issuer.Public.Key}
	got(s.Webhooks.Create(ctx, who, store.Webhook{URL: "https://hooks.example", Agents: []string{"bot"}}, secret, 10))(t)
	agentKeys(t, s, who, "bot")
	for _, algorithm := range []string{tokenkey.ES256, tokenkey.EdDSA, tokenkey.RS256} {
		got(s.TokenKeys.Signer(ctx, who, algorithm))(t)
	}
	federations(t, s, who, "bot")
	got(s.Companies.Suspend(ctx, operator(c), "unpaid"))(t)
	got(s.Companies.Resume(ctx, operator(c), "paid"))(t)
	must.OK(t, s.Companies.SetQuota(ctx, operator(c), store.Quota{Records: ptr(int64(100_000))}, "large"))
	return c
}

// federations makes two federations, and a token of a workload of each.
func federations(t testing.TB, s *store.Store, who store.Caller, agentID string) {
	t.Helper()
	for i, f := range []store.Federation{
		{Name: "pinned", JWKS: `{"keys":[{"kty":"OKP"}]}`},
		{Name: "fetched", JWKSURI: "https://ci.example/jwks"},
	} {
		f.Issuer, f.Audience, f.Rules = "https://ci.example", f.Name, `[{"agentId":"bot","match":{"sub":"x"},"register":false,"scope":"agent","ttl":3600}]`
		f = got(s.Federations.Create(ctx, who, f, 10))(t)
		got(s.Federations.IssueFederated(ctx, who, store.Federated{Federation: f, Subject: "x", AgentID: agentID, JKT: []string{"", "thumbprint"}[i], Ends: now.Add(time.Hour)}, 100))(t)
	}
}

// agentKeys makes rows of all that concerns the keys of an agent.
func agentKeys(t testing.TB, s *store.Store, who store.Caller, agentID string) {
	t.Helper()
	open, spent := ptr("open"), ptr("spent")
	got(s.AgentKeys.CreateEnrolment(ctx, who, agentID, open, now.Add(time.Hour)))(t)
	token := chain.Hash(keys.HashSecret(got(s.AgentKeys.CreateEnrolment(ctx, who, agentID, spent, now.Add(time.Hour)))(t)))
	for _, k := range []struct {
		label     string
		enrolment *chain.Hash
	}{{"live", &token}, {"revoked", nil}} {
		private := got(jose.GenerateKey(jose.EdDSA))(t)
		key := store.AgentKey{Thumbprint: private.Key().Thumbprint, AgentID: agentID, JWK: raw(private.Key().JWK()), Label: &k.label, ExpiresAt: now.Add(time.Hour)}
		got(s.AgentKeys.Enrol(ctx, who, key, k.enrolment, nil))(t)
		if k.label == "live" {
			agent := who
			agent.Agent, agent.Key = agentID, key.Thumbprint
			_, _, err := s.Credentials.IssueToken(ctx, agent, store.TokenGrant{}, time.Hour)
			must.OK(t, err)
		}
		if k.label == "revoked" {
			got(s.AgentKeys.Revoke(ctx, who, agentID, key.Thumbprint, store.Revocation{}))(t)
		}
		must.OK(t, s.Sessions.Note(ctx, who, names.Session{AgentID: agentID, Key: key.Thumbprint, ID: "run-" + key.Thumbprint}))
	}
	must.OK(t, s.Policies.Set(ctx, who, agentID, store.AgentChange{Attest: store.AttestKey, Groups: []string{"staff"}}))
	got(s.Policies.SetCompany(ctx, who, store.CompanyChange{Attest: store.AttestKey, ExchangeAudiences: []string{"vault", "https://mcp.example"}, Decisions: store.DecisionsAll}))(t)
	anySet := func([]store.CedarPolicy) error { return nil }
	for _, id := range []string{"small", "deleted"} {
		got(s.Cedar.Put(ctx, who, store.CedarPolicy{ID: id, Cedar: "forbid (principal, action, resource);"}, anySet))(t)
	}
	must.OK(t, s.Cedar.Delete(ctx, who, "deleted"))
	somePeople(t, s, who)
	must.OK(t, s.Credentials.Use(ctx, store.UsedProof{Name: token, Ends: now.Add(time.Minute)}, now))
	must.OK(t, s.Credentials.RevokeJWT(ctx, who, "a token of "+agentID, now.Add(time.Hour)))
}

// somePeople makes people with passkeys, invitations and a session, of whom one says who changes
// rights.
func somePeople(t testing.TB, s *store.Store, who store.Caller) {
	t.Helper()
	for _, id := range []string{"alice", "otto", "rita"} {
		got(s.People.Create(ctx, who, store.Person{ID: id, Name: "Person " + id, Email: ptr(id + "@example.com"), Roles: []string{map[bool]string{true: "admin", false: "reader"}[id == "alice"]}}, 100))(t)
	}
	_, _, err := s.People.Change(ctx, who, "otto", func(p *store.Person) { p.DisabledAt = chain.FormatTime(now) })
	must.OK(t, err)
	got(s.People.Invite(ctx, who, "rita", now.Add(time.Hour), nil, 100))(t)
	invited := keys.HashSecret(got(s.People.Invite(ctx, who, "alice", now.Add(time.Hour), nil, 100))(t))
	_, alice, err := s.People.Invited(ctx, invited, now)
	must.OK(t, err)
	alice.Reauthenticated = now
	session := store.NewSession{SignedIn: store.ByPasskey}
	for i, k := range []string{"spare", "daily"} {
		e := store.PasskeyEnrolment{
			Passkey: store.Passkey{CredentialID: k + "-" + who.Company.ID, PublicKey: "pQECAyYgASFYI", Algorithm: -7, Transports: []string{"internal"}, Flags: store.BackupEligible, AAGUID: "00000000-0000-0000-0000-000000000000"},
			RPID:    "localhost", Challenge: keys.HashSecret(k + who.Company.ID), Ends: now.Add(time.Minute),
		}
		if i == 0 {
			e.Invitation, e.Session = &invited, &session
		}
		got(s.People.Enrol(ctx, alice, e))(t)
	}
	_, _, err = s.People.RevokePasskey(ctx, alice, "alice", "daily-"+who.Company.ID)
	must.OK(t, err)
	someApprovals(t, s, who, alice)
	for _, changes := range []string{store.ChangesPeople, store.ChangesAny} {
		got(s.Policies.SetCompany(ctx, alice, store.CompanyChange{Changes: changes}))(t)
	}
}

// someApprovals has an approver decide one of two calls that need an approval.
func someApprovals(t testing.TB, s *store.Store, who, alice store.Caller) {
	t.Helper()
	_, _, err := s.People.Change(ctx, who, "alice", func(p *store.Person) { p.Roles = append(p.Roles, store.PersonApprover) })
	must.OK(t, err)
	for i := range 2 {
		ask := store.Asked{Call: chain.Hash{byte(i + 1)}, AgentID: "bot", ActionType: "tool.requested", Tool: "x", Quorum: 2, Expires: now.Add(time.Hour), ID: store.NewApprovalID()}
		got(s.Approvals.Append(ctx, who, []*store.Asked{&ask}, func(int, store.Approved) (chain.Draft, error) { return draft(who.Company), nil }))(t)
		a := got(s.Approvals.Get(ctx, who, ask.ID))(t)
		o := a.Object(who.Company, "alice")
		o.Verdict, o.Uses, o.ExpiresAt = approval.Approve, 1, chain.FormatTime(a.Expires)
		if i > 0 {
			got(s.Approvals.Decide(ctx, alice, store.ApprovalDecision{Object: o, Passkey: store.Passkey{CredentialID: "spare-" + who.Company.ID}}))(t)
		}
	}
}

// guards returns statements that remove every trigger and foreign key of a file.
func guards(t *testing.T, path string) (drop []string) {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	found := got(db.Query(`SELECT name FROM sqlite_schema WHERE type = 'trigger'`))(t)
	defer found.Close()
	for found.Next() {
		var name string
		must.OK(t, found.Scan(&name))
		drop = append(drop, "DROP TRIGGER "+name)
	}
	return append(drop, "PRAGMA foreign_keys = OFF", "PRAGMA ignore_check_constraints = ON")
}

// A changed row is refused even before verification: every caller who uses it or asks about it
// learns that the tables have changed.
func TestChangedRowIsNotTrusted(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	start := filled(t)
	attempts := map[string]struct {
		change string
		asks   func(context.Context, *testing.T, *store.Store) error
	}{
		"an agent enabled": {obeyed["agent.disabled_at"], func(ctx context.Context, t *testing.T, s *store.Store) error {
			return s.Agents.Check(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), "gone")
		}},
		"a disabled agent deleted": {rows["a disabled agent that is gone"], func(ctx context.Context, t *testing.T, s *store.Store) error {
			return s.Agents.Check(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), "gone")
		}},
		"a passport's scopes":            {obeyed["passport.scopes"], passportOf("live")},
		"a passport's life":              {obeyed["passport.expires_at"], passportOf("live")},
		"a revocation moved":             {rows["a revocation of another passport"], passportOf("revoked")},
		"a forged passport":              {rows["a passport that was never issued"], passportOf("forged")},
		"a passport of a disabled agent": {`UPDATE passport SET revoked_at = NULL, reason = NULL WHERE jti = 'disabled'`, passportOf("disabled")},
		"a compromise taken back": {obeyed["company_key.compromised_at"], func(ctx context.Context, _ *testing.T, s *store.Store) error {
			_, err := s.Companies.Get(ctx, "acme")
			return err
		}},
		"an audience added":              {obeyed["company_policy.exchange_audiences"], mayExchange("acme")},
		"audiences deleted":              {rows["audiences that are gone"], mayExchange("acme")},
		"audiences forged":               {rows["audiences that nobody named"], mayExchange("zoo")},
		"a Cedar policy weakened":        {obeyed["cedar_policy.cedar"], decidesBy("acme")},
		"a Cedar policy deleted":         {rows["a Cedar policy that is gone"], decidesBy("acme")},
		"a Cedar policy added":           {rows["a Cedar policy that nobody put"], decidesBy("acme")},
		"all Cedar policies deleted":     {rows["all Cedar policies that are gone"], decidesBy("acme")},
		"an older set of Cedar policies": {`UPDATE cedar_set SET revision = 1, sha256 = '` + store.NoCedarPolicies + `'; DELETE FROM cedar_policy`, decidesBy("acme")},
		"another group": {obeyed["agent_groups.names"], func(ctx context.Context, t *testing.T, s *store.Store) error {
			_, err := s.Cedar.Groups(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), "bot")
			return err
		}},
		"another name": {obeyed["company.company_id"], func(ctx context.Context, _ *testing.T, s *store.Store) error {
			_, err := s.Companies.Get(ctx, "other")
			return err
		}},
	}
	for what, a := range attempts {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, append(guards(t, path), a.change)...).Close())
			s := open(t, path)
			if err := a.asks(ctx, t, s); !errors.Is(err, store.ErrTablesChanged) {
				t.Errorf("%v", err)
			}
			if len(s.Tables.Changed()) != 1 {
				t.Errorf("%v", s.Tables.Changed())
			}
		})
	}
}

// decidesBy reads the policies by which the calls of a company's agents are decided.
func decidesBy(company string) func(context.Context, *testing.T, *store.Store) error {
	return func(ctx context.Context, t *testing.T, s *store.Store) error {
		_, err := s.Cedar.Set(ctx, by(got(s.Companies.Get(ctx, company))(t), now))
		return err
	}
}

func mayExchange(company string) func(context.Context, *testing.T, *store.Store) error {
	return func(ctx context.Context, t *testing.T, s *store.Store) error {
		named, err := s.Policies.MayExchange(ctx, by(got(s.Companies.Get(ctx, company))(t), now), "vault")
		if named {
			t.Error("the row is obeyed")
		}
		return err
	}
}

func passportOf(jti string) func(context.Context, *testing.T, *store.Store) error {
	return func(ctx context.Context, t *testing.T, s *store.Store) error {
		_, err := s.Passport(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), jti)
		return err
	}
}

// A reader who makes himself an admin in the file is refused, and so are changes of his company,
// which can still be read.
func TestChangedRoleIsRefused(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := fresh(t)
	c := fill(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	key := got(s.Credentials.CreateKey(ctx, by(c, now), ptr("mine"), store.Grant{Role: store.Reader}, 10))(t)
	honest := got(s.Credentials.CreateKey(ctx, by(c, now), nil, store.Grant{Role: store.Admin}, 10))(t)
	must.OK(t, other(t, path, `UPDATE api_key SET role = 'admin' WHERE label = 'mine'`).Close())
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("the changed key: %v", err)
	}
	who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(honest.Key), now))(t)
	if _, err := s.Agents.Register(ctx, who, "new", nil, store.AgentBounds{Most: 10}); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("a change: %v", err)
	}
	attest(t, s, c, 1)
	must.OK(t, s.Agents.Check(ctx, who, "bot"))
	got(s.Agents.Register(ctx, by(zoo, now), "new", nil, store.AgentBounds{Most: 10}))(t)

	if _, err := admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("without a reason: %v", err)
	}
	found := got(admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme", Reason: "the owner asked for it"}))(t)
	if len(found) != 1 || found[0].Table != "api_key" {
		t.Errorf("accepted: %v", found)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now))(t); who.Role != store.Admin {
		t.Errorf("accepted, the key has the role %s", who.Role)
	}
	if _, err := admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme", Reason: "again"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("with nothing to accept: %v", err)
	}
	if _, err := admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "nobody", Reason: "x"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// An access token whose row was written or changed in the file is refused.
func TestForgedAccessTokenRowIsRefused(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	reader, secret, err := s.Credentials.CreateClient(ctx, by(c, now), store.Grant{Role: store.Reader}, 10)
	must.OK(t, err)
	admin, _, err := s.Credentials.CreateClient(ctx, by(c, now), store.Grant{Role: store.Admin}, 10)
	must.OK(t, err)
	_, _, err = s.Credentials.CreateClient(ctx, by(zoo, now), store.Grant{Role: store.Admin}, 10)
	must.OK(t, err)
	issue := func() [32]byte {
		token, _, err := s.Credentials.IssueTo(ctx, reader.ID, secret, time.Hour, now)
		must.OK(t, err)
		return keys.HashSecret(token)
	}
	for what, change := range map[string]string{
		"another client":         `UPDATE oauth_token SET client = (SELECT id FROM oauth_client WHERE client_id = '` + admin.ID + `')`,
		"another company's":      `UPDATE oauth_token SET company = 2, client = (SELECT id FROM oauth_client WHERE company = 2)`,
		"a longer life":          `UPDATE oauth_token SET expires_at = expires_at + 3600000`,
		"no HMAC":                `UPDATE oauth_token SET mac = NULL`,
		"another HMAC":           `UPDATE oauth_token SET mac = zeroblob(32)`,
		"a wider scope":          `UPDATE oauth_token SET scope = 'reader'`,
		"bound to a key":         `UPDATE oauth_token SET jkt = 'k'`,
		"a client without token": `UPDATE oauth_token SET client = NULL`,
	} {
		hash := issue()
		must.OK(t, other(t, path, change).Close())
		if who, err := s.Credentials.Authenticate(ctx, hash, now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
	}
	if who := got(s.Credentials.Authenticate(ctx, issue(), now))(t); who.Role != store.Reader {
		t.Errorf("%+v", who)
	}
}

// A record that names another company or the other log is found although the company's key has
// signed it.
func TestRecordsOfAnotherCompany(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	db, start := fresh(t)
	fill(t, db, "acme") // its only key has signed everything
	must.OK(t, db.Close())
	for what, change := range map[string]struct {
		log      store.LogName
		from, to string
	}{
		"another company": {store.Control, `"companyId":"acme"`, `"companyId":"zoo"`},
		"the other log":   {store.Control, `"log":"control",`, ``},
		"no company":      {store.Control, `"companyId":"acme",`, ``},
	} {
		t.Run(what, func(t *testing.T) {
			path := storetest.Copy(t, start)
			got(rewrite.Record(ctx, path, schema(t), store.Options{Master: master()}, "acme", change.log, 1, func(payload []byte) []byte {
				return bytes.Replace(payload, []byte(change.from), []byte(change.to), 1)
			}))(t)
			s := got(store.OpenReadOnly(ctx, path))(t)
			defer s.Close()
			err := s.VerifyAll(ctx, "acme", 2, nil, nil)
			if wrong := (*store.VerifyError)(nil); !errors.As(err, &wrong) || wrong.Index != 1 || !strings.Contains(wrong.Reason, `not one of company "acme"`) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Rows that are older than the control log are adopted once, each with its own record. From then on
// the log covers every row.
func TestRowsBeforeControlLogAreAdopted(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	storetest.AboutFile(t)
	for version := range older {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			path, companies := written(t, version)
			s := open(t, path)
			for id := range companies {
				c := got(s.Companies.Get(ctx, id))(t)
				must.OK(t, s.Tables.Check(ctx, c.Chain))
				first := tipOf(t, s, c.Control).Length
				must.OK(t, s.Tables.Check(ctx, c.Chain)) // nothing is left to adopt
				if again := tipOf(t, s, c.Control).Length; again != first {
					t.Errorf("%s: %d records, and then %d", id, first, again)
				}
			}
			must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
			must.OK(t, other(t, path, `INSERT INTO agent (company, agent_id, registered_at) VALUES (1, 'forged', '2026-03-04T05:06:07.008Z')`).Close())
			if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, new(*store.VerifyError)) {
				t.Errorf("a row that came after the adoption: %v", err)
			}
			if err := s.Tables.Check(ctx, 1); !errors.Is(err, store.ErrTablesChanged) {
				t.Errorf("a row that came after the adoption: %v", err)
			}
			for id, f := range companies {
				c := got(s.Companies.OfChain(ctx, 1))(t)
				if c.ID != id {
					continue
				}
				if err := s.Agents.Check(ctx, by(c, now), "forged"); !errors.Is(err, store.ErrTablesChanged) {
					t.Errorf("the forged agent: %v", err)
				}
				if len(f.Keys) > 0 {
					got(s.Credentials.Authenticate(ctx, keys.HashSecret(f.Keys[0]), now))(t)
				}
			}
		})
	}
}

// A difference that exists before the upgrade is reported after it and is not obeyed.
func TestUpgradeReportsChangedTables(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	path, companies := written(t, "10")
	must.OK(t, other(t, path, `UPDATE api_key SET role = 'admin' WHERE role = 'reader'`).Close())
	s := open(t, path)
	for id, f := range companies {
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(f.Reader), now); !errors.Is(err, store.ErrTablesChanged) {
			t.Errorf("%s: the changed key: %v", id, err)
		}
		if err := s.Tables.Check(ctx, got(s.Companies.Get(ctx, id))(t).Chain); !errors.Is(err, store.ErrTablesChanged) {
			t.Errorf("%s: the report: %v", id, err)
		}
	}
	if len(s.Tables.Changed()) != len(companies) {
		t.Errorf("%v", s.Tables.Changed())
	}
}
