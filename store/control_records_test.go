package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// details are the members of a control record's payload except subject and by.
type details = map[string]any

// change is a record of a control log, either as read or as expected. An expected change without By
// was made by the test's credential.
type change struct {
	Log, AgentID, CompanyID string
	ActionType              store.ControlAction
	Payload                 details
}

func did(c *store.Company, action store.ControlAction, subject string, more details) change {
	payload := details{"subject": subject, "by": by(c, now).Credential}
	for name, value := range more {
		payload[name] = value
	}
	return change{"control", "service", c.ID, action, payload}
}

// changes reads the control log of c from a given record on. It returns each payload as it was
// hashed.
func changes(t testing.TB, s *store.Store, c *store.Company, from int64) (list []change) {
	t.Helper()
	must.OK(t, s.Records(ctx, c.Control.Chain, from, tipOf(t, s, c.Control).Length, func(r *chain.Record) error {
		var one change
		must.OK(t, json.Unmarshal(r.Payload, &one))
		if text, err := jcs.Append(nil, r.Payload, 16); err != nil || !bytes.Equal(text, r.Payload) || r.Delegation != nil {
			t.Errorf("record %d is not canonical: %s", r.Index, r.Payload)
		}
		list = append(list, one)
		return nil
	}))
	return list
}

// clerk makes changes of one company and compares them with the records that they write.
type clerk struct {
	*testing.T
	s       *store.Store
	c       *store.Company
	read    int64    // the position in the control log
	secrets []string // values that must not appear in the log
}

// writes demands that the records since the last call are exactly want, that the log verifies and
// that it contains no secret.
func (k *clerk) writes(what string, want ...change) {
	k.Helper()
	found := changes(k, k.s, k.c, k.read)
	k.read += int64(len(found))
	if len(found) != len(want) || len(want) > 0 && !same(found, want) {
		k.Errorf("%s wrote\n%s\nwant\n%s", what, shown(found), shown(want))
	}
	if err := k.s.VerifyAll(ctx, k.c.ID, 1, nil, nil); err != nil {
		k.Errorf("after %s: %v", what, err)
	}
	text := shown(found)
	for _, secret := range k.secrets {
		hash := keys.HashSecret(secret)
		for _, form := range []string{secret, secret[4:], hex.EncodeToString(hash[:])} {
			if strings.Contains(text, form) {
				k.Errorf("%s wrote a secret: %s", what, text)
			}
		}
	}
}

// refuses demands that a change failed with want, or changed nothing if want is nil, and that it
// wrote no record.
func (k *clerk) refuses(what string, err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("%s: %v, want %v", what, err, want)
	}
	k.writes(what)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func of(secret string) string { return keys.Fingerprint(keys.HashSecret(secret)) }

func newClerk(t *testing.T, metadata string) (*clerk, store.APIKey) {
	t.Helper()
	s, _ := fresh(t)
	c, key, err := s.Companies.Create(ctx, "acme", raw(metadata), now)
	must.OK(t, err)
	return &clerk{T: t, s: s, c: c, secrets: []string{key.Key, "private words"}}, key
}

// The first records of a control log are the company and its first signing key. They name no
// credential, because there was none yet.
func TestRegistrationIsRecorded(t *testing.T) {
	t.Parallel()
	const metadata = `{"note": "private words"}`
	k, key := newClerk(t, metadata)
	c := k.c
	registered := did(c, store.CompanyRegistered, "company:acme", details{
		"registeredAt": c.RegisteredAt, "metadataHash": hashOf(metadata), "kid": c.Issuer.Public.KID, "fingerprint": c.Issuer.Public.Fingerprint,
		// No server has started with this database, so no settings are recorded.
		"logs": details{"actions": c.Actions.Origin, "control": c.Control.Origin}, "settings": nil,
	})
	first := did(c, store.APIKeyCreated, "api-key:"+of(key.Key), details{"fingerprint": of(key.Key), "role": "admin", "expiresAt": nil, "label": "bootstrap"})
	registered.Payload["by"], first.Payload["by"] = nil, nil
	k.writes("the registration", registered, first)
	_, _, err := k.s.Companies.Create(ctx, "acme", nil, now)
	k.refuses("a second one", err, store.ErrExists)
	plain, _ := company(t, k.s, "plain")
	if found := changes(t, k.s, plain, 0); len(found) != 2 || found[0].Payload["metadataHash"] != nil {
		t.Errorf("of a company without metadata: %s", shown(found))
	}
	k.writes("another company")
}

func TestChangesOfCredentialsAreRecorded(t *testing.T) {
	t.Parallel()
	k, first := newClerk(t, "{}")
	s, c, who := k.s, k.c, by(k.c, now)
	zoo, theirs := company(t, s, "zoo")
	k.read = tipOf(t, s, c.Control).Length

	expires := now.Add(time.Hour)
	key := got(s.Credentials.CreateKey(ctx, who, ptr("ci"), store.Grant{Role: store.Writer, Expires: expires}, 1000))(t)
	k.secrets = append(k.secrets, key.Key)
	k.writes("a key made", did(c, store.APIKeyCreated, "api-key:"+of(key.Key),
		details{"fingerprint": of(key.Key), "role": "writer", "expiresAt": chain.FormatTime(expires), "label": "ci"}))
	_, err := s.Credentials.CreateKey(ctx, who, nil, full, 2)
	k.refuses("a key too many", err, store.ErrTooMany)
	k.refuses("deleting another company's key", s.Credentials.DeleteKey(ctx, who, theirs.Key), store.ErrNotFound)
	k.refuses("deleting the last admin's key", s.Credentials.DeleteKey(ctx, who, first.Key), store.ErrLastKey)
	must.OK(t, s.Credentials.DeleteKey(ctx, who, key.Key))
	k.writes("a key deleted", did(c, store.APIKeyDeleted, "api-key:"+of(key.Key), details{"fingerprint": of(key.Key)}))
	k.refuses("deleting it again", s.Credentials.DeleteKey(ctx, who, key.Key), store.ErrNotFound)

	client, secret, err := s.Credentials.CreateClient(ctx, who, store.Grant{Role: store.Reader}, 1000)
	must.OK(t, err)
	k.secrets = append(k.secrets, secret)
	k.writes("a client made", did(c, store.OAuthClientCreated, "oauth-client:"+client.ID,
		details{"clientId": client.ID, "fingerprint": of(secret), "role": "reader", "expiresAt": nil}))
	_, _, err = s.Credentials.CreateClient(ctx, who, full, 1)
	k.refuses("a client too many", err, store.ErrTooMany)
	_, _, err = s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, now)
	k.refuses("an access token, of which there are thousands", err, nil)
	_, err = s.Credentials.DeleteClient(ctx, by(zoo, now), client.ID)
	k.refuses("deletion by another company", err, store.ErrNotFound)
	got(s.Credentials.DeleteClient(ctx, who, client.ID))(t)
	k.writes("a client deleted", did(c, store.OAuthClientDeleted, "oauth-client:"+client.ID, details{"clientId": client.ID, "fingerprint": of(secret)}))
	_, err = s.Credentials.DeleteClient(ctx, who, client.ID)
	k.refuses("deleting it again", err, store.ErrNotFound)
	if n := len(changes(t, s, zoo, 0)); n != 2 {
		t.Errorf("the control log of the other company has %d records", n)
	}
}

// The record of a rotation is the first record of the control log that the new key signs; its index
// refers to the log of actions.
func TestChangesOfSigningKeysAreRecorded(t *testing.T) {
	t.Parallel()
	k, _ := newClerk(t, "{}")
	attest(t, k.s, k.c, 7)
	k.read = tipOf(t, k.s, k.c.Control).Length
	for _, compromised := range []bool{false, true} {
		c, at := k.c, k.read
		k.c = rotate(t, k.s, c, now, compromised)
		is := k.c.Issuer.Public
		k.writes("a signing key rotated", did(c, store.SigningKeyRotated, "signing-key:"+is.KID,
			details{"kid": is.KID, "fingerprint": is.Fingerprint, "previousKid": c.Issuer.Public.KID, "compromised": compromised, "fromIndex": 7, "endedAt": chain.FormatTime(now)}))
		_, ring, err := k.s.KeyRing(ctx, c.Control.Chain)
		must.OK(t, err)
		if last := ring[len(ring)-1]; last.From != at || !last.Public.Equal(is.Key) {
			t.Errorf("the record %d of the rotation is signed by %+v", at, last)
		}
	}
}

// If many callers request the same change at once, one of them makes it, and one record is written.
// A rotation of a passport writes two records that name each other.
func TestConcurrentEqualChangesMakeOneRecord(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	k, _ := newClerk(t, "{}")
	s, c, who := k.s, k.c, by(k.c, now)
	got(s.Agents.Register(ctx, who, "bot", nil, many))(t)
	for _, jti := range []string{"old", "lost"} {
		must.OK(t, s.Passports.Record(ctx, who, passport(jti, 1)))
	}
	key := got(s.Credentials.CreateKey(ctx, who, nil, full, 1000))(t)
	client, _, err := s.Credentials.CreateClient(ctx, who, full, 1000)
	must.OK(t, err)
	k.read = tipOf(t, s, c.Control).Length
	for _, test := range []struct {
		want   []store.ControlAction
		change func(i int) error
	}{
		{[]store.ControlAction{store.PassportRevoked, store.PassportIssued}, func(i int) error {
			return s.Passports.Rotate(ctx, who, passport("old", 1), passport(string(rune('a'+i)), 2))
		}},
		{[]store.ControlAction{store.PassportRevoked}, func(int) error { _, err := s.Passports.Revoke(ctx, who, "lost", nil); return err }},
		{[]store.ControlAction{store.AgentRegistered}, func(int) error {
			_, err := s.Agents.Register(ctx, who, "new", nil, store.AgentBounds{New: true, Most: 100})
			return err
		}},
		{[]store.ControlAction{store.AgentDisabled}, func(int) error { _, _, err := s.Agents.Disable(ctx, who, "bot"); return err }},
		{[]store.ControlAction{store.AgentEnabled}, func(int) error { _, err := s.Agents.Enable(ctx, who, "bot"); return err }},
		{[]store.ControlAction{store.APIKeyDeleted}, func(int) error { return s.Credentials.DeleteKey(ctx, who, key.Key) }},
		{[]store.ControlAction{store.OAuthClientDeleted}, func(int) error { _, err := s.Credentials.DeleteClient(ctx, who, client.ID); return err }},
	} {
		atOnce(20, test.change)
		found := changes(t, s, c, k.read)
		k.read += int64(len(found))
		var actions []store.ControlAction
		for _, one := range found {
			actions = append(actions, one.ActionType)
		}
		if !slices.Equal(actions, test.want) {
			t.Errorf("20 times at once: %v, want %v", actions, test.want)
		}
		if len(found) == 2 && (found[0].Payload["replacedBy"] != found[1].Payload["jti"] || found[1].Payload["rotates"] != "old") {
			t.Errorf("the pair of a rotation: %s", shown(found))
		}
		k.writes("nothing more")
	}
}
