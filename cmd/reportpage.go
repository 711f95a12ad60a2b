package cmd

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
	"attestd/internal/printable"
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

func (d deed) title() string {
	if d.Delegated {
		return d.Action + " (delegated)"
	}
	return d.Action
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
	// since the beginning of the period
	if before == nil && e.WitnessesBefore != nil && *e.WitnessesBefore == "" {
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

// Deeds are those of the report in the order of agents.
func (p *reportPage) Deeds() []deed {
	return slices.SortedFunc(maps.Keys(p.actions), func(a, b deed) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Action, b.Action))
	})
}

func (p *reportPage) print(out io.Writer) {
	for _, d := range p.Deeds() {
		printable.Fprintf(out, "%d × %s by %s\n", p.actions[d], d.title(), d.Agent)
	}
	for _, line := range p.alone() {
		printable.Fprintf(out, "without a witness: %s\n", line)
	}
	for _, line := range p.passportLines() {
		printable.Fprintf(out, "%s\n", line)
	}
	printEvidence(out, p.Verdict)
}

// alone says when no witness was asked.
func (p *reportPage) alone() (lines []string) {
	for _, s := range p.Alone {
		lines = append(lines, fmt.Sprintf("from %s to %s", s.From, cmp.Or(s.To, p.Report.To)))
	}
	if p.witnesses == nil {
		lines = append(lines, "no change of this period says it; look at the report before")
	}
	return lines
}

// passportLines say what became of the passport that was asked about, nothing where none was.
func (p *reportPage) passportLines() (lines []string) {
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

// htmlHead is the page up to its title. It loads nothing and runs nothing.
//
//go:embed report.html
var htmlHead string

// html writes the page. It is made by hand: html/template would make the binary a quarter larger,
// for it keeps the linker from leaving out what nobody calls. All that comes from the report goes
// through text.
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
	said := map[evidence.Outcome]string{evidence.Holds: "This report holds.", evidence.Fails: "This report FAILS", evidence.SelfConsistent: "Self-consistent only"}
	b.WriteString(`<p class="verdict"><strong>` + said[p.Verdict.Outcome] + "</strong> " + text(strings.TrimSpace(string(p.Verdict.Code)+" "+p.Verdict.Reason)) + "</p>\n")
	if p.Verdict.Outcome != evidence.Fails {
		b.WriteString("<h2>What was changed</h2>\n<table><thead><tr><th>When<th>Record<th>Change<th>Of<th>By</thead>\n")
		for _, e := range p.Changes {
			row(e.Timestamp, e.Index, e.Action, e.Subject, e.By)
		}
		b.WriteString("</table>\n<h2>What was done</h2>\n<table><thead><tr><th>Agent<th>Action<th>Times</thead>\n")
		for _, d := range p.Deeds() {
			row(d.Agent, d.title(), p.actions[d])
		}
		b.WriteString("</table>\n")
		list("Times without a witness", p.alone())
		if lines := p.passportLines(); lines != nil {
			list("The passport", lines)
		}
	}
	list("What was checked", p.Verdict.Checked)
	list("What is not proven", p.Verdict.NotProven)
	_, err := io.WriteString(w, b.String()+"</html>\n")
	return err
}
