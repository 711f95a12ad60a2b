package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/service/decide"
	"attestd/store"
)

// Trial is a set of policies that is tried on what is on record.
type Trial struct {
	Policies []TriedPolicy // in place of those in force; nil for those
	Draft    *TriedPolicy  // put into the set
	Remove   []string      // taken out of it
	From, To int64         // records of actions, by index; To is the first that is not decided
	AgentID  string        // whose records alone; "" for those of all
	Limit    int           // of decisions
}

// TriedPolicy is a policy that is tried.
type TriedPolicy struct {
	PolicyID string `json:"policyId"`
	Cedar    string `json:"cedar"`
}

// Tried is what other policies would have decided.
type Tried struct {
	Decided   int               `json:"decided"`
	Different []TriedDifference `json:"different"`
	Next      *int64            `json:"next"` // from where to go on; null at the end
}

// TriedDifference is a record that would have been decided otherwise.
type TriedDifference struct {
	Index   int64    `json:"index"`
	Was     *string  `json:"was"` // null where nothing decided about it
	Becomes string   `json:"becomes"`
	By      []string `json:"by"`
}

// triedTime bounds a trial: what is left is for the next one.
const triedTime = 5 * time.Second

// triedAtOnce is how many records are read at once: an append waits for no long read.
const triedAtOnce = 256

// Try decides what is on record again: the records that hold a decision, and the requests of tool
// calls that hold none, which were let through.
func (d *Decisions) Try(ctx context.Context, by store.Caller, t Trial) (Tried, error) {
	set, err := d.tried(ctx, by, &t)
	if err != nil {
		return Tried{}, err
	}
	number := by.Company.Actions.Chain
	head, _, err := d.Store.Tip(ctx, number)
	if err != nil {
		return Tried{}, err
	}
	tried, began := Tried{Different: []TriedDifference{}}, time.Now()
	to := min(t.To, head.Length)
	for at := t.From; at < to; {
		if tried.Decided >= t.Limit || time.Since(began) > triedTime {
			tried.Next = &at
			break
		}
		from := at
		at = min(at+triedAtOnce, to)
		full := int64(-1)
		err := d.Store.Records(ctx, number, from, at, func(r *chain.Record) error {
			if full >= 0 {
				return nil
			}
			if tried.Decided >= t.Limit {
				full = r.Index
				return nil
			}
			return d.tryRecord(ctx, by, set, &t, r, &tried)
		})
		if err != nil {
			return Tried{}, err
		}
		if full >= 0 {
			tried.Next = &full
			break
		}
	}
	return tried, nil
}

// tried returns the set of a trial.
func (d *Decisions) tried(ctx context.Context, by store.Caller, t *Trial) (*decide.Set, error) {
	var all []decide.Policy
	if t.Policies == nil {
		stored, err := d.Store.Cedar.Set(ctx, by)
		if err != nil {
			return nil, err
		}
		all = policiesOf(stored.Policies)
	}
	put := func(at string, p TriedPolicy) error {
		one := decide.Policy{ID: p.PolicyID, Text: p.Cedar}
		if err := decide.Check(one, true); err != nil {
			return inTrial(policyError(err), at)
		}
		all = append(slices.DeleteFunc(all, func(o decide.Policy) bool { return o.ID == one.ID }), one)
		return nil
	}
	for i, p := range t.Policies {
		if err := put(fmt.Sprintf("/policies/%d", i), p); err != nil {
			return nil, err
		}
	}
	for _, id := range t.Remove {
		count := len(all)
		if all = slices.DeleteFunc(all, func(p decide.Policy) bool { return p.ID == id }); len(all) == count {
			return nil, at(noPolicy(id), "/remove")
		}
	}
	if t.Draft != nil {
		if err := put("/draft", *t.Draft); err != nil {
			return nil, err
		}
	}
	set, err := decide.Compile(all)
	return set, policyError(err)
}

// inTrial gives the refusal of a policy the place of the policy in a request.
func inTrial(err error, pointer string) error {
	if refused, is := err.(*Error); is {
		refused.Pointer = pointer + refused.Pointer
	}
	return err
}

// tryRecord decides one record again, where it is one that is decided.
func (d *Decisions) tryRecord(ctx context.Context, by store.Caller, set *decide.Set, t *Trial, r *chain.Record, tried *Tried) error {
	if r.IsPruned() {
		return nil
	}
	past, err := decide.ReadPast(r.Timestamp, r.Payload)
	if err != nil {
		return fmt.Errorf("%w: record %d: %w", store.ErrCorrupt, r.Index, err)
	}
	if past == nil || t.AgentID != "" && t.AgentID != past.AgentID {
		return nil
	}
	var groups []string
	if past.Was == nil {
		if groups, err = d.Store.Cedar.Groups(ctx, by, past.AgentID); err != nil {
			return err
		}
	}
	tried.Decided++
	if again, differs := set.Again(past, groups); differs {
		tried.Different = append(tried.Different, TriedDifference{r.Index, past.Was, again.Verdict, again.By})
	}
	return nil
}
