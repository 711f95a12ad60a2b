package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// grants lists the privileges that a server needs on each table. The owner of the tables performs
// other operations, such as restoring secrets under another master key. On immutable tables, a
// server may only read and insert, so that a compromised server can do no more than the triggers
// allow, even without them. Two triggers let it do more: it may delete passports that have ended,
// and empty payloads that were pruned.
func grants() []struct{ table, privileges string } {
	return []struct{ table, privileges string }{
		{"setting", "SELECT, INSERT, DELETE"},
		{"company", "SELECT, INSERT"},
		{"company_key", "SELECT, INSERT, UPDATE (seed, ended_at, compromised_at)"},
		{"log", "SELECT, INSERT"},
		{"log_key", "SELECT, INSERT"},
		{"record", "SELECT, INSERT, UPDATE (payload)"},
		{"idempotency_key", "SELECT, INSERT, UPDATE (request, idx, expires_at), DELETE"},
		{"webhook", "SELECT, INSERT, UPDATE (public_key, fingerprint, secret, former_secret, former_until, disabled_at, disabled_reason, next_record, attempts, retry_at, next_control, mac), DELETE"},
		{"node", "SELECT, INSERT"},
		{"summary", "SELECT, INSERT"},
		{"head", "SELECT, INSERT, UPDATE (length, root, frontier, timestamp, log_root, log_frontier, epoch, bytes)"},
		{"checkpoint", "SELECT, INSERT, UPDATE (size, note)"},
		{"cosignature", "SELECT, INSERT, UPDATE (size, note, line)"},
		{"witness_key", "SELECT, INSERT"},
		{"witness_log", "SELECT, INSERT, UPDATE (size, root, note)"},
		{"api_key", "SELECT, INSERT, UPDATE (last_used_at), DELETE"},
		{"oauth_client", "SELECT, INSERT, UPDATE (last_used_at), DELETE"},
		{"oauth_token", "SELECT, INSERT, DELETE"},
		{"agent", "SELECT, INSERT, UPDATE (registered_at, metadata, disabled_at)"},
		{"company_usage", "SELECT, INSERT, UPDATE (agents, revocations, deleted_revocations)"},
		{"passport", "SELECT, INSERT, UPDATE (revoked_at, reason), DELETE"},
		{"agent_key", "SELECT, INSERT, UPDATE (revoked_at)"},
		{"enrolment", "SELECT, INSERT, UPDATE (key)"},
		{"token_key", "SELECT, INSERT, UPDATE (private, ended_at, compromised_at)"},
		{"federation", "SELECT, INSERT, DELETE"},
		{"federated_token", "SELECT, INSERT, DELETE"},
		{"federation_use", "SELECT, INSERT, UPDATE (day, subjects)"},
		{"attest_policy", "SELECT, INSERT, UPDATE (attest)"},
		{"company_policy", "SELECT, INSERT, UPDATE (exchange_audiences)"},
		{"cedar_policy", "SELECT, INSERT, UPDATE (cedar, description, put_at, made_by), DELETE"},
		{"cedar_set", "SELECT, INSERT, UPDATE (revision, sha256)"},
		{"agent_groups", "SELECT, INSERT, UPDATE (names)"},
		{"decision_policy", "SELECT, INSERT, UPDATE (decisions)"},
		{"person", "SELECT, INSERT, UPDATE (name, email, roles, groups, disabled_at), DELETE"},
		{"passkey", "SELECT, INSERT, UPDATE (revoked_at)"},
		{"invitation", "SELECT, INSERT, UPDATE (passkey)"},
		{"person_session", "SELECT, INSERT, UPDATE (passkey, last_used_at, reauthenticated_at, mac), DELETE"},
		{"approval", "SELECT, INSERT, UPDATE (state, granted, decided, uses, remaining, until, gone_at, mac), DELETE"},
		{"change_policy", "SELECT, INSERT, UPDATE (changes)"},
		{"call_watch", "SELECT, INSERT, UPDATE (next_record)"},
		{"refused_call", "SELECT, INSERT, UPDATE (counted, requests, refusals, refused, done, tool, expires_at, found_at), DELETE"},
		{"company_suspension", "SELECT, INSERT, UPDATE (suspended_at, reason)"},
		{"company_quota", "SELECT, INSERT, UPDATE (max_records, max_bytes)"},
		{"agent_session", "SELECT, INSERT, DELETE"},
		{"used_proof", "SELECT, INSERT, DELETE"},
		{"revoked_token", "SELECT, INSERT, DELETE"},
		{"writer", "SELECT, INSERT, UPDATE (seq, moved, touched), DELETE"},
		{"feed", "SELECT, INSERT, DELETE"},
		{"duty", "SELECT, INSERT, UPDATE (holder, until, run), DELETE"},
		{"budget", "SELECT, INSERT, UPDATE (spent, until), DELETE"},
	}
}

// called lists the functions that a server's statements call. Triggers' functions and identity
// columns need no grant.
const called = "json_valid(text), json_extract(text, text), json_each(text, text), next_company()"

// Grants returns the SQL that grants a role the privileges for serving from the tables in a
// namespace, and revokes all others on them. The owner of the tables runs it. It does not restrict
// a role that owns the tables or is a superuser.
func Grants(namespace, role string) string {
	in, to := pgx.Identifier{namespace}.Sanitize(), pgx.Identifier{role}.Sanitize()
	var b strings.Builder
	// one transaction, so that a running server never lacks a privilege
	fmt.Fprintf(&b, "BEGIN;\nGRANT USAGE ON SCHEMA %s TO %s;\n", in, to)
	qualified := func(names string) string { return in + "." + strings.ReplaceAll(names, "), ", "), "+in+".") }
	fmt.Fprintf(&b, "GRANT EXECUTE ON FUNCTION %s TO %s;\n", qualified(called), to)
	for _, g := range grants() {
		fmt.Fprintf(&b, "REVOKE ALL ON %s.%s FROM %s;\n", in, g.table, to)
		fmt.Fprintf(&b, "GRANT %s ON %s.%s TO %s;\n", g.privileges, in, g.table, to)
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}
