package metrics

import "github.com/prometheus/client_golang/prometheus"

// Value is a metric that is read at each scrape. Reading it MUST use memory or the file system
// alone, and be safe for concurrent use.
type Value struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(emit func(v float64, label ...string))
}

// Gauge is a value that goes up and down.
func Gauge(name, help string, read func() float64) Value {
	return value(prometheus.GaugeValue, name, help, read)
}

// GaugeIf is a gauge that has no series while read returns false.
func GaugeIf(name, help string, read func() (float64, bool)) Value {
	return valueIf(prometheus.GaugeValue, name, help, read)
}

// CounterIf is a counter that has no series while read returns false.
func CounterIf(name, help string, read func() (float64, bool)) Value {
	return valueIf(prometheus.CounterValue, name, help, read)
}

func valueIf(kind prometheus.ValueType, name, help string, read func() (float64, bool)) Value {
	return Value{prometheus.NewDesc(name, help, nil, nil), kind, func(emit func(float64, ...string)) {
		if v, is := read(); is {
			emit(v)
		}
	}}
}

// Counter is a value that only grows.
func Counter(name, help string, read func() float64) Value {
	return value(prometheus.CounterValue, name, help, read)
}

func value(kind prometheus.ValueType, name, help string, read func() float64) Value {
	return Value{prometheus.NewDesc(name, help, nil, nil), kind, func(emit func(float64, ...string)) { emit(read()) }}
}

// Emit passes on a value with its label.
type Emit func(label string, v float64)

// GaugeBy is a gauge with a label, whose values MUST be few and of no caller. read emits each once.
func GaugeBy(name, help, label string, read func(Emit)) Value {
	return labeled(prometheus.GaugeValue, name, help, label, read)
}

// CounterBy is a counter with a label, as GaugeBy.
func CounterBy(name, help, label string, read func(Emit)) Value {
	return labeled(prometheus.CounterValue, name, help, label, read)
}

func labeled(kind prometheus.ValueType, name, help, label string, read func(Emit)) Value {
	return Value{prometheus.NewDesc(name, help, []string{label}, nil), kind, func(emit func(float64, ...string)) {
		read(func(label string, v float64) { emit(v, label) })
	}}
}

// Add adds values to what is scraped. It panics if a name is there already.
func (m *Metrics) Add(values ...Value) {
	for _, v := range values {
		m.registry.MustRegister(v)
	}
}

// Describe implements prometheus.Collector.
func (v Value) Describe(to chan<- *prometheus.Desc) { to <- v.desc }

// Collect implements prometheus.Collector.
func (v Value) Collect(to chan<- prometheus.Metric) {
	v.read(func(value float64, label ...string) {
		to <- prometheus.MustNewConstMetric(v.desc, v.kind, value, label...)
	})
}
