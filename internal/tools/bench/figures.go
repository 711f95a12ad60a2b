package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// unit is the unit of a value.
type unit string

const (
	perSecond unit = "/s"
	micro     unit = "µs"
	milli     unit = "ms"
	megabytes unit = "MB/s" // 10⁶ bytes
	mebibytes unit = "MiB"
	kibibytes unit = "KiB"
	fileSize  unit = "MB" // 10⁶ bytes
	ratio     unit = "ratio"
)

// target is the bound of a figure. In a quick run only ratios can fail, and only beyond a third of
// a minimum or three times a maximum, and in each of their rounds: what else the machine has to do
// reaches a round or some, and a defect all. Absolute figures depend on the machine too much.
type target struct {
	atMost   bool
	bound    float64
	unsteady bool // never fails a run
}

func atLeast(bound float64) *target { return &target{bound: bound} }
func atMost(bound float64) *target  { return &target{atMost: true, bound: bound} }

const farFactor = 3

func (t target) met(value float64) bool {
	if t.atMost {
		return value <= t.bound
	}
	return value >= t.bound
}

func (t target) farOff(value float64) bool {
	if t.atMost {
		return value > t.bound*farFactor
	}
	return value < t.bound/farFactor
}

func (t target) String() string {
	sign := "≥"
	if t.atMost {
		sign = "≤"
	}
	return sign + " " + strconv.FormatFloat(t.bound, 'f', -1, 64)
}

// figure is one cell of the table.
type figure struct {
	section, name, column string
	value                 float64 // NaN if unknown on this system
	unit                  unit
	target                *target
	rounds                []float64 // of which the value is the median; nil for one measurement
}

// report has the results of a run, in order.
type report struct {
	Quick   bool
	Machine machine
	Seconds float64
	figures []figure
}

// add adds a figure. t is nil without a target.
func (r *report) add(section, column, name string, value float64, u unit, t *target) {
	r.figures = append(r.figures, figure{section, name, column, value, u, t, nil})
}

// addRounds adds a ratio that was measured in rounds.
func (r *report) addRounds(section, column, name string, rounds []float64, t *target) {
	r.figures = append(r.figures, figure{section, name, column, median(rounds), ratio, t, rounds})
}

// farOff lists the ratios that fail a quick run.
func (r *report) farOff() (list []string) {
	for _, f := range r.figures {
		if f.unit == ratio && f.target != nil && !f.target.unsteady && !math.IsNaN(f.value) && f.target.farOff(f.value) &&
			!slices.ContainsFunc(f.rounds, func(round float64) bool { return !f.target.farOff(round) }) {
			list = append(list, fmt.Sprintf("%s, %s: %s is %s (target %s)", f.section, f.column, strings.TrimSpace(f.name),
				f.text(), f.target))
		}
	}
	return list
}

// text formats the value with three significant digits and separated thousands.
func (f figure) text() string {
	if math.IsNaN(f.value) {
		return "n/a"
	}
	digits := 2
	if f.unit != ratio {
		digits = 0
		for limit := 100.0; digits < 2 && math.Abs(f.value) < limit; limit /= 10 {
			digits++
		}
	}
	s := strconv.FormatFloat(f.value, 'f', digits, 64)
	if digits == 0 {
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
	}
	if f.unit == ratio || f.unit == perSecond {
		return s
	}
	return s + " " + string(f.unit)
}

func (f figure) cell() string {
	if f.target == nil || math.IsNaN(f.value) {
		return f.text()
	}
	verdict := "missed"
	if f.target.met(f.value) {
		verdict = "met"
	}
	return fmt.Sprintf("%s (%s %s)", f.text(), f.target, verdict)
}

// writeTable prints a table with a block for each section, a row for each figure, and a column for
// each case.
func (r *report) writeTable(w io.Writer) error {
	kind := ""
	if r.Quick {
		kind = ", quick: sizes are small and the targets are those of a full run"
	}
	fmt.Fprintf(w, "attestd benchmark: %s; %.0f s%s\n", r.Machine, r.Seconds, kind)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, section := range distinct(r.figures, func(f figure) string { return f.section }) {
		figures := slices.Clone(r.figures)
		figures = slices.DeleteFunc(figures, func(f figure) bool { return f.section != section })
		columns := distinct(figures, func(f figure) string { return f.column })
		fmt.Fprintf(table, "\n%s", section)
		for _, column := range columns {
			fmt.Fprintf(table, "\t%s", column)
		}
		fmt.Fprintln(table)
		for _, name := range distinct(figures, func(f figure) string { return f.name }) {
			fmt.Fprintf(table, "  %s", name)
			for _, column := range columns {
				cell := ""
				for _, f := range figures {
					if f.name == name && f.column == column {
						cell = f.cell()
					}
				}
				fmt.Fprintf(table, "\t%s", cell)
			}
			fmt.Fprintln(table)
		}
	}
	return table.Flush()
}

// distinct lists the distinct values of key, in order of appearance.
func distinct(figures []figure, key func(figure) string) (list []string) {
	for _, f := range figures {
		if k := key(f); !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// writeJSON prints the figures as one object. An unknown value is null.
func (r *report) writeJSON(w io.Writer) error {
	type row struct {
		Section string   `json:"section"`
		Case    string   `json:"case"`
		Figure  string   `json:"figure"`
		Value   *float64 `json:"value"`
		Unit    unit     `json:"unit"`
		Target  string   `json:"target,omitempty"`
		Met     *bool    `json:"met,omitempty"`
	}
	rows := make([]row, 0, len(r.figures))
	for _, f := range r.figures {
		line := row{Section: f.section, Case: f.column, Figure: strings.TrimSpace(f.name), Unit: f.unit}
		if !math.IsNaN(f.value) {
			line.Value = &f.value
			if f.target != nil {
				met := f.target.met(f.value)
				line.Target, line.Met = f.target.String(), &met
			}
		}
		rows = append(rows, line)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Quick   bool    `json:"quick"`
		Machine machine `json:"machine"`
		Seconds float64 `json:"seconds"`
		Figures []row   `json:"figures"`
	}{r.Quick, r.Machine, r.Seconds, rows})
}
