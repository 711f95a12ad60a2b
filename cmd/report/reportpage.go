package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"attestd/chain/evidence"
	"attestd/cmd/check"
	"attestd/internal/printable"
)

// reportPage gathers the contents of a report for people.
type reportPage struct {
	Verdict     evidence.Verdict
	Report      *evidence.Report // nil when its header does not hold
	Changes     []evidence.Event // of the control log
	Unwitnessed []span           // times without configured witnesses

	passport        string           // the jti of --passport, or ""
	passportChanges []evidence.Event // control records about it
	actions         map[agentAction]int64
	witnesses       *string // the configured witnesses, nil before the first record about them
}

// span is a part of the period.
type span struct{ From, To string }

// agentAction is a type of action of an agent, which a report counts.
type agentAction struct {
	Agent, Action string
	Delegated     bool
}

func (a agentAction) title() string {
	if a.Delegated {
		return a.Action + " (delegated)"
	}
	return a.Action
}

// maxActions bounds the table of actions, because action types are free text.
const maxActions = 10_000

// add adds an event. storeChanges stores the control records too.
func (p *reportPage) add(e *evidence.Event, storeChanges bool) {
	if e.Log == evidence.Control {
		if storeChanges {
			p.Changes = append(p.Changes, *e)
		}
		if p.passport != "" && e.Subject == "passport:"+p.passport {
			p.passportChanges = append(p.passportChanges, *e)
		}
		p.addWitnesses(e)
		return
	}
	a := agentAction{e.AgentID, e.Action, e.Delegated != nil}
	if _, known := p.actions[a]; !known && len(p.actions) >= maxActions {
		a = agentAction{Agent: "(others)", Action: "(others)"}
	}
	p.actions[a]++
}

// addWitnesses begins or ends an unwitnessed span if the event changes the witnesses.
func (p *reportPage) addWitnesses(e *evidence.Event) {
	if e.Witnesses == nil {
		return
	}
	before := p.witnesses
	// The first change tells what held since the beginning of the period.
	if before == nil && e.WitnessesBefore != nil && *e.WitnessesBefore == "" {
		p.Unwitnessed = append(p.Unwitnessed, span{p.Report.From, ""})
		before = e.WitnessesBefore
	}
	was, is := before != nil && *before == "", *e.Witnesses == ""
	switch {
	case was && !is:
		p.Unwitnessed[len(p.Unwitnessed)-1].To = e.Timestamp
	case is && !was:
		p.Unwitnessed = append(p.Unwitnessed, span{e.Timestamp, ""})
	}
	p.witnesses = e.Witnesses
}

// sortedActions returns the actions of the report, sorted by agent and type.
func (p *reportPage) sortedActions() []agentAction {
	return slices.SortedFunc(maps.Keys(p.actions), func(a, b agentAction) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Action, b.Action))
	})
}

func (p *reportPage) print(out io.Writer) {
	for _, d := range p.sortedActions() {
		printable.Fprintf(out, "%d × %s by %s\n", p.actions[d], d.title(), d.Agent)
	}
	for _, line := range p.unwitnessed() {
		printable.Fprintf(out, "without a witness: %s\n", line)
	}
	for _, line := range p.disobeyed() {
		printable.Fprintf(out, "refused, and it ran: %s\n", line)
	}
	for _, line := range p.passportLines() {
		printable.Fprintf(out, "%s\n", line)
	}
	check.PrintEvidence(out, p.Verdict)
}

// unwitnessed describes the times without configured witnesses.
func (p *reportPage) unwitnessed() (lines []string) {
	for _, s := range p.Unwitnessed {
		lines = append(lines, fmt.Sprintf("from %s to %s", s.From, cmp.Or(s.To, p.Report.To)))
	}
	if p.witnesses == nil {
		lines = append(lines, "unknown: no record of this period names the witnesses; check the report before")
	}
	return lines
}

// disobeyed describes the calls that were refused and ran all the same, the first 100.
func (p *reportPage) disobeyed() (lines []string) {
	for _, call := range p.Verdict.Disobeyed {
		lines = append(lines, fmt.Sprintf("%s, refused at record %d, done at record %d", cmp.Or(call.Tool, "a tool"), call.Refused, call.Done))
	}
	return lines
}

// passportLines describes the changes of the passport of --passport, if it is set.
func (p *reportPage) passportLines() (lines []string) {
	if p.passport == "" || p.Report == nil || p.Verdict.Outcome == evidence.Fails {
		return nil
	}
	for _, e := range p.passportChanges {
		lines = append(lines, fmt.Sprintf("passport %s: %s at %s, record %d of control", p.passport, e.Action, e.Timestamp,
			e.Index))
	}
	if !slices.ContainsFunc(p.passportChanges, func(e evidence.Event) bool { return e.Action == "passport.issued" }) {
		lines = append(lines, fmt.Sprintf("passport %s: was not issued in this period", p.passport))
	}
	return lines
}

// json returns the verdict, with the changes of the passport of --passport if it is set.
func (p *reportPage) json() any {
	type change struct {
		Index     int64  `json:"index"`
		Timestamp string `json:"timestamp"`
		Action    string `json:"actionType"`
	}
	result := struct {
		evidence.Verdict
		Passport *[]change `json:"passport,omitempty"`
	}{Verdict: p.Verdict}
	if p.passport != "" {
		result.Passport = &[]change{}
		for _, e := range p.passportChanges {
			*result.Passport = append(*result.Passport, change{e.Index, e.Timestamp, e.Action})
		}
	}
	return result
}

// htmlHead is the page up to its title. The page loads no resource and contains no script.
//
//go:embed report.html
var htmlHead string

// html writes the page without html/template, which would make the binary a quarter larger because
// it disables dead-code elimination. All text from the report MUST pass through the function text.
func (p *reportPage) html(w io.Writer) error {
	var b strings.Builder
	text := func(s string) string { return html.EscapeString(printable.Text(s)) }
	row := func(cells ...any) {
		b.WriteString("<tr>")
		for _, cell := range cells {
			b.WriteString("<td>" + text(fmt.Sprint(cell)))
		}
		b.WriteString("\n")
	}
	list := func(title string, lines []string) {
		b.WriteString("<h2>" + title + "</h2>\n<ul>")
		for _, line := range lines {
			b.WriteString("<li>" + text(line) + "\n")
		}
		b.WriteString("</ul>\n")
	}
	company := ""
	if p.Report != nil {
		company = text(p.Report.File.CompanyID)
	}
	b.WriteString(htmlHead + "<title>Report of " + company + "</title>\n")
	if p.Report != nil {
		b.WriteString("<h1>" + company + "</h1>\n<p>From " + text(p.Report.From) + " to " + text(p.Report.To) + ".</p>\n")
	}
	outcomes := map[evidence.Outcome]string{evidence.Holds: "This report holds.", evidence.Fails: "This report FAILS",
		evidence.SelfConsistent: "Self-consistent only"}
	b.WriteString(`<p class="verdict"><strong>` + outcomes[p.Verdict.Outcome] + "</strong> " +
		text(strings.TrimSpace(string(p.Verdict.Code)+" "+p.Verdict.Reason)) + "</p>\n")
	if p.Verdict.Outcome != evidence.Fails {
		b.WriteString("<h2>Changes</h2>\n<table><thead><tr><th>Time<th>Record<th>Change<th>Subject<th>By</thead>\n")
		for _, e := range p.Changes {
			row(e.Timestamp, e.Index, e.Action, e.Subject, e.By)
		}
		b.WriteString("</table>\n<h2>Actions</h2>\n<table><thead><tr><th>Agent<th>Action<th>Count</thead>\n")
		for _, d := range p.sortedActions() {
			row(d.Agent, d.title(), p.actions[d])
		}
		b.WriteString("</table>\n")
		list("Times without a witness", p.unwitnessed())
		if lines := p.disobeyed(); lines != nil {
			list("Refused calls that ran", lines)
		}
		if lines := p.passportLines(); lines != nil {
			list("Passport", lines)
		}
	}
	list("Checked", p.Verdict.Checked)
	list("Not proven", p.Verdict.NotProven)
	_, err := io.WriteString(w, b.String()+"</html>\n")
	return err
}
