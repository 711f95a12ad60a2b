package store

import (
	"crypto/sha256"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store/db"
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
	Cedar       CedarPolicies
	People      People
	Approvals   Approvals
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

// newGroups makes the groups in the order in which they use one another.
func newGroups(b *base) (g groups, view View) {
	b.admit = b.mayChange
	head := new(headState)
	keys := rowKeys{db: b, key: new(atomic.Pointer[[]byte]), required: new(atomic.Bool)}
	companies := companyCache{
		db:        b,
		byID:      db.NewCache[string, db.Dated[*Company]](b.DB),
		byChain:   db.NewCache[int64, db.Dated[*Company]](b.DB),
		suspended: db.NewCache[int64, db.Dated[bool]](b.DB),
		verified:  new(cred.Verified),
	}
	known := credentialCaches{
		found:        db.NewCache[[sha256.Size]byte, db.Dated[credential]](b.DB),
		introspected: db.NewCache[tenantHash, db.Dated[credential]](b.DB),
		requesters:   db.NewCache[owned, db.Dated[string]](b.DB),
	}
	g.Passports = Passports{db: b, states: db.NewCache[owned, db.Dated[passportState]](b.DB)}
	view = View{b.now, companies, g.Passports}
	g.Agents = Agents{db: b, passports: g.Passports, states: db.NewCache[owned, db.Dated[agentState]](b.DB)}
	g.AgentKeys = AgentKeys{db: b, companies: companies, found: db.NewCache[owned, db.Dated[AgentKey]](b.DB)}
	g.TokenKeys = TokenKeys{
		db:         b,
		sets:       db.NewCache[int64, db.Dated[tokenKeySet]](b.DB),
		generating: make(chan struct{}, 1),
		readPace:   &pace{burst: firstKeysRead, every: firstKeysReadIn},
		signedPace: &pace{burst: firstKeysSigned, every: firstKeysSignedIn},
	}
	g.Federations = Federations{
		db: b, keys: keys, companies: companies, agents: g.Agents, known: known,
		byIssuer: db.NewCache[owned, db.Dated[[]Federation]](b.DB),
	}
	g.Credentials = Credentials{
		db: b, keys: keys, companies: companies, agents: g.Agents, agentKeys: g.AgentKeys, credentialCaches: known,
		revoked:     db.NewCache[chain.Hash, db.Dated[bool]](b.DB),
		clients:     db.NewCache[string, db.Dated[oauthSecret]](b.DB),
		federations: g.Federations,
	}
	g.Companies = Companies{companyCache: companies, credentials: g.Credentials, tokenKeys: g.TokenKeys}
	g.Sessions = Sessions{db: b, noted: db.NewCache[sessionID, time.Time](b.DB)}
	g.Cedar = CedarPolicies{
		db:     b,
		sets:   db.NewCache[int64, db.Dated[*CedarSet]](b.DB),
		groups: db.NewCache[owned, db.Dated[[]string]](b.DB),
	}
	g.Policies = Policies{
		db: b, cedar: g.Cedar,
		demands:   db.NewCache[owned, db.Dated[bool]](b.DB),
		exchanges: db.NewCache[tenantHash, db.Dated[bool]](b.DB),
		decisions: db.NewCache[int64, db.Dated[string]](b.DB),
	}
	g.People = People{b, keys, g.Companies}
	g.Approvals = Approvals{b, keys, g.People}
	g.Webhooks = Webhooks{db: b, keys: keys, companies: companies, view: &view}
	g.Settings = Settings{db: b, keys: keys, companies: g.Companies}
	g.Tables = Tables{
		db: b, keys: keys, view: &view, companies: g.Companies, sessions: g.Sessions, settings: g.Settings, webhooks: g.Webhooks, cedar: g.Cedar,
		limits: db.NewCache[int64, db.Dated[comparedLimits]](b.DB),
	}
	g.Checkpoints = Checkpoints{db: b, view: &view, head: head}
	g.Cosigner = Cosigner{db: b, head: head, cosigned: new(cosigned)}
	g.Rollback = Rollback{db: b, head: head, companies: companies, view: &view, checkpoints: g.Checkpoints, cosigner: g.Cosigner}
	g.Pruning = Pruning{db: b, view: &view}
	g.Retries, g.Calls, g.Expired = Retries{b}, Calls{b}, Expired{b, companies}
	return g, view
}
