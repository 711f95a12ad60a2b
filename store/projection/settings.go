package projection

import (
	"fmt"
	"maps"
	"slices"
)

// TableSetting is the table as differences and records name it.
const TableSetting = "setting"

// The settings that never change once a record has them: what the database is, and the fingerprint
// of the key under which rows have their HMACs.
const (
	SettingService     = "serviceName"
	SettingTrustDomain = "trustDomain"
	SettingDatabaseID  = "databaseId"
	SettingRowKey      = "rowKey"
)

// FixedSettings are their names.
var FixedSettings = []string{SettingService, SettingTrustDomain, SettingDatabaseID, SettingRowKey}

type settingChange struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// changeSettings enters what has changed. A fixed setting has one value for good. The start of a
// program that does not know the setting records that it has none, which changes nothing.
func (s *State) changeSettings(timestamp string, d *details) error {
	for _, name := range FixedSettings {
		c, is := d.Changed[name]
		if before, was := s.Settings[name]; is && was {
			if c.To != nil && *c.To != before {
				return fmt.Errorf("changes the setting %s, which is fixed", name)
			}
			delete(d.Changed, name)
		}
	}
	for name, c := range d.Changed {
		if delete(s.Settings, name); c.To != nil {
			s.Settings[name] = *c.To
		}
	}
	s.identified(timestamp)
	return nil
}

// identified records since when the log names the database.
func (s *State) identified(timestamp string) {
	if _, is := s.Settings[SettingDatabaseID]; is && s.IdentifiedAt == "" {
		s.IdentifiedAt = timestamp
	}
}

// Settings compares all settings that affect trust. A log without any is of a company that has had
// no start since.
func (c Comparison) Settings(has map[string]string) *Difference {
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if want, is := c.state.Settings[name]; is && want != has[name] {
			return differingSetting(name, fmt.Sprintf("is %q, and the log says %q", has[name], want))
		}
	}
	return nil
}

// Fixed compares what the database itself says of the settings that never change, by their names;
// an absent name means a row that is missing, or that cannot be read.
func (c Comparison) Fixed(has map[string]string) *Difference { return c.state.Fixed(has) }

// Fixed is Comparison.Fixed, which does not use the state up.
func (s *State) Fixed(has map[string]string) *Difference {
	for _, name := range FixedSettings {
		want, is := s.Settings[name]
		value, there := has[name]
		switch {
		case !is || value == want:
		case !there:
			return differingSetting(name, fmt.Sprintf("is missing, and the log says %q", want))
		default:
			return differingSetting(name, fmt.Sprintf("is %q, and the log says %q", value, want))
		}
	}
	return nil
}

func differingSetting(name, what string) *Difference {
	return &Difference{Table: TableSetting, Row: name, Index: -1, What: what}
}
