package evidence

import (
	"crypto/ed25519"

	"attestd/chain"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

// Format is the first member of every file.
const Format = "attestd-evidence/v1"

// Names of the logs.
const (
	Actions = "actions"
	Control = "control"
)

// File is the content of an evidence file.
type File struct {
	CompanyID  string
	Log        string // of the record
	Record     chain.Record
	HexProof   HexProof
	Proof      string // tlog-proof of the record
	Logs       []Log
	Keys       []ed25519.PublicKey // from the first to the signer of the checkpoints
	Witnesses  []string            // vkeys
	Delegation []byte              // nil if the record has none
	AgentKey   *AgentKey           // nil if the record has no statement
	Passport   *Passport
	Status     []byte // of the passport: the response of GET /v1/ocsp/{jti}
	Authority  *Authority
	NotProven  []string

	published []keys.Public // Keys in their published form
	bothLogs  bool          // Logs has both logs, as in a report
}

// HexProof leads from the record's hash to the root of the specified tree of a size.
type HexProof struct {
	Steps chain.Proof
	Root  chain.Hash
	Size  int64
}

// Log is one of the company's logs with those of its keys that are in Keys. Only the signed fields
// of a key are used: Generation (its index in Keys), Public, From and Rotation.
type Log struct {
	Name, ID, Origin string
	Keys             []keyring.Key

	set chain.KeySet // of Keys, once it is asked for
}

// Entry is a control record with its inclusion proof.
type Entry struct {
	Record chain.Record
	Proof  string // tlog-proof
}

// Passport is a passport with its control records.
type Passport struct {
	JTI     string
	Entries []Entry
}

// AgentKey has the control records of the key that signed the record's statement, and of the keys
// from which it follows.
type AgentKey struct{ Entries []Entry }

// Authority has the control records about the authority of the record's agent.
type Authority struct{ Entries []Entry }

// Sentences of notProven that files of a session have too.
const (
	notOmitted = "That no other record of the control log bears on this one: what is missing here may stand there."
	notOrdered = "How records of the two logs follow each other but by their times."
	notOnce    = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same."
	notOwnKey  = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is."
)

// notProven returns sentences for people about what the file does not prove. They are part of the
// format.
func (f *File) notProven() []string {
	list := []string{
		"That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
		"That what the payload says is true: only that the service was given it, and when by the service's clock.",
		"That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
		"That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
		"That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
		"That the root in hexProof is the chain's: compare it with one that you kept.",
	}
	if f.Authority != nil || f.Passport != nil || f.AgentKey != nil {
		list = append(list, notOmitted)
	}
	switch {
	case f.AgentKey != nil:
		list = append(list, notOrdered, notOnce, notOwnKey)
	case f.Authority != nil:
		list = append(list, "How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.")
	}
	if f.Status != nil {
		list = append(list, "That the status of the passport is still the same: it is of the moment when it was checked.")
	}
	return list
}
