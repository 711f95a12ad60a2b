package store

// A Store offers what it does in groups, each of which is about one thing.
type (
	// Companies are the tenants, with their keys and the log of their registrations.
	Companies struct{ db *Store }
	// Credentials are API keys, OAuth clients and their access tokens.
	Credentials struct{ db *Store }
	// Agents are those that companies have registered.
	Agents struct{ db *Store }
	// AgentKeys are the public keys of agents, and the tokens with which they enrol them.
	AgentKeys struct{ db *Store }
	// TokenKeys are the keys with which companies sign tokens for others.
	TokenKeys struct{ db *Store }
	// Federations are other issuers whose tokens companies trust.
	Federations struct{ db *Store }
	// Sessions are runs of agents in which they have made statements.
	Sessions struct{ db *Store }
	// Policies say what may be recorded in an agent's name.
	Policies struct{ db *Store }
	// Passports are those that were issued, and their revocations.
	Passports struct{ db *Store }
	// Webhooks are the endpoints to which records are sent, and how far each has come.
	Webhooks struct{ db *Store }
	// Checkpoints are those that were signed of our logs, and what witnesses have said of them.
	Checkpoints struct{ db *Store }
	// Cosigner is the key with which we cosign the logs of others, and what it has signed.
	Cosigner struct{ db *Store }
	// Tables are compared with the control logs.
	Tables struct{ db *Store }
	// Rollback detects a database that is older than its head file or its checkpoints, and accepts
	// one.
	Rollback struct{ db *Store }
	// Calls of tools that were refused, and what became of them.
	Calls struct{ db *Store }
	// Expired are rows that go some time after what they are for has ended.
	Expired struct{ db *Store }
)

// groups are the fields of a Store.
type groups struct {
	Companies   Companies
	Credentials Credentials
	Agents      Agents
	AgentKeys   AgentKeys
	TokenKeys   TokenKeys
	Federations Federations
	Sessions    Sessions
	Policies    Policies
	Passports   Passports
	Webhooks    Webhooks
	Checkpoints Checkpoints
	Cosigner    Cosigner
	Tables      Tables
	Rollback    Rollback
	Calls       Calls
	Expired     Expired
}

func (s *Store) group() groups {
	return groups{Companies{s}, Credentials{s}, Agents{s}, AgentKeys{s}, TokenKeys{s}, Federations{s}, Sessions{s}, Policies{s}, Passports{s}, Webhooks{s}, Checkpoints{s}, Cosigner{s}, Tables{s}, Rollback{s}, Calls{s}, Expired{s}}
}
