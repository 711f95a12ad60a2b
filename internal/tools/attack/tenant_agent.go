package main

import (
	"attestd/crypto/jose"
	"attestd/internal/harness"
)

// agentCredentials are those of a tenant's agents.
type agentCredentials struct {
	token     string // an access token of deploy-bot
	bound     string // one that is bound to its key
	revoked   string // an access token of deploy-bot whose key is revoked
	enrolment string // an enrolment token of spare-bot
	spent     string // an enrolment token that has enrolled a key
}

// fillAgents enrols keys of deploy-bot, signs in with them, and records a session of it.
func (t *tenant) fillAgents() (err error) {
	bot := &insider{company: t.id, agent: "deploy-bot"}
	if bot.log, err = actionsOf(t.Client, t.key); err != nil {
		return err
	}
	gone, spare := *bot, *bot
	if t.agents.spent, err = enrolment(t.Client, t.key, bot.agent); err != nil {
		return err
	}
	if bot.key, err = enrolKey(t.Client, t.agents.spent, bot.agent, jose.EdDSA); err != nil {
		return err
	}
	for _, a := range []*insider{&gone, &spare} {
		if a.key, err = enrolKey(t.Client, t.key, a.agent, jose.ES256); err != nil {
			return err
		}
	}
	t.names["thumbprint"], t.spare["thumbprint"] = bot.kid(), spare.kid()
	if t.agents.revoked, err = gone.signIn(t.Client, false); err != nil {
		return err
	}
	if err := t.Call(200, harness.Request{Method: "DELETE", Path: keysOf(gone.agent) + "/" + gone.kid(), Key: t.key}, nil); err != nil {
		return err
	}
	if t.agents.token, err = bot.signIn(t.Client, false); err != nil {
		return err
	}
	if t.agents.bound, err = bot.signIn(t.Client, true); err != nil {
		return err
	}
	if t.agents.enrolment, err = enrolment(t.Client, t.key, "spare-bot"); err != nil {
		return err
	}
	t.names["sid"] = t.word("session")
	signed := forgedJWS(bot.key, statementHeader(bot), withAll(bot.claims(), object{"sid": t.names["sid"], "seq": 0, "end": true}))
	return t.ask(201, "POST", "/v1/attest", bot.attest("", signed).Body, nil)
}
