# Made of the API reference by go generate ./web.

from ._routes import _operation

class _Operations:
    """The operations of the API reference that are called in the usual way."""

    @_operation("createCompany")
    def create_company(self, company_id, *, metadata=None):
        """Register a company.

        POST /v1/companies, createCompany of the API reference. Creates the company, its key pair, an empty chain and its first API key (label bootstrap) in one transaction.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        metadata: Union[dict[str, Any], None]. Stored unchanged.
        """

    @_operation("rotateKeys")
    def rotate_keys(self, *, compromised=None):
        """Give the company a new signing key.

        POST /v1/companies/rotate-keys, rotateKeys of the API reference. After this response, a new key signs the company's tokens and statuses, and its records from index on.

        compromised: Union[bool, None]. If true, all tokens signed so far are refused immediately.
        """

    @_operation("createCompanySVID")
    def create_company_svid(self):
        """Get an SVID of the company.

        POST /v1/companies/svid, createCompanySVID of the API reference. A fresh SVID whose subject is the company itself, signed with the company's key, valid for 3600 seconds.
        """

    @_operation("getCompany")
    def get_company(self):
        """Read the company.

        GET /v1/company, getCompany of the API reference. The company that the credential belongs to.
        """

    @_operation("recoverKey")
    def recover_key(self, company_id):
        """Read a company's first key, on the same machine.

        POST /v1/recover-key, recoverKey of the API reference. Returns the oldest existing API key of a company that has the role admin and no expiry.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        """

    @_operation("setup")
    def setup(self, company_id, *, metadata=None):
        """Register a company (alias).

        POST /v1/setup, setup of the API reference. The same as POST /v1/companies, except that it is in the rate tier sensitive.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        metadata: Union[dict[str, Any], None]. Stored unchanged.
        """

    @_operation("listAgents")
    def list_agents(self, *, q=None, status=None, limit=None, cursor=None):
        """List agents.

        GET /v1/agents, listAgents of the API reference. The company's agents, ordered by agentId, in pages.

        q: str. Only agents with this in their agentId; A to Z in either case.
        status: Literal["active", "disabled"]. Only agents that are enabled, or that are disabled.
        limit: int. Largest number of entries in the page.
        cursor: str. next of the previous page.
        """

    @_operation("registerAgent")
    def register_agent(self, agent_id, *, if_none_match=None, metadata=None):
        """Register an agent.

        POST /v1/agents/register, registerAgent of the API reference. Registers an agent and issues its first SVID.

        agent_id (or agentId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        if_none_match (or If_None_Match): Literal["*"]. * demands that the agent is new; any other value is 400.
        metadata: Union[dict[str, Any], None]. Stored unchanged; replaces the previous value.
        """

    @_operation("getAgent")
    def get_agent(self, agent_id):
        """Read an agent.

        GET /v1/agents/{agentId}, getAgent of the API reference. One agent of the company.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("disableAgent")
    def disable_agent(self, agent_id):
        """Disable an agent.

        POST /v1/agents/{agentId}/disable, disableAgent of the API reference. After this response, the agent gets no SVID, passport, delegation or token exchange, and no one can attest for it.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("enableAgent")
    def enable_agent(self, agent_id):
        """Enable an agent.

        POST /v1/agents/{agentId}/enable, enableAgent of the API reference. The service issues tokens to the agent again.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("getAgentSVID")
    def get_agent_svid(self, agent_id, *, audience=None, alg=None):
        """Get an SVID of an agent.

        GET /v1/agents/{agentId}/svid, getAgentSVID of the API reference. A fresh SVID, signed with the company's key, valid for 3600 seconds.

        agent_id (or agentId): str. The agent's name in its company.
        audience: str. Who is to accept the SVID.
        alg: Literal["ES256", "RS256", "EdDSA"]. With audience.
        """

    @_operation("listCredentials")
    def list_credentials(self, *, made_by=None):
        """List keys and clients without their secrets.

        GET /v1/credentials, listCredentials of the API reference. Lists the company's API keys and then its OAuth clients, each in the order of creation, with creator, creation time, hour of the last use, role and expiry.

        made_by (or madeBy): str. Only what the credential with this fingerprint has made.
        """

    @_operation("listKeys")
    def list_keys(self):
        """List API keys.

        GET /v1/keys, listKeys of the API reference. All keys of the company in full, ordered by creation.
        """

    @_operation("createKey")
    def create_key(self, *, expires_at=None, label=None, role=None):
        """Create an API key.

        POST /v1/keys, createKey of the API reference. Creates another key of the company.

        expires_at (or expiresAt): NewExpiry. Time of expiry, in the future, in UTC with milliseconds; null or absent means never.
        label: Union[str, None]. Display name.
        role: NewRole. The role of the credential; null or absent means admin.
        """

    @_operation("deleteKey")
    def delete_key(self, key):
        """Delete an API key.

        DELETE /v1/keys/{key}, deleteKey of the API reference. The key is refused from its next use on.

        key: str. The full key.
        """

    @_operation("getAuthzenMetadata")
    def get_authzen_metadata(self):
        """Get the metadata of this service as a policy decision point.

        GET /.well-known/authzen-configuration, getAuthzenMetadata of the API reference. AuthZEN 1.0 §9.
        """

    @_operation("getCompanyAuthzenMetadata")
    def get_company_authzen_metadata(self, company_id):
        """Get the metadata of a company's policy decision point.

        GET /.well-known/authzen-configuration/o/{companyId}, getCompanyAuthzenMetadata of the API reference. The same for a company.

        company_id (or companyId): str. The company.
        """

    @_operation("evaluateAccess")
    def evaluate_access(self, subject, action, resource, *, context=None):
        """Ask whether an agent may do something, by AuthZEN.

        POST /access/v1/evaluation, evaluateAccess of the API reference. An access evaluation of the OpenID AuthZEN Authorization API 1.0.

        subject: AuthZENEntity. Who asks.
        action: AuthZENAction. What is done.
        resource: AuthZENEntity. With what it is done.
        context: AuthZENContext. The environment of the request.
        """

    @_operation("evaluateAccesses")
    def evaluate_accesses(self, *, action=None, context=None, evaluations=None, options=None, resource=None, subject=None):
        """Ask for several decisions at once, by AuthZEN.

        POST /access/v1/evaluations, evaluateAccesses of the API reference. The access evaluations of AuthZEN 1.0.

        action: AuthZENAction. What is done, where an evaluation does not say.
        context: AuthZENContext. The environment of the request.
        evaluations: Union[list[dict[str, Any]], None]. What is asked.
        options: Union[dict[str, Any], None]. How they are decided.
        resource: AuthZENEntity. With what it is done, where an evaluation does not say.
        subject: AuthZENEntity. Who asks, where an evaluation does not say.
        """

    @_operation("listPolicies")
    def list_policies(self):
        """List policies.

        GET /v1/policies, listPolicies of the API reference. The policies in force, by ID, with the hash and the revision of the set that they make.
        """

    @_operation("testPolicies")
    def test_policies(self, *, agent_id=None, draft=None, from_=None, limit=None, policies=None, remove=None, to=None):
        """Try policies on what is on record.

        POST /v1/policies/test, testPolicies of the API reference. Decides again what is on record, and changes nothing.

        agent_id (or agentId): Union[str, None]. The agent whose records alone are decided.
        draft: Union[TriedPolicy, None]. Put into the set.
        from_: Union[int, None]. The first record that is decided.
        limit: Union[int, None]. The most decisions.
        policies: Union[list[TriedPolicy], None]. In place of those in force.
        remove: Union[list[str], None]. Taken out of the set.
        to: Union[int, None]. The first record that is not decided any more.
        """

    @_operation("deletePolicy")
    def delete_policy(self, policy_id):
        """Delete a policy.

        DELETE /v1/policies/{policyId}, deletePolicy of the API reference. From then on records are decided without it.

        policy_id (or policyId): str. ID of the policy.
        """

    @_operation("getPolicy")
    def get_policy(self, policy_id):
        """Read a policy.

        GET /v1/policies/{policyId}, getPolicy of the API reference. One of the policies in force.

        policy_id (or policyId): str. ID of the policy.
        """

    @_operation("putPolicy")
    def put_policy(self, policy_id, cedar, *, force=None, description=None):
        """Put a policy in force.

        PUT /v1/policies/{policyId}, putPolicy of the API reference. Puts a policy in the place of one with its ID.

        policy_id (or policyId): str. ID of the policy.
        cedar: str.
        force: Literal["true", "false"]. Whether the policy may name what does not exist.
        description: Union[str, None].
        """

    @_operation("listPeople")
    def list_people(self):
        """List people.

        GET /v1/people, listPeople of the API reference. The people of the company, by ID, without their passkeys.
        """

    @_operation("createPerson")
    def create_person(self, person_id, name, *, email=None, groups=None, roles=None, subjects=None):
        """Add a person.

        POST /v1/people, createPerson of the API reference. A person without a passkey, who cannot sign in before an invitation is used.

        person_id (or personId): str. Not me, enrol, sign-in or oidc.
        name: str.
        email: Union[str, None].
        groups: Union[list[str], None].
        roles: Union[list[Literal["admin", "approver", "reader"]], None]. Without it, reader.
        subjects: Union[list[PersonSubject], None]. Accounts at an identity provider with which the person signs in.
        """

    @_operation("deletePerson")
    def delete_person(self, person_id):
        """Delete a person.

        DELETE /v1/people/{personId}, deletePerson of the API reference. Revokes the passkeys of the person, and ends the sessions.

        person_id (or personId): str. ID of the person.
        """

    @_operation("getPerson")
    def get_person(self, person_id):
        """Read a person.

        GET /v1/people/{personId}, getPerson of the API reference. The person with all passkeys, revoked ones too.

        person_id (or personId): str. ID of the person.
        """

    @_operation("changePerson")
    def change_person(self, person_id, *, disabled=None, email=None, groups=None, name=None, roles=None, subjects=None):
        """Change a person.

        PATCH /v1/people/{personId}, changePerson of the API reference. Changes the members that it names, and leaves the others.

        person_id (or personId): str. ID of the person.
        disabled: Union[bool, None].
        email: Union[str, None]. Empty to remove it.
        groups: Union[list[str], None].
        name: Union[str, None].
        roles: Union[list[Literal["admin", "approver", "reader"]], None].
        subjects: Union[list[PersonSubject], None]. Accounts at an identity provider with which the person signs in.
        """

    @_operation("invitePerson")
    def invite_person(self, person_id, *, expires_in=None):
        """Invite a person.

        POST /v1/people/{personId}/invitations, invitePerson of the API reference. A link with which the person enrols one passkey and signs in.

        person_id (or personId): str. ID of the person.
        expires_in (or expiresIn): Union[int, None]. Seconds.
        """

    @_operation("revokePasskey")
    def revoke_passkey(self, person_id, credential_id):
        """Revoke a passkey of a person.

        DELETE /v1/people/{personId}/passkeys/{credentialId}, revokePasskey of the API reference. For good.

        person_id (or personId): str. ID of the person.
        credential_id (or credentialId): str. Credential ID of a passkey, in base64url.
        """

    @_operation("listApprovals")
    def list_approvals(self, *, state=None, limit=None, cursor=None):
        """List approvals.

        GET /v1/approvals, listApprovals of the API reference. The approvals of the company, the newest first.

        state: ApprovalState. Only approvals in this state.
        limit: int. Largest number of approvals of a page.
        cursor: str. The member next of the page before.
        """

    @_operation("requestApproval")
    def request_approval(self, agent_id, tool, arguments, *, action_type=None, call_id=None, expires_in=None, reason=None):
        """Ask for an approval.

        POST /v1/approvals, requestApproval of the API reference. Records approval.requested in the log of actions and makes a pending approval of exactly this call.

        agent_id (or agentId): str.
        tool: str. server/name for a tool of MCP.
        arguments: dict[str, Any]. What the tool gets.
        action_type (or actionType): Union[str, None]. That of the record that will use the approval.
        call_id (or callId): Union[str, None].
        expires_in (or expiresIn): Union[int, None]. Seconds until the request ends.
        reason: Union[str, None]. What it is for, for the people who decide.
        """

    @_operation("withdrawApproval")
    def withdraw_approval(self, approval_id):
        """Withdraw a request for an approval.

        DELETE /v1/approvals/{approvalId}, withdrawApproval of the API reference. Who asked withdraws it.

        approval_id (or approvalId): ApprovalID. ID of the approval.
        """

    @_operation("getApproval")
    def get_approval(self, approval_id, *, wait=None):
        """Read an approval.

        GET /v1/approvals/{approvalId}, getApproval of the API reference. An agent reads its own approvals alone.

        approval_id (or approvalId): ApprovalID. ID of the approval.
        wait: int. For how many seconds to wait for a decision.
        """

    @_operation("createEnrolment")
    def create_enrolment(self, agent_id, *, expires_in=None, label=None):
        """Create an enrolment token.

        POST /v1/agents/{agentId}/enrolments, createEnrolment of the API reference. A token with which the agent's machine enrols one key.

        agent_id (or agentId): str. The agent's name in its company.
        expires_in (or expiresIn): Union[int, None]. Seconds.
        label: Union[str, None].
        """

    @_operation("listAgentKeys")
    def list_agent_keys(self, agent_id):
        """List the keys of an agent.

        GET /v1/agents/{agentId}/keys, listAgentKeys of the API reference. All keys of the agent in the order of their enrolment, revoked ones too.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("enrolAgentKey")
    def enrol_agent_key(self, agent_id, jwk, *, dpop=None, endorsement=None, expires_at=None, label=None, proof=None):
        """Enrol a key of an agent.

        POST /v1/agents/{agentId}/keys, enrolAgentKey of the API reference. Adds a public key of the agent.

        agent_id (or agentId): str. The agent's name in its company.
        jwk: dict[str, Any]. OKP/Ed25519 or EC/P-256, public members only.
        dpop (or DPoP): str. The proof of possession.
        endorsement: Union[str, None]. What the present key has signed of this one; see *Agent keys*.
        expires_at (or expiresAt): Union[str, None]. When the key ends; null for never.
        label: Union[str, None].
        proof: Union[str, None]. The proof of possession, in place of the header.
        """

    @_operation("revokeAgentKey")
    def revoke_agent_key(self, agent_id, thumbprint, *, reason=None, since=None):
        """Revoke a key of an agent.

        DELETE /v1/agents/{agentId}/keys/{thumbprint}, revokeAgentKey of the API reference. From this response on, nothing that the key signs is taken, on any server.

        agent_id (or agentId): str. The agent's name in its company.
        thumbprint: str. The thumbprint of the key.
        reason: Union[str, None]. At most 16 KiB.
        since: Union[Timestamp, None]. When the key came into other hands.
        """

    @_operation("setAgentPolicy")
    def set_agent_policy(self, agent_id, *, attest=None, dry_run=None, groups=None):
        """Set the policy of an agent.

        PUT /v1/agents/{agentId}/policy, setAgentPolicy of the API reference. Changes the members that it names, and leaves the others.

        agent_id (or agentId): str. The agent's name in its company.
        attest: Literal["any", "key", None].
        dry_run (or dryRun): Union[bool, None].
        groups: Union[list[str], None]. The groups of the agent, in place of those before.
        """

    @_operation("setCompanyPolicy")
    def set_company_policy(self, *, attest=None, changes=None, decisions=None, dry_run=None, exchange_audiences=None):
        """Set the policy of the company.

        PUT /v1/company/policy, setCompanyPolicy of the API reference. Changes the members that it names, and leaves the others.

        attest: Literal["any", "key", None].
        changes: Literal["any", "people", None]. Who may change rights.
        decisions: Literal["denied", "all", None]. Which decisions become records where no record of the agent holds them.
        dry_run (or dryRun): Union[bool, None].
        exchange_audiences (or exchangeAudiences): ExchangeAudiences. For whom a token may be exchanged, at most 16,384 bytes together.
        """

    @_operation("getEnrolment")
    def get_enrolment(self):
        """What an enrolment token is good for.

        GET /v1/enrolment, getEnrolment of the API reference. The agent of the enrolment token that is presented as the credential.
        """

    @_operation("listSessions")
    def list_sessions(self, *, agent_id=None, sid=None, kind=None, from_=None, to=None, limit=None, cursor=None):
        """List sessions.

        GET /v1/sessions, listSessions of the API reference. A session is one run of an agent.

        agent_id (or agentId): str. Only the sessions of this agent.
        sid: str. Only the sessions with this ID.
        kind: SessionKind. Only the sessions of this kind.
        from_: str. Only sessions whose last record is of this time or later.
        to: str. Only sessions whose first record is earlier.
        limit: int. Largest number of sessions of a page.
        cursor: str. The member next of the page before.
        """

    @_operation("getSession")
    def get_session(self, agent_id, sid, *, kid=None, kind=None):
        """Get a session as one file.

        GET /v1/sessions/{agentId}/{sid}, getSession of the API reference. Of a session of statements.

        agent_id (or agentId): str. The agent's name in its company.
        sid: str. The session.
        kid: str. Thumbprint of the key, where several keys of the agent have used this sid.
        kind: SessionKind. The kind of the session.
        """

    @_operation("listSessionRecords")
    def list_session_records(self, agent_id, sid, *, kid=None, kind=None, from_=None, limit=None):
        """List the records of a session.

        GET /v1/sessions/{agentId}/{sid}/records, listSessionRecords of the API reference. The records of a session in the order of the log, from an index on.

        agent_id (or agentId): str. The agent's name in its company.
        sid: str. The session.
        kid: str. Thumbprint of the key, where several keys of the agent have used this sid.
        kind: SessionKind. The kind of the session.
        from_: int. Index from which on records are returned.
        limit: int. Largest number of records of a page.
        """

    @_operation("introspectToken")
    def introspect_token(self, company_id, token, *, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, token_type_hint=None):
        """Ask what an access token is good for.

        POST /o/{companyId}/introspect, introspectToken of the API reference. RFC 7662, for the clients and agents of this company, by their secret or assertion as at the token endpoint or by an access token, and for its admins by an API key.

        company_id (or companyId): str. The company.
        token: str. The access token.
        client_assertion: str. As at the token endpoint; aud may also be this URL or the company's issuer.
        client_assertion_type: str. As at the token endpoint.
        client_id: str. As at the token endpoint; not with Authorization.
        client_secret: str. As at the token endpoint.
        token_type_hint: str. It is ignored.
        """

    @_operation("revokeToken")
    def revoke_token(self, company_id, token, *, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, token_type_hint=None):
        """Revoke an access token.

        POST /o/{companyId}/revoke, revokeToken of the API reference. RFC 7009, for who may introspect.

        company_id (or companyId): str. The company.
        token: str. The access token.
        client_assertion: str. As at the token endpoint; aud may also be this URL or the company's issuer.
        client_assertion_type: str. As at the token endpoint.
        client_id: str. As at the token endpoint; not with Authorization.
        client_secret: str. As at the token endpoint.
        token_type_hint: str. It is ignored.
        """

    @_operation("getCompanyToken")
    def get_company_token(self, company_id, grant_type, *, actor_token=None, actor_token_type=None, assertion=None, audience=None, authorization_details=None, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, may_act=None, requested_token_type=None, resource=None, scope=None, subject_token=None, subject_token_type=None):
        """Get an access token of a company's issuer.

        POST /o/{companyId}/token, getCompanyToken of the API reference. As POST /v1/oauth/token, for the clients and agents of this company alone.

        company_id (or companyId): str. The company.
        grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"].
        actor_token: str. A token of the company that says who comes to act.
        actor_token_type: str. As subject_token_type, with actor_token and not without.
        assertion: str. The token of a workload, with urn:ietf:params:oauth:grant-type:jwt-bearer.
        audience: Union[str, list[str]]. In an exchange of tokens of the company.
        authorization_details: Union[AuthorizationDetails, str]. With which arguments its holder may call tools (RFC 9396 §5); in a form their JSON text.
        client_assertion: str. The assertion of an agent, in place of ID and secret.
        client_assertion_type: str. urn:ietf:params:oauth:client-assertion-type:jwt-bearer, of an agent.
        client_id: str. Required unless HTTP Basic is used.
        client_secret: str. Required unless HTTP Basic is used.
        may_act: str. In an exchange of tokens of the company.
        requested_token_type: str. Absent, or urn:ietf:params:oauth:token-type:access_token; of the company also urn:ietf:params:oauth:token-type:jwt.
        resource: Union[str, list[str]]. Absolute URL of https, without a fragment, of a server that takes the token (RFC 8707).
        scope: str. What the token is good for.
        subject_token: str. The same, with urn:ietf:params:oauth:grant-type:token-exchange; or a token of the company.
        subject_token_type: str. urn:ietf:params:oauth:token-type:jwt; of a workload also urn:ietf:params:oauth:token-type:id_token, of the company also urn:ietf:params:oauth:token-type:access_token.
        """

    @_operation("listOAuthClients")
    def list_oauth_clients(self):
        """List OAuth clients.

        GET /v1/oauth/clients, listOAuthClients of the API reference. The clients of the company, without their secrets.
        """

    @_operation("createOAuthClient")
    def create_oauth_client(self, *, expires_at=None, jwks=None, jwks_uri=None, role=None):
        """Create an OAuth client.

        POST /v1/oauth/clients, createOAuthClient of the API reference. Only this response shows the secret.

        expires_at (or expiresAt): NewExpiry. Time of expiry, in the future, in UTC with milliseconds; null or absent means never.
        jwks: Union[dict[str, Any], None]. Public keys of the client, a JWK set; then it has no secret.
        jwks_uri (or jwksUri): Union[str, None]. Where they are; then it has none either.
        role: NewRole. The role of the credential; null or absent means admin.
        """

    @_operation("deleteOAuthClient")
    def delete_oauth_client(self, client_id):
        """Delete an OAuth client.

        DELETE /v1/oauth/clients/{clientId}, deleteOAuthClient of the API reference. After this response the client and all its access tokens are refused, and the service closes streams opened with them (1008).

        client_id (or clientId): str. The client's ID.
        """

    @_operation("getOAuthToken")
    def get_oauth_token(self, grant_type, *, actor_token=None, actor_token_type=None, assertion=None, audience=None, authorization_details=None, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, may_act=None, requested_token_type=None, resource=None, scope=None, subject_token=None, subject_token_type=None):
        """Get an access token.

        POST /v1/oauth/token, getOAuthToken of the API reference. The client credentials grant.

        grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"].
        actor_token: str. A token of the company that says who comes to act.
        actor_token_type: str. As subject_token_type, with actor_token and not without.
        assertion: str. The token of a workload, with urn:ietf:params:oauth:grant-type:jwt-bearer.
        audience: Union[str, list[str]]. In an exchange of tokens of the company.
        authorization_details: Union[AuthorizationDetails, str]. With which arguments its holder may call tools (RFC 9396 §5); in a form their JSON text.
        client_assertion: str. The assertion of an agent, in place of ID and secret.
        client_assertion_type: str. urn:ietf:params:oauth:client-assertion-type:jwt-bearer, of an agent.
        client_id: str. Required unless HTTP Basic is used.
        client_secret: str. Required unless HTTP Basic is used.
        may_act: str. In an exchange of tokens of the company.
        requested_token_type: str. Absent, or urn:ietf:params:oauth:token-type:access_token; of the company also urn:ietf:params:oauth:token-type:jwt.
        resource: Union[str, list[str]]. Absolute URL of https, without a fragment, of a server that takes the token (RFC 8707).
        scope: str. What the token is good for.
        subject_token: str. The same, with urn:ietf:params:oauth:grant-type:token-exchange; or a token of the company.
        subject_token_type: str. urn:ietf:params:oauth:token-type:jwt; of a workload also urn:ietf:params:oauth:token-type:id_token, of the company also urn:ietf:params:oauth:token-type:access_token.
        """

    @_operation("attestBatch")
    def attest_batch(self, records):
        """Append many records.

        POST /v1/attest/batch, attestBatch of the API reference. Appends 1 to 1000 actions in one transaction.

        records: list[AttestItem].
        """

    @_operation("claudeCodeHook")
    def claude_code_hook(self, *, agent=None, require=None, redact=None, fail=None, ask_wait=None, **members):
        """Record what a coding agent does.

        POST /v1/hooks/claude-code, claudeCodeHook of the API reference. The endpoint for HTTP hooks of Claude Code; attestd init claude-code writes the settings.

        agent: str. In whose name it is recorded, 1 to 256 characters.
        require: Literal["passport", "policy", "passport,policy", "policy,passport"]. With passport, a call of a tool that no valid passport of the agent covers (tool:<name>, tool:* or *) is refused, and the refusal recorded.
        redact: Literal["input", "output", "input,output", "output,input"]. What is recorded as {"sha256","bytes"} alone.
        fail: Literal["open", "closed"]. What becomes of a call that cannot be recorded.
        ask_wait (or askWait): int. For how many seconds the answer to a call that needs an approval waits for it.
        """

    @_operation("exportLogs")
    def export_logs(self, *, agent=None, all=None, content=None, **members):
        """Record log records.

        POST /v1/otlp/v1/logs, exportLogs of the API reference. OTLP/HTTP 1.x.

        agent: str. In whose name all items are recorded, 1 to 256 characters.
        all: Literal["true", "false"]. With true, items that are not of agents, models or tools are recorded as well.
        content: Literal["hash", "keep"]. With keep, prompts, completions, arguments and results of tools, and errors are recorded as they are, with secrets masked.
        """

    @_operation("exportTraces")
    def export_traces(self, *, agent=None, all=None, content=None, **members):
        """Record spans.

        POST /v1/otlp/v1/traces, exportTraces of the API reference. OTLP/HTTP 1.x.

        agent: str. In whose name all items are recorded, 1 to 256 characters.
        all: Literal["true", "false"]. With true, items that are not of agents, models or tools are recorded as well.
        content: Literal["hash", "keep"]. With keep, prompts, completions, arguments and results of tools, and errors are recorded as they are, with secrets masked.
        """

    @_operation("getChain")
    def get_chain(self, *, from_=None, limit=None, log=None):
        """Read the chain.

        GET /v1/chain, getChain of the API reference. Returns all records of the company, ascending by index.

        from_: int. First index to return.
        limit: int. Largest number of records to return.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getConsistency")
    def get_consistency(self, from_, to, *, log=None):
        """Get a consistency proof of the chain.

        GET /v1/consistency, getConsistency of the API reference. Proves that the first from records are a prefix of the first to.

        from_: int. The older length.
        to: int. The newer length, at most that of the chain.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getEvidence")
    def get_evidence(self, index, *, log=None, jti=None):
        """Get the evidence for a record.

        GET /v1/evidence/{index}, getEvidence of the API reference. Returns one file that can be verified offline, even years later.

        index: int. Index of the record, a non-negative integer in decimal.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        jti: str. A passport to ask for as well, not with log=control.
        """

    @_operation("getProof")
    def get_proof(self, index, *, log=None):
        """Get an inclusion proof.

        GET /v1/proof/{index}, getProof of the API reference. A record and its path to the chain root of the whole chain as it is now.

        index: int. Index of the record, a non-negative integer in decimal.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("searchRecords")
    def search_records(self, *, log=None, agent=None, action=None, delegated_by=None, decision=None, policy=None, since=None, until=None, q=None, payload=None, hash=None, order=None, cursor=None, limit=None):
        """Search records.

        GET /v1/records, searchRecords of the API reference. Returns the records of a log that match all given filters, newest first or oldest first, in pages.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        agent: str. Only records of this agentId.
        action: str. Only records of this actionType, or with a * at its end, of those that begin so.
        delegated_by (or delegatedBy): str. Only records with a delegation that comes from this SPIFFE ID.
        decision: Literal["allow", "deny", "ask"]. Only records whose decision has this verdict.
        policy: str. Only records whose decision this policy made.
        since: str. Only records of this time or later.
        until: str. Only records of before this time.
        q: str. Only records with this text within a string or a name of their payload, as that reads without its escapes.
        payload: str. Only records whose payload has these members, as in tool=Bash or input.command="ls -l".
        hash: str. Only the record with this stored hash.
        order: Literal["newest", "oldest"]. Newest first, or oldest first.
        cursor: str. next of an answer to the same question.
        limit: int. Largest number of records to return.
        """

    @_operation("countRecords")
    def count_records(self, *, log=None, agent=None, action=None, delegated_by=None, decision=None, policy=None, since=None, until=None, buckets=None, by=None):
        """Count records over time.

        GET /v1/records/histogram, countRecords of the API reference. Counts the matching records of a log, in total and in intervals of equal length.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        agent: str. Only records of this agentId.
        action: str. Only records of this actionType, or with a * at its end, of those that begin so.
        delegated_by (or delegatedBy): str. Only records with a delegation that comes from this SPIFFE ID.
        decision: Literal["allow", "deny", "ask"]. Only records whose decision has this verdict.
        policy: str. Only records whose decision this policy made.
        since: str. Only records of this time or later.
        until: str. Only records of before this time.
        buckets: int. Into how many parts the period is divided.
        by: Literal["agent", "action", "decision"]. agent also counts the records of each agent.
        """

    @_operation("getReport")
    def get_report(self, *, from_=None, to=None):
        """Get a complete report of a period.

        GET /v1/report, getReport of the API reference. Returns all records of a period as JSON lines.

        from_: Timestamp. Beginning of the period, itself a part of it.
        to: Timestamp. End of the period, not a part of it, and not later than the millisecond after now, which it is when absent.
        """

    @_operation("verifyChain")
    def verify_chain(self, *, log=None):
        """Verify the whole chain.

        GET /v1/verify, verifyChain of the API reference. Recomputes everything from disk (see *Chain*), in time proportional to the length of the chain.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getAuthority")
    def get_authority(self, index, *, jti=None):
        """Get the authorization at the time of an action.

        GET /v1/authority/{index}, getAuthority of the API reference. Returns what the control log records about an action at the time of its record.

        index: int. Index of the action's record, a non-negative integer in decimal.
        jti: str. A passport to ask for as well.
        """

    @_operation("getCheckpoint")
    def get_checkpoint(self, log_id):
        """Get the newest checkpoint.

        GET /v1/log/{logId}/checkpoint, getCheckpoint of the API reference. The size and log root of the log, signed by the company (c2sp.org/tlog-checkpoint).

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        """

    @_operation("getLogConsistency")
    def get_log_consistency(self, log_id, from_):
        """Get a consistency proof from an older checkpoint.

        GET /v1/log/{logId}/consistency, getLogConsistency of the API reference. Returns the newest checkpoint of the log, and the consistency proof (RFC 6962 §2.1.2) from a size to it, in the format of a request to a witness (c2sp.org/tlog-witness).

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        from_: int. The size of the checkpoint that you keep.
        """

    @_operation("getLogProof")
    def get_log_proof(self, log_id, index):
        """Get an offline inclusion proof (tlog-proof).

        GET /v1/log/{logId}/proof/{index}, getLogProof of the API reference. A tlog-proof (c2sp.org/tlog-proof) that the record's leaf is in the tree of the contained checkpoint.

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        index: int. Index of the record, a non-negative integer in decimal.
        """

    @_operation("getTile")
    def get_tile(self, log_id, path):
        """Get a tile or an entry bundle.

        GET /v1/log/{logId}/tile/{path}, getTile of the API reference. tile/<L>/<N>, tile/<L>/<N>.p/<W> and tile/entries/<N> of c2sp.org/tlog-tiles; path is what follows tile/ and may contain slashes.

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        path: str. What follows tile/.
        """

    @_operation("listLogs")
    def list_logs(self):
        """List the logs of the company.

        GET /v1/logs, listLogs of the API reference. The company's chains as logs that standard tools read.
        """

    @_operation("getWitness")
    def get_witness(self):
        """Get the witness's key.

        GET /v1/witness, getWitness of the API reference. The name of this server as a witness, and the key by which its cosignatures are verified.
        """

    @_operation("addCheckpoint")
    def add_checkpoint(self, text):
        """Cosign a checkpoint.

        POST /v1/witness/add-checkpoint, addCheckpoint of the API reference. A log asks this server, as a witness, to cosign its newest checkpoint (c2sp.org/tlog-witness).

        text: str.
        """

    @_operation("getCosignedCheckpoint")
    def get_cosigned_checkpoint(self, origin_hash):
        """Get the checkpoint that was cosigned last.

        GET /v1/witness/{originHash}/checkpoint, getCosignedCheckpoint of the API reference. The last checkpoint of another's log that this server has cosigned, with the log's signature and the cosignature.

        origin_hash (or originHash): str. SHA-256 of the log's origin, 64 hex digits in lower case.
        """

    @_operation("delegate")
    def delegate(self, agent_id, acting_on, scope, *, authorization_details=None):
        """Issue a delegation token for a company.

        POST /v1/token-exchange, delegate of the API reference. Issues a delegation token with sub = spiffe://{trustDomain}/company/{actingOn}, the agent as the only actor, and the given scope.

        agent_id (or agentId): str. The agent that will act; registered with the company.
        acting_on (or actingOn): Segment. companyId of the company for which it acts.
        scope: str. Scopes separated by spaces.
        authorization_details (or authorizationDetails): AuthorizationDetailsOrNone. With which arguments tools may be called (RFC 9396); see the tag *Passports*.
        """

    @_operation("exchangeToken")
    def exchange_token(self, grant_type, subject_token, subject_token_type, actor_token, actor_token_type, *, authorization_details=None):
        """Exchange tokens (RFC 8693).

        POST /v1/token/exchange, exchangeToken of the API reference. Exchanges the token of a subject and the SVID of an actor, both signed with the authenticated company's key, for a delegation token.

        grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"].
        subject_token: str. SVID of the subject, or the access_token of an earlier exchange.
        subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"].
        actor_token: str. SVID of the actor, without act.
        actor_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"].
        authorization_details: Union[AuthorizationDetails, str]. Narrower ones than those of both tokens; in a form their JSON text.
        """

    @_operation("issuePassport")
    def issue_passport(self, agent_id, *, authorization_details=None, jkt=None, scopes=None, ttl=None):
        """Issue a passport.

        POST /v1/agents/{agentId}/passport, issuePassport of the API reference. Issues a passport to a registered agent.

        agent_id (or agentId): str. The agent's name in its company.
        authorization_details (or authorizationDetails): AuthorizationDetailsOrNone. With which arguments tools may be called (RFC 9396); see the tag *Passports*.
        jkt: Union[str, None]. Thumbprint of a live key of the agent, to which the passport is bound.
        scopes: Union[list[str], None]. null is the default.
        ttl: Union[int, None]. Lifetime in seconds.
        """

    @_operation("rotatePassport")
    def rotate_passport(self, agent_id, *, service_passport=None, attestd_passport=None):
        """Replace a passport by a new one.

        POST /v1/agents/{agentId}/passport/rotate, rotatePassport of the API reference. Revokes the passport in the header and issues a new one with the same scopes, the same delegation chain and the old one's full lifetime, in one transaction.

        agent_id (or agentId): str. The agent's name in its company.
        service_passport (or Service_Passport): JWT. The current passport.
        attestd_passport (or Attestd_Passport): JWT. The current passport, under the name that does not depend on the service's name.
        """

    @_operation("verifyPassport")
    def verify_passport(self, passport, *, arguments=None, htm=None, htu=None, proof=None, tool=None):
        """Verify a passport online.

        POST /v1/passport/verify, verifyPassport of the API reference. Makes all checks listed under *Passports*, including revocation.

        passport: str.
        arguments: Any. Arguments of the call of tool, any JSON but null; without them an authorization detail that has arguments does not cover the call.
        htm: Union[str, None]. Method of that request.
        htu: Union[str, None]. URL of that request.
        proof: Union[str, None]. Of a passport that is bound to a key.
        tool: str. Also check that tool:<tool> is granted.
        """

    @_operation("listPassports")
    def list_passports(self, *, agent=None, status=None, limit=None, cursor=None):
        """List issued passports.

        GET /v1/passports, listPassports of the API reference. Lists the passports that the company has issued, newest first, in pages.

        agent: str. Only passports of the agent with this agentId.
        status: Literal["valid", "revoked", "expired"]. Only passports of this state.
        limit: int. Largest number of entries in the page.
        cursor: str. next of the previous page.
        """

    @_operation("getPassportStatus")
    def get_passport_status(self, jti):
        """Get the signed status of a passport.

        GET /v1/ocsp/{jti}, getPassportStatus of the API reference. Returns a status signed with the company's key; *Revocation* explains how to check it.

        jti: str. ID of the passport.
        """

    @_operation("listRevokedPassports")
    def list_revoked_passports(self):
        """List revoked passports.

        GET /v1/passports/revoked, listRevokedPassports of the API reference. Lists all revoked passports of the company, ordered by the time of revocation.
        """

    @_operation("revokePassport")
    def revoke_passport(self, jti, *, reason=None):
        """Revoke a passport.

        POST /v1/passports/{jti}/revoke, revokePassport of the API reference. Revokes a passport that the company issued.

        jti: str. ID of the passport.
        reason: Union[str, None]. Shown in the list and in the signed status.
        """

    @_operation("getPublicKey")
    def get_public_key(self, company_id):
        """Get a company's public key.

        GET /v1/ca/public-key, getPublicKey of the API reference. Returns the current key as PEM, JWK and JWKS.

        company_id (or companyId): str. The company.
        """

    @_operation("getPublicKeys")
    def get_public_keys(self, company_id):
        """Get all keys that a company has had.

        GET /v1/ca/public-keys, getPublicKeys of the API reference. Lists all keys of a company, oldest first.

        company_id (or companyId): str. The company.
        """

    @_operation("getDiscovery")
    def get_discovery(self, company_id):
        """Get a company's discovery document.

        GET /v1/ca/well-known, getDiscovery of the API reference. Returns everything that a verifier needs in one document.

        company_id (or companyId): str. The company.
        """

    @_operation("getIssuerMetadata")
    def get_issuer_metadata(self, company_id):
        """Get a company's issuer metadata.

        GET /.well-known/oauth-authorization-server/o/{companyId}, getIssuerMetadata of the API reference. The metadata of a company's issuer, in the place of RFC 8414.

        company_id (or companyId): str. The company.
        """

    @_operation("getResourceMetadata")
    def get_resource_metadata(self):
        """Get the metadata of this API as a resource.

        GET /.well-known/oauth-protected-resource, getResourceMetadata of the API reference. RFC 9728, of the whole API.
        """

    @_operation("getCompanyResourceMetadata")
    def get_company_resource_metadata(self, company_id):
        """Get the metadata of a company's part of this API as a resource.

        GET /.well-known/oauth-protected-resource/o/{companyId}, getCompanyResourceMetadata of the API reference. RFC 9728.

        company_id (or companyId): str. The company.
        """

    @_operation("getOpenIDMetadata")
    def get_open_idmetadata(self, company_id):
        """Get a company's issuer metadata, for OpenID Connect.

        GET /.well-known/openid-configuration/o/{companyId}, getOpenIDMetadata of the API reference. The same document, in the place where RFC 8414 §5 puts that of OpenID Connect.

        company_id (or companyId): str. The company.
        """

    @_operation("getOpenIDConfiguration")
    def get_open_idconfiguration(self, company_id):
        """Get a company's issuer metadata, below the issuer.

        GET /o/{companyId}/.well-known/openid-configuration, getOpenIDConfiguration of the API reference. The same document, in the place of OpenID Connect Discovery 1.0.

        company_id (or companyId): str. The company.
        """

    @_operation("getTokenKeys")
    def get_token_keys(self, company_id):
        """Get a company's token keys.

        GET /o/{companyId}/jwks, getTokenKeys of the API reference. The JWK set (RFC 7517) of the issuer.

        company_id (or companyId): str. The company.
        """

    @_operation("getSPIFFEBundle")
    def get_spiffebundle(self, company_id):
        """Get a company's SPIFFE bundle.

        GET /o/{companyId}/spiffe-bundle, getSPIFFEBundle of the API reference. The token keys that may sign a JWT-SVID (ES256, RS256) as a SPIFFE bundle.

        company_id (or companyId): str. The company.
        """

    @_operation("createAgentToken")
    def create_agent_token(self, agent_id, audience, *, alg=None, ttl=None):
        """Issue a token for others.

        POST /v1/agents/{agentId}/token, createAgentToken of the API reference. A JWT that says to audience who the agent is.

        agent_id (or agentId): str. The agent's name in its company.
        audience: Union[str, list[str]]. Who is to accept the token.
        alg: Literal["ES256", "RS256", "EdDSA", None]. Algorithm of the signature.
        ttl: Union[int, None]. Seconds until it ends.
        """

    @_operation("listWebhooks")
    def list_webhooks(self):
        """List webhooks.

        GET /v1/webhooks, listWebhooks of the API reference. The webhooks of the company, without their secrets.
        """

    @_operation("createWebhook")
    def create_webhook(self, url, *, actions=None, agents=None, description=None):
        """Make a webhook.

        POST /v1/webhooks, createWebhook of the API reference. Messages are sent for the records that are appended from now on, of all agents and kinds, or of those that agents and actions name; an action that ends in * is a prefix.

        url: str.
        actions: NewNames. 1 to 100 names of 1 to 256 characters; null or absent means all.
        agents: NewNames. 1 to 100 names of 1 to 256 characters; null or absent means all.
        description: Union[str, None].
        """

    @_operation("deleteWebhook")
    def delete_webhook(self, webhook_id):
        """Delete a webhook.

        DELETE /v1/webhooks/{webhookId}, deleteWebhook of the API reference. After this response, nothing more is sent to it.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("getWebhook")
    def get_webhook(self, webhook_id):
        """Get a webhook.

        GET /v1/webhooks/{webhookId}, getWebhook of the API reference. Returns the state of a webhook.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("disableWebhook")
    def disable_webhook(self, webhook_id):
        """Disable a webhook.

        POST /v1/webhooks/{webhookId}/disable, disableWebhook of the API reference. After this response, nothing more is sent to it.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("enableWebhook")
    def enable_webhook(self, webhook_id):
        """Enable a webhook.

        POST /v1/webhooks/{webhookId}/enable, enableWebhook of the API reference. Delivery continues with the records at which it stopped, with a full set of attempts.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("rotateWebhookSecret")
    def rotate_webhook_secret(self, webhook_id):
        """Rotate the secret of a webhook.

        POST /v1/webhooks/{webhookId}/rotate-secret, rotateWebhookSecret of the API reference. Only this response shows the secret.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("testWebhook")
    def test_webhook(self, webhook_id):
        """Send a test.

        POST /v1/webhooks/{webhookId}/test, testWebhook of the API reference. Sends one message of the type webhook.test, about no record, and returns the result of one attempt.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("listFederations")
    def list_federations(self):
        """List federations.

        GET /v1/federation, listFederations of the API reference. The federations of the company, in the order of their creation.
        """

    @_operation("createFederation")
    def create_federation(self, name, issuer, audience, rules, *, jwks=None, jwks_uri=None):
        """Trust another issuer.

        POST /v1/federation, createFederation of the API reference. Workloads with tokens of this issuer and audience become the agents that rules say.

        name: str. Not . or ...
        issuer: str. iss of the tokens.
        audience: str. aud of the tokens.
        rules: list[FederationRule]. At most 32 KiB.
        jwks: Union[dict[str, Any], None]. The public keys of the issuer (RFC 7517 §5), at most 16 KiB.
        jwks_uri (or jwksUri): Union[str, None]. Where they are.
        """

    @_operation("deleteFederation")
    def delete_federation(self, name):
        """Delete a federation.

        DELETE /v1/federation/{name}, deleteFederation of the API reference. After this response, no token of the issuer is accepted, and the access tokens of its workloads are refused.

        name: str. The federation's name.
        """

    @_operation("getFederation")
    def get_federation(self, name):
        """Get a federation.

        GET /v1/federation/{name}, getFederation of the API reference. Returns a federation, and what this server has fetched of the issuer's keys.

        name: str. The federation's name.
        """

    @_operation("getReadiness")
    def get_readiness(self):
        """Check that the service can write.

        GET /readyz, getReadiness of the API reference. Returns 200 if the service can write now, or else 503 with the reason and the code that a write would get.
        """

    @_operation("getHealth")
    def get_health(self):
        """Check that the service is up.

        GET /v1/health, getHealth of the API reference. Returns 200 while the process answers requests, without accessing the database.
        """

    @_operation("getOpenAPI")
    def get_open_api(self):
        """Get this document.

        GET /v1/openapi.json, getOpenAPI of the API reference. Returns this document as JSON.
        """
