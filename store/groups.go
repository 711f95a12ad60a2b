package store

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store/db"
)

// A Store offers what it does in groups, each of which is about one thing.
type (
	// Companies are the tenants, with their keys and the log of their registrations.
	Companies struct {
		db *Store

		byID      *db.Cache[string, db.Dated[*Company]]
		byChain   *db.Cache[int64, db.Dated[*Company]]
		suspended *db.Cache[int64, db.Dated[bool]]
		// shared by all companies
		verified *cred.Verified
	}
	// Credentials are API keys, OAuth clients and their access tokens.
	Credentials struct {
		db *Store

		// by hash
		found *db.Cache[[sha256.Size]byte, db.Dated[credential]]
		// access tokens that were asked about, for each company its own
		introspected *db.Cache[tenantHash, db.Dated[credential]]
		revoked      *db.Cache[chain.Hash, db.Dated[bool]]
		// when what a JWT was asked for with was made, "" where it is gone
		requesters *db.Cache[owned, db.Dated[string]]
		clients    *db.Cache[string, db.Dated[oauthSecret]]
		// the key of tokenRow.mac
		tokens *atomic.Pointer[[]byte]
	}
	// Agents are those that companies have registered.
	Agents struct {
		db *Store

		states *db.Cache[owned, db.Dated[agentState]]
	}
	// AgentKeys are the public keys of agents, and the tokens with which they enrol them.
	AgentKeys struct {
		db *Store

		found *db.Cache[owned, db.Dated[AgentKey]]
	}
	// TokenKeys are the keys with which companies sign tokens for others.
	TokenKeys struct {
		db *Store

		sets *db.Cache[int64, db.Dated[tokenKeySet]]
		// has one element while token keys are generated
		generating chan struct{}
		// of the first token keys of companies, for unauthenticated readers of a set
		readPace *pace
		// the same, for tokens
		signedPace *pace
	}
	// Federations are other issuers whose tokens companies trust.
	Federations struct {
		db *Store

		byIssuer *db.Cache[owned, db.Dated[[]Federation]]
	}
	// Sessions are runs of agents in which they have made statements.
	Sessions struct {
		db *Store

		// when they were recorded, by the caller's clock
		noted *db.Cache[sessionID, time.Time]
	}
	// Policies say what may be recorded in an agent's name.
	Policies struct {
		db *Store

		// whether only what a key signed counts
		demands *db.Cache[owned, db.Dated[bool]]
		// whether a company has named the audience with a hash for exchanges
		exchanges *db.Cache[tenantHash, db.Dated[bool]]
	}
	// Passports are those that were issued, and their revocations.
	Passports struct {
		db *Store

		states *db.Cache[owned, db.Dated[passportState]]
	}
	// Webhooks are the endpoints to which records are sent, and how far each has come.
	Webhooks struct{ db *Store }
	// Checkpoints are the signed checkpoints of this database's logs, with the answers of witnesses
	// about them.
	Checkpoints struct{ db *Store }
	// Cosigner is the key with which we cosign the logs of others, and what it has signed.
	Cosigner struct {
		db *Store

		// what is known of the logs of others
		cosigned *cosigned
	}
	// Tables are compared with the control logs.
	Tables struct {
		db *Store

		limits *db.Cache[int64, db.Dated[comparedLimits]]
		// the control log says that each row which may have an HMAC has one
		rowsSigned *atomic.Bool
		// companies whose tables differ from their control logs
		changed *changedSet
	}
	// Rollback detects a database that is older than its head file or its checkpoints, and accepts
	// one.
	Rollback struct {
		db *Store

		// companies of which a checkpoint shows that a log went back
		halted *changedSet
	}
	// Settings has the settings that affect trust, which the control logs repeat, and the changes
	// that await a record there.
	Settings struct{ db *Store }
	// Pruning deletes the payloads of old actions.
	Pruning struct {
		db *Store

		// held while payloads may begin to be missing, and where a webhook gets its first position
		mu *sync.Mutex
	}
	// Retries finds what was recorded under the key of a request.
	Retries struct{ db *Store }
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
	Settings    Settings
	Pruning     Pruning
	Retries     Retries
}

func (s *Store) group() groups {
	return groups{
		Companies: Companies{
			db:        s,
			byID:      db.NewCache[string, db.Dated[*Company]](s.DB),
			byChain:   db.NewCache[int64, db.Dated[*Company]](s.DB),
			suspended: db.NewCache[int64, db.Dated[bool]](s.DB),
			verified:  new(cred.Verified),
		},
		Credentials: Credentials{
			db:           s,
			found:        db.NewCache[[sha256.Size]byte, db.Dated[credential]](s.DB),
			introspected: db.NewCache[tenantHash, db.Dated[credential]](s.DB),
			revoked:      db.NewCache[chain.Hash, db.Dated[bool]](s.DB),
			requesters:   db.NewCache[owned, db.Dated[string]](s.DB),
			clients:      db.NewCache[string, db.Dated[oauthSecret]](s.DB),
			tokens:       new(atomic.Pointer[[]byte]),
		},
		Agents: Agents{
			db:     s,
			states: db.NewCache[owned, db.Dated[agentState]](s.DB),
		},
		AgentKeys: AgentKeys{
			db:    s,
			found: db.NewCache[owned, db.Dated[AgentKey]](s.DB),
		},
		TokenKeys: TokenKeys{
			db:         s,
			sets:       db.NewCache[int64, db.Dated[tokenKeySet]](s.DB),
			generating: make(chan struct{}, 1),
			readPace:   &pace{burst: firstKeysRead, every: firstKeysReadIn},
			signedPace: &pace{burst: firstKeysSigned, every: firstKeysSignedIn},
		},
		Federations: Federations{
			db:       s,
			byIssuer: db.NewCache[owned, db.Dated[[]Federation]](s.DB),
		},
		Sessions: Sessions{
			db:    s,
			noted: db.NewCache[sessionID, time.Time](s.DB),
		},
		Policies: Policies{
			db:        s,
			demands:   db.NewCache[owned, db.Dated[bool]](s.DB),
			exchanges: db.NewCache[tenantHash, db.Dated[bool]](s.DB),
		},
		Passports: Passports{
			db:     s,
			states: db.NewCache[owned, db.Dated[passportState]](s.DB),
		},
		Webhooks:    Webhooks{s},
		Checkpoints: Checkpoints{s},
		Cosigner: Cosigner{
			db:       s,
			cosigned: new(cosigned),
		},
		Tables: Tables{
			db:         s,
			limits:     db.NewCache[int64, db.Dated[comparedLimits]](s.DB),
			rowsSigned: new(atomic.Bool),
			changed:    new(changedSet),
		},
		Rollback: Rollback{
			db:     s,
			halted: new(changedSet),
		},
		Calls:   Calls{s},
		Expired: Expired{s}, Settings: Settings{s}, Pruning: Pruning{db: s, mu: new(sync.Mutex)}, Retries: Retries{s},
	}
}
