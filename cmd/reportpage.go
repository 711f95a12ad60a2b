package cmd

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"

	"attestd/evidence"
)

// reportPage is what a report says, for people.
type reportPage struct {
	Verdict evidence.Verdict
	Report  *evidence.Report // nil where its header does not hold
	Changes []evidence.Event // of the control log
	Alone   []span           // times in which no witness was asked

	passport  string           // a jti that was asked about, "" for none
	course    []evidence.Event // its changes
	actions   map[deed]int64
	witnesses *string // that are asked, nil before the report says it
}

// span is a part of the period.
type span struct{ From, To string }

// deed is what an agent did, perhaps often.
type deed struct {
	Agent, Action string
	Delegated     bool
}

// maxDeeds bounds the table of what agents did; action types are free text.
const maxDeeds = 10_000

func (p *reportPage) add(e *evidence.Event, keep bool) {
	if e.Log == evidence.Control {
		if keep {
			p.Changes = append(p.Changes, *e)
		}
		if p.passport != "" && e.Subject == "passport:"+p.passport {
			p.course = append(p.course, *e)
		}
		p.noteWitnesses(e)
		return
	}
	d := deed{e.AgentID, e.Action, e.Delegated != nil}
	if _, known := p.actions[d]; !known && len(p.actions) >= maxDeeds {
		d = deed{Agent: "(others)", Action: "(others)"}
	}
	p.actions[d]++
}

// noteWitnesses notes from when to when no witness is asked.
func (p *reportPage) noteWitnesses(e *evidence.Event) {
	if e.Witnesses == nil {
		return
	}
	before := p.witnesses
	if before == nil && e.WitnessesBefore != nil && *e.WitnessesBefore == "" { // since the beginning of the period
		p.Alone = append(p.Alone, span{p.Report.From, ""})
		before = e.WitnessesBefore
	}
	was, is := before != nil && *before == "", *e.Witnesses == ""
	switch {
	case was && !is:
		p.Alone[len(p.Alone)-1].To = e.Timestamp
	case is && !was:
		p.Alone = append(p.Alone, span{e.Timestamp, ""})
	}
	p.witnesses = e.Witnesses
}

// Unsaid reports whether nothing in the period says which witnesses were asked.
func (p *reportPage) Unsaid() bool { return p.witnesses == nil }

// Deeds are those of the report in the order of agents.
func (p *reportPage) Deeds() []deed {
	return slices.SortedFunc(maps.Keys(p.actions), func(a, b deed) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Action, b.Action))
	})
}

func (p *reportPage) Count(d deed) int64 { return p.actions[d] }

func (p *reportPage) print(out io.Writer) {
	for _, d := range p.Deeds() {
		delegated := ""
		if d.Delegated {
			delegated = " (delegated)"
		}
		fmt.Fprintf(out, "%d × %s by %s%s\n", p.Count(d), d.Action, d.Agent, delegated)
	}
	for _, s := range p.Alone {
		fmt.Fprintf(out, "without a witness: from %s to %s\n", s.From, cmp.Or(s.To, p.Report.To))
	}
	if p.Unsaid() {
		fmt.Fprintln(out, "without a witness: no change of this period says it; look at the report before")
	}
	for _, line := range p.Passport() {
		fmt.Fprintln(out, line)
	}
	printEvidence(out, p.Verdict)
}

// Passport says what became of the passport that was asked about, nothing where none was.
func (p *reportPage) Passport() (lines []string) {
	if p.passport == "" || p.Report == nil || p.Verdict.Outcome == evidence.Fails {
		return nil
	}
	for _, e := range p.course {
		lines = append(lines, fmt.Sprintf("passport %s: %s at %s, record %d of control", p.passport, e.Action, e.Timestamp, e.Index))
	}
	if !slices.ContainsFunc(p.course, func(e evidence.Event) bool { return e.Action == "passport.issued" }) {
		lines = append(lines, fmt.Sprintf("passport %s: was not issued in this period", p.passport))
	}
	return lines
}

// forScripts is the verdict, and what is known of the passport where one was asked about.
func (p *reportPage) forScripts() any {
	type change struct {
		Index     int64  `json:"index"`
		Timestamp string `json:"timestamp"`
		Action    string `json:"actionType"`
	}
	said := struct {
		evidence.Verdict
		Passport *[]change `json:"passport,omitempty"`
	}{Verdict: p.Verdict}
	if p.passport != "" {
		said.Passport = &[]change{}
		for _, e := range p.course {
			*said.Passport = append(*said.Passport, change{e.Index, e.Timestamp, e.Action})
		}
	}
	return said
}

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))
