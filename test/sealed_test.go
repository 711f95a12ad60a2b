package test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// newMasterKey makes a master key in a new file.
func newMasterKey(t *testing.T) (path string, key seal.Master) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "master.key")
	_, err := attestd(t, "master-key", "new", path)
	must.OK(t, err)
	text, err := os.ReadFile(path)
	must.OK(t, err)
	key, err = seal.ParseMaster(text)
	must.OK(t, err)
	return path, key
}

// canaries are secrets by what they are, as bytes.
type canaries map[string][]byte

// add takes a secret as the API gives it: its text, and the bytes behind the prefix.
func (c canaries) add(t *testing.T, what, text string) string {
	t.Helper()
	if len(text) < 40 {
		t.Fatalf("%s is %q", what, text)
	}
	c[what] = []byte(text)
	_, random, _ := strings.Cut(text, "_")
	if raw, err := base64.RawURLEncoding.DecodeString(random); err == nil && len(raw) == 32 {
		c[what+", its bytes"] = raw
	}
	return text
}

// seeds takes the private keys that the file holds now.
func (c canaries) seeds(t *testing.T, when, db string, key seal.Master) {
	t.Helper()
	file := storetest.Stranger(t, db)
	defer file.Close()
	var salt string
	must.OK(t, file.QueryRow(`SELECT value FROM setting WHERE name = 'seal_salt'`).Scan(&salt))
	raw, err := hex.DecodeString(salt)
	must.OK(t, err)
	rows, err := file.Query(`SELECT company, generation, seed FROM company_key WHERE seed IS NOT NULL`)
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var company, generation int64
		var sealed []byte
		must.OK(t, rows.Scan(&company, &generation, &sealed))
		seed, err := key.Key(raw).Open(sealed, fmt.Sprintf("company_key\n%d\n%d", company, generation))
		must.OK(t, err)
		c[fmt.Sprintf("private key %d of company %d %s", generation, company, when)] = seed
	}
	must.OK(t, rows.Err())
}

// found lists the canaries that a text contains: as they are, in hex, or in base64 at any place of
// a longer text.
func (c canaries) found(text []byte) (found []string) {
	for what, secret := range c {
		forms := []string{string(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret))}
		for shift := range 3 {
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				coded := e.EncodeToString(append(make([]byte, shift), secret...))
				forms = append(forms, coded[4:len(coded)-4])
			}
		}
		if slices.ContainsFunc(forms, func(form string) bool { return bytes.Contains(text, []byte(form)) }) {
			found = append(found, what)
		}
	}
	slices.Sort(found)
	return found
}

// in searches all that is in a database, and the files next to one that is a file.
func (c canaries) in(t *testing.T, db string) (found []string) {
	t.Helper()
	for part, text := range storetest.Content(t, db) {
		for _, what := range c.found([]byte(text)) {
			found = append(found, what+" in "+part)
		}
	}
	return found
}

// use calls every endpoint that creates or accepts a secret.
func (c canaries) use(t *testing.T, s *service) {
	t.Helper()
	admin := s.register(t, "acme")
	c.add(t, "first key", admin.key)
	var key struct{ Key string }
	admin.call(t, 201, "POST", "/v1/keys", `{"label":"laptop","role":"writer"}`, &key)
	c.add(t, "writer's key", key.Key)
	admin.call(t, 201, "POST", "/v1/keys", `{"label":"lost"}`, &key)
	c.add(t, "deleted key", key.Key)
	admin.call(t, 200, "DELETE", "/v1/keys/"+key.Key, "", nil)
	var made struct{ ClientID, ClientSecret string }
	admin.call(t, 201, "POST", "/v1/oauth/clients", "", &made)
	c.add(t, "client's secret", made.ClientSecret)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	admin.call(t, 200, "POST", "/v1/oauth/token", fmt.Sprintf(`{"grant_type":"client_credentials","client_id":%q,"client_secret":%q}`, made.ClientID, made.ClientSecret), &token)
	c.add(t, "access token", token.AccessToken)
	var agent struct{ SVID string }
	admin.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, &agent)
	c.add(t, "SVID", agent.SVID)
	var passport struct{ Passport string }
	admin.call(t, 201, "POST", "/v1/agents/bot/passport", "", &passport)
	c.add(t, "passport", passport.Passport)
	byToken := &client{http: admin.http, url: admin.url, key: token.AccessToken}
	byToken.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"build","payload":1}`, nil)
	admin.call(t, 201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"build","payload":1,"delegation":%q}`, agent.SVID), nil)
	admin.call(t, 200, "GET", "/v1/keys", "", nil)
	admin.call(t, 200, "POST", "/v1/recover-key", `{"companyId":"acme"}`, nil)
}

// With sealing on, no private key, API key, secret or token is in the file, its write-ahead log, a
// backup, or what the server prints.
func TestSealedDatabaseHasNoSecrets(t *testing.T) {
	t.Parallel()
	path, master := newMasterKey(t)
	db := storetest.New(t)
	s := serve(t, db, "--master-key-file", path)
	secrets := canaries{"master key": master.Bytes()}
	secrets.use(t, s)
	secrets.seeds(t, "at first", db, master)
	admin := s.client(t, string(secrets["first key"]))
	admin.call(t, 200, "POST", "/v1/companies/rotate-keys", "", nil)
	secrets.seeds(t, "after a rotation", db, master)
	if len(secrets) < 14 {
		t.Fatalf("only %d secrets", len(secrets))
	}

	if !storetest.OnPostgres() {
		_, err := attestd(t, "backup", filepath.Join(filepath.Dir(db), "backup.db"), "--db", db)
		must.OK(t, err)
		if _, err := os.Stat(db + "-wal"); err != nil {
			t.Error(err)
		}
	}
	found := secrets.in(t, db)
	must.OK(t, s.kill())
	found = append(found, secrets.in(t, db)...)
	s = serve(t, db, "--master-key-file", path)
	must.OK(t, s.interrupt())
	found = append(found, secrets.in(t, db)...)
	if found = append(found, secrets.found([]byte(s.log.String()))...); len(found) > 0 {
		t.Error(found)
	}
}

// Earlier plaintext is found nowhere after a rekey; before it the same search finds it.
func TestRekeyLeavesNoSecret(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := newMasterKey(t)
	folder := t.TempDir()
	db := filepath.Join(folder, "attestd.db")
	s := serve(t, db, "--master-key-file", "", "--master-key-command", "")
	secrets := canaries{}
	secrets.use(t, s)
	if found := secrets.in(t, db); len(found) == 0 {
		t.Error("nothing is found in a database that is not sealed")
	}
	must.OK(t, s.interrupt())
	_, err := attestd(t, "rekey", "--db", db, "--master-key-file", "", "--new-master-key-file", path)
	must.OK(t, err)
	if found := secrets.in(t, db); len(found) > 0 {
		t.Error(found)
	}
	s = serve(t, db, "--master-key-file", path)
	s.client(t, string(secrets["first key"])).call(t, 200, "GET", "/v1/keys", "", nil)
	s.client(t, string(secrets["access token"])).call(t, 200, "GET", "/v1/company", "", nil)
	must.OK(t, s.interrupt())
	if found := secrets.in(t, db); len(found) > 0 {
		t.Error(found)
	}
}

// A rekey that is killed at any moment is undone or goes on: the file is under the old master key
// or the new one, and the same command once more comes to the end, with nothing left of the old.
func TestKilledRekeyRollsBackOrResumes(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	rounds := testenv.Rounds(2, 50)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	db := filepath.Join(folder, "attestd.db")
	s := serve(t, db, "--master-key-file", "")
	secrets := canaries{}
	secrets.use(t, s)
	for range 20 { // so that there is something to seal
		s.client(t, string(secrets["first key"])).call(t, 201, "POST", "/v1/keys", "", nil)
	}
	must.OK(t, s.interrupt())

	current, outcomes := "", map[string]int{}
	recovers := func(master string) bool {
		key, err := attestd(t, "recover-key", "--company", "acme", "--db", db, "--master-key-file", master)
		return err == nil && strings.TrimSpace(key) == string(secrets["first key"])
	}
	var whole time.Duration
	for round := range rounds + 1 {
		next := ""
		arguments := []string{"rekey", "--db", db, "--master-key-file", current, "--off"}
		if current == "" || round%3 != 0 {
			next, _ = newMasterKey(t)
			arguments = []string{"rekey", "--db", db, "--master-key-file", current, "--new-master-key-file", next}
		}
		start := time.Now()
		program, err := binary(t)
		must.OK(t, err)
		cmd := exec.Command(program, arguments...)
		must.OK(t, cmd.Start())
		limit := patience // the first round shows how long it takes
		if round > 0 {
			limit = time.Duration(chance.Int64N(int64(whole)))
		}
		killer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		if round == 0 {
			whole = time.Since(start)
		}
		switch before, after := recovers(current), recovers(next); {
		case before == after:
			t.Fatalf("round %d: opens with the old master key: %v, with the new one: %v", round, before, after)
		case before:
			outcomes["undone"]++
		default:
			outcomes["gone on"]++
		}
		verifyAcme(t, db)
		_, err = attestd(t, arguments...)
		must.OK(t, err)
		if !recovers(next) {
			t.Fatalf("round %d: the second run has not come to its end", round)
		}
		if found := secrets.in(t, db); next != "" && len(found) > 0 {
			t.Fatalf("round %d: %v", round, found)
		}
		current = next
	}
	t.Logf("%v in %v each", outcomes, whole)
}
