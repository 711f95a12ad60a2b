package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestFiguresAsText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value float64
		unit  unit
		want  string
	}{
		{0.354, ratio, "0.35"},
		{12.3456, milli, "12.3 ms"},
		{0.1234, milli, "0.12 ms"},
		{123.456, micro, "123 µs"},
		{20190.4, perSecond, "20,190"},
		{1234567, perSecond, "1,234,567"},
		{-1234, mebibytes, "-1,234 MiB"},
		{math.NaN(), mebibytes, "n/a"},
	} {
		if got := (figure{value: tt.value, unit: tt.unit}).text(); got != tt.want {
			t.Errorf("%v %s reads %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

// A quick run fails only if a ratio is below a third of its target or above three times it.
func TestQuickRunTolerance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value  float64
		unit   unit
		target *target
		want   bool
	}{
		{0.35, ratio, atLeast(0.35), false},
		{0.12, ratio, atLeast(0.35), false},
		{0.11, ratio, atLeast(0.35), true},
		{1.7, ratio, atMost(0.6), false},
		{1.9, ratio, atMost(0.6), true},
		{0.01, ratio, &target{bound: 0.2, unsteady: true}, false},
		{0, ratio, nil, false},
		{math.NaN(), ratio, atLeast(0.35), false},
		{9000, milli, atMost(2), false}, // not a ratio, and depends on the machine too
	} {
		var r report
		r.add("section", "case", "figure", tt.value, tt.unit, tt.target)
		if got := len(r.farOff()) > 0; got != tt.want {
			t.Errorf("%v %s with target %v: far off is %v", tt.value, tt.unit, tt.target, got)
		}
	}
}

// What was measured in rounds fails only if each of them is far off.
func TestOneGoodRoundIsEnough(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rounds []float64
		want   bool
	}{
		{[]float64{0.1, 0.1, 0.9}, false},
		{[]float64{0.1, 0.1, 0.1}, true},
	} {
		var r report
		r.addRounds("section", "case", "figure", tt.rounds, atLeast(0.9))
		if got := len(r.farOff()) > 0; got != tt.want {
			t.Errorf("%v: far off is %v", tt.rounds, got)
		}
	}
}

func TestTableAndJSONAgree(t *testing.T) {
	t.Parallel()
	r := report{Machine: machine{Cores: 2, System: "linux/amd64", Go: "go1.26"}}
	r.add("attest", "64 clients", "durable records/s", 20190, perSecond, nil)
	r.add("attest", "64 clients", "÷ bare", 0.36, ratio, atLeast(0.35))
	r.add("attest", "64 clients", "CPU", 123, micro, atMost(100))
	r.add("attest", "256 clients", "CPU", math.NaN(), micro, atMost(100))
	var table, object bytes.Buffer
	if err := r.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"20,190", "0.36 (≥ 0.35 met)", "123 µs (≤ 100 missed)", "n/a\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	if err := r.writeJSON(&object); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Figures []struct {
			Case, Figure string
			Value        *float64
			Target       string
			Met          *bool
		}
	}
	if err := json.Unmarshal(object.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if f := read.Figures; len(f) != 4 || *f[1].Value != 0.36 || !*f[1].Met || *f[2].Met || f[3].Value != nil || f[3].Met != nil {
		t.Errorf("JSON:\n%s", &object)
	}
}

func TestCPUTimeOfAProcessWithAnOddName(t *testing.T) {
	t.Parallel()
	stat := "4242 (a) R 1 (b) S 1 4242 4242 0 -1 4194304 1234 0 5 0 150 75 0 0 20 0 9 0 1000 2000000 300"
	got, ok := parseCPUTime([]byte(stat))
	if !ok || got != 225*tick {
		t.Errorf("CPU time %v, %v; want 2.25 s", got, ok)
	}
	if _, ok := parseCPUTime([]byte("4242 (cut off")); ok {
		t.Error("a stat that is cut off has a CPU time")
	}
}
