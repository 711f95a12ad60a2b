package projection

import "encoding/json"

// Touched knows which rows some control records are about. The zero value knows of none.
type Touched struct {
	subjects map[string]bool
	agents   map[string]bool // whose disabling touches their passports
	people   map[string]bool // whose passkeys spend invitations
	keys     bool
}

// Add takes a record's payload.
func (t *Touched) Add(payload []byte) error {
	var r record
	if err := json.Unmarshal(payload, &r); err != nil {
		return err
	}
	if t.subjects == nil {
		t.subjects, t.agents, t.people = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	t.subjects[r.Payload.Subject] = true
	t.agents[r.Payload.AgentID] = true
	t.people[r.Payload.PersonID] = true
	t.keys = t.keys || r.ActionType == "signing-key.rotated"
	return nil
}

// Without returns the differences that the records do not explain.
func (t *Touched) Without(differences []*Difference) (left []*Difference) {
	for _, d := range differences {
		if !t.explains(d) {
			left = append(left, d)
		}
	}
	return left
}

func (t *Touched) explains(d *Difference) bool {
	switch d.Table {
	case TableCompany, TableSetting:
		return t.subjects["database"]
	case TableSigningKey:
		return t.keys
	case TableApproval:
		return t.subjects[SubjectApproval+d.Row]
	case TableCedarPolicy:
		return t.subjects[subjectCedarSet]
	}
	switch has := d.Has.(type) {
	case Passport:
		if t.agents[has.AgentID] {
			return true
		}
	case Invitation: // which a passkey of the person spends
		if t.people[has.PersonID] {
			return true
		}
	case Enrolment: // which a key of its agent spends
		if t.agents[has.AgentID] {
			return true
		}
	}
	for _, table := range new(State).tables() {
		if table.name == d.Table {
			return t.subjects[table.subject+d.Row]
		}
	}
	return false
}
