package evidence_test

import (
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// newer is a checkpoint of a log as it is, with the proof that the first from records are a prefix.
func (c *company) newer(log int, from int64, witnesses ...byte) *evidence.Newer {
	c.t.Helper()
	checkpoint := c.checkpoint(log, witnesses...)
	read, _, err := tlog.ParseSignedCheckpoint(checkpoint)
	must.OK(c.t, err)
	proof, err := tlog.ProveConsistency(c.t.Context(), c.logs[log], from, read.Tree)
	must.OK(c.t, err)
	return &evidence.Newer{From: from, Proof: proof, Checkpoint: checkpoint}
}

// Each kind of file can be held against a newer checkpoint of a log of which it has a checkpoint.
// One of a rewritten history, of another log, size or key does not follow, and one that no quorum
// has cosigned does not meet the policy.
func TestNewerCheckpoint(t *testing.T) {
	t.Parallel()
	key := agentKey(t, jose.EdDSA, 1)
	begin := func(first string) (c *company, kid string) {
		c = newCompany(t)
		c.change("company.registered", first, nil)
		kid = c.enrol(agentID, key.Key(), nil)
		c.add(0, "other", first, `{"version":1}`, "")
		c.states(key, "run", 3, true)
		return c, kid
	}
	c, kid := begin("company:acme")
	rewritten, _ := begin("company:zoo") // of the same keys and logs
	single, session := c.agentKeyFile(1, kid), c.session(kid, "run", []string{kid}, 1, 2, 3)
	single.Proof = c.proof(0, 1, c.checkpoint(0, witnessA))
	single.AgentKey.Entries = c.keyEntries(c.checkpoint(1, witnessA), kid)
	single.Witnesses = []string{witnessKey(witnessA)}
	period := c.report(began, [2]tlog.Frontier{}, witnessA)
	for _, c := range []*company{c, rewritten} {
		c.add(0, "other", "deploy", `{"version":3}`, "")
		c.change("api-key.created", "api-key:0000000000000000", nil)
	}
	rotated := *c
	rotated.keys++
	for name, check := range map[string]func(evidence.Trust) evidence.Verdict{
		"evidence":  func(trust evidence.Trust) evidence.Verdict { return evidence.Check(single.JSON(), trust) },
		"a session": func(trust evidence.Trust) evidence.Verdict { return checkSession(session, trust) },
		"a report":  func(trust evidence.Trust) evidence.Verdict { v, _ := checkReport(period, trust); return v },
	} {
		for log, size := range []int64{4, 2} {
			t.Run(name+", "+c.logs[log].Name, func(t *testing.T) {
				t.Parallel()
				changed := func(change func(*evidence.Newer)) *evidence.Newer {
					n := *c.newer(log, size)
					change(&n)
					return &n
				}
				for what, n := range map[string]struct {
					newer *evidence.Newer
					code  evidence.Code
				}{
					"the log goes on":           {c.newer(log, size), ""},
					"another history":           {rewritten.newer(log, size), evidence.NotFollowed},
					"the proof of another size": {c.newer(log, size-1), evidence.NotFollowed},
					"no proof":                  {changed(func(n *evidence.Newer) { n.Proof = nil }), evidence.NotFollowed},
					"no checkpoint":             {changed(func(n *evidence.Newer) { n.Checkpoint = []byte("x\n") }), evidence.NotFollowed},
					"the next key":              {rotated.newer(log, size), evidence.NotFollowed},
					"a log of nobody": {changed(func(n *evidence.Newer) {
						n.Checkpoint = []byte(strings.Replace(string(n.Checkpoint), c.logs[log].Origin, "log.example", 1))
					}), evidence.NotFollowed},
				} {
					v := check(evidence.Trust{Fingerprint: fingerprint(0), Newer: n.newer})
					if v.Code != n.code || (v.Outcome == evidence.Holds) != (n.code == "") {
						t.Errorf("%s: %s %s: %s", what, v.Outcome, v.Code, v.Reason)
					}
					if text := slices.ContainsFunc(v.Checked, func(s string) bool { return strings.HasPrefix(s, "the newer checkpoint of ") }); text != (n.code == "") {
						t.Errorf("%s: %q", what, v.Checked)
					}
				}
				for witnesses, outcome := range map[byte]evidence.Outcome{0: evidence.Fails, witnessA: evidence.Holds} {
					trust := evidence.Trust{Policy: policy(t, "one"), Newer: c.newer(log, size)}
					if witnesses > 0 {
						trust.Newer = c.newer(log, size, witnesses)
					}
					if v := check(trust); v.Outcome != outcome || outcome == evidence.Fails && v.Code != evidence.PolicyUnmet {
						t.Errorf("cosigned by %d: %s %s: %s", witnesses, v.Outcome, v.Code, v.Reason)
					}
				}
			})
		}
	}
}
