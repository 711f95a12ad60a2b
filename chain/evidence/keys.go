package evidence

import (
	"crypto/ed25519"
	"slices"
	"strings"

	"attestd/chain"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

type published = keys.Public

// keys checks that kid and fingerprint match each key, and that each key follows from its
// predecessor.
func (c *checker) keys() error {
	f := c.file
	seen := make(map[string]bool)
	for i, k := range f.published {
		is := keys.Describe(k.Key)
		if k.KID != is.KID || k.Fingerprint != is.Fingerprint || k.JWK != is.JWK {
			return fail(KeysUnproven, "kid, fingerprint or jwk of key %d do not match the key", i)
		}
		if seen[is.Fingerprint] {
			return fail(KeysUnproven, "key %d is a duplicate", i)
		}
		seen[is.Fingerprint] = true
	}
	if want, have := f.neededLogs(), f.logNames(); !slices.Equal(have, want) {
		return fail(KeysUnproven, "the logs are %v, want %v", have, want)
	}
	var all []keyring.Key // those of actions, if present
	var proven []string
	for _, l := range f.Logs {
		if !strings.HasSuffix(l.Origin, "/v1/log/"+l.ID) {
			return fail(KeysUnproven, "the origin of the log %s does not match its logId", l.Name)
		}
		if len(l.Keys) == 0 {
			return fail(KeysUnproven, "the log %s has no key", l.Name)
		}
		if at := slices.IndexFunc(l.Keys, func(k keyring.Key) bool { return k.Public == nil }); at >= 0 {
			return fail(KeysUnproven, "key %d of the log %s is not the one in keys", at, l.Name)
		}
		var flaws []string
		if l.Name == Control && all != nil {
			flaws = keyring.FlawsBeside(l.Origin, l.Keys, all, proven)
		} else {
			flaws = keyring.Flaws(l.Origin, l.Keys)
			all, proven = l.Keys, flaws
		}
		for _, flaw := range flaws {
			if flaw != "" {
				return fail(KeysUnproven, "log %s: %s", l.Name, flaw)
			}
		}
	}
	if n := len(f.Keys); n > 1 {
		c.say("the company's %d keys follow from one another: each is named by the one before it, up to %s", n, f.published[n-1].Fingerprint)
	} else {
		c.say("the company's key is %s", f.published[0].Fingerprint)
	}
	return nil
}

func (f *File) logNames() (names []string) {
	for _, l := range f.Logs {
		names = append(names, l.Name)
	}
	return names
}

// neededLogs returns the names of the logs that a check of the file needs. A file has no others,
// because nothing would authenticate them.
func (f *File) neededLogs() (names []string) {
	if f.bothLogs {
		return []string{Actions, Control}
	}
	control := f.Log == Control || f.AgentKey != nil && len(f.AgentKey.Entries) > 0 ||
		f.Authority != nil && len(f.Authority.Entries) > 0 || f.Passport != nil && len(f.Passport.Entries) > 0
	later := false // the first key of the control log is not the company's first
	for _, l := range f.Logs {
		later = later || l.Name == Control && len(l.Keys) > 0 && l.Keys[0].Generation != 0
	}
	if f.Log == Actions || later {
		names = append(names, Actions)
	}
	if control {
		names = append(names, Control)
	}
	return names
}

// log returns a log. It MUST be one of neededLogs, which keys has checked.
func (f *File) log(name string) *Log {
	return &f.Logs[slices.IndexFunc(f.Logs, func(l Log) bool { return l.Name == name })]
}

// keyAt returns the key that signs a record of the log.
func (l *Log) keyAt(index int64) ed25519.PublicKey { return l.keySet().At(index).Key }

// generation returns the place in the keys of the file of the key that signs a record of the log.
func (l *Log) generation(index int64) int {
	at := 0
	for i, k := range l.Keys {
		if k.From <= index {
			at = i
		}
	}
	return int(l.Keys[at].Generation)
}

// keySet returns the keys of a log, which MUST NOT change any more.
func (l *Log) keySet() chain.KeySet {
	if l.set == nil {
		l.set = make(chain.KeySet, len(l.Keys))
		for i, k := range l.Keys {
			l.set[i] = chain.KeyRange{From: k.From, Key: k.Public}
		}
	}
	return l.set
}
