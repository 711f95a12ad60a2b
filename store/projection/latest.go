package projection

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// Latest is the newest control record about one row. A row is compared with it when it is loaded,
// long before all of the log is replayed. A nil one means that no record describes the row.
type Latest struct {
	Index     int64
	Timestamp string
	record
}

// Read reads a control record of a company.
func Read(companyID string, index int64, timestamp string, payload []byte) (*Latest, error) {
	l := &Latest{Index: index, Timestamp: timestamp}
	if err := json.Unmarshal(payload, &l.record); err != nil {
		return nil, &RecordError{index, "cannot be read: " + err.Error()}
	}
	if l.CompanyID != companyID || l.Log != "control" {
		return nil, &RecordError{index, fmt.Sprintf("is of company %q, log %q; it stands in the control log of %q", l.CompanyID, l.Log, companyID)}
	}
	return l, nil
}

// Action is the actionType of the record.
func (l *Latest) Action() string { return l.ActionType }

// row reads the whole row that an adoption or an operator's decision holds; is says whether the
// record is one, gone whether there is none.
func row[R any](l *Latest) (r R, gone, is bool, err error) {
	if l.ActionType != RowAdopted && l.ActionType != RowAccepted {
		return r, false, false, nil
	}
	if string(l.Payload.Row) == "null" {
		return r, true, true, nil
	}
	err = json.Unmarshal(l.Payload.Row, &r)
	return r, false, true, err
}

// against compares a row with the record: with the whole row that it holds, or with what wants says
// of other records. gone says that the record ended the row.
func against[R comparable](l *Latest, table, name string, has R, wants func(*details) (want R, gone bool, err error)) *Difference {
	if l == nil {
		return unrecorded(table, name, has)
	}
	want, gone, is, err := row[R](l)
	if !is && err == nil {
		want, gone, err = wants(&l.Payload)
	}
	return l.compare(table, name, gone, err, func() *Difference { return differs(table, name, has, Entry[R]{want, l.Index}) })
}

// againstOrNone is against for a row that may be missing; absent then replaces it.
func againstOrNone[R comparable](l *Latest, table, name string, has, absent R, wants func(*details) R) *Difference {
	if l == nil && has == absent {
		return nil
	}
	if l != nil && string(l.Payload.Row) == "null" && (l.ActionType == RowAdopted || l.ActionType == RowAccepted) {
		return differs(table, name, has, Entry[R]{absent, l.Index})
	}
	return against(l, table, name, has, func(d *details) (R, bool, error) { return wants(d), false, nil })
}

// compare returns what a comparison says, unless there is nothing to compare with.
func (l *Latest) compare(table, name string, gone bool, err error, compare func() *Difference) *Difference {
	switch {
	case err != nil:
		return &Difference{Table: table, Row: name, Index: l.Index, What: fmt.Sprintf("control record %d cannot be read: %v", l.Index, err)}
	case gone:
		return &Difference{Table: table, Row: name, Index: l.Index, What: fmt.Sprintf("is there, and control record %d (%s) took it away", l.Index, l.ActionType)}
	}
	return compare()
}
