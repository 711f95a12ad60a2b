package cmd

import (
	"strings"
	"testing"
	"time"
)

// The standard variables switch traces on and off, and what they ask for and is not there is
// refused, without a value that may be secret.
func TestTraceVariables(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		url         string // "" for off
		refused     string
	}{
		"nothing":            {},
		"an endpoint":        {environment: map[string]string{"ENDPOINT": "http://c:4318/"}, url: "http://c:4318/v1/traces"},
		"one of traces":      {environment: map[string]string{"ENDPOINT": "http://c:4318", "TRACES_ENDPOINT": "https://t/x"}, url: "https://t/x"},
		"the exporter alone": {environment: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, url: "http://localhost:4318/v1/traces"},
		"none":               {environment: map[string]string{"OTEL_TRACES_EXPORTER": "none", "ENDPOINT": "http://c"}},
		"disabled":           {environment: map[string]string{"OTEL_SDK_DISABLED": "TRUE", "ENDPOINT": "http://c"}},
		"another exporter":   {environment: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, refused: "OTEL_TRACES_EXPORTER"},
		"gRPC":               {environment: map[string]string{"ENDPOINT": "http://c", "PROTOCOL": "grpc"}, refused: "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"a password":         {environment: map[string]string{"ENDPOINT": "http://u:hush@c"}, refused: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"no URL":             {environment: map[string]string{"ENDPOINT": "hush"}, refused: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"headers":            {environment: map[string]string{"ENDPOINT": "http://c", "HEADERS": "hush"}, refused: "OTEL_EXPORTER_OTLP_HEADERS"},
		"a header's lines":   {environment: map[string]string{"ENDPOINT": "http://c", "HEADERS": "a=hush%0d%0ab"}, refused: "OTEL_EXPORTER_OTLP_HEADERS"},
		"a timeout":          {environment: map[string]string{"ENDPOINT": "http://c", "TIMEOUT": "10s"}, refused: "OTEL_EXPORTER_OTLP_TIMEOUT"},
		"compression":        {environment: map[string]string{"ENDPOINT": "http://c", "COMPRESSION": "zstd"}, refused: "OTEL_EXPORTER_OTLP_COMPRESSION"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.environment {
				if !strings.HasPrefix(variable, "OTEL_") {
					variable = "OTEL_EXPORTER_OTLP_" + variable
				}
				t.Setenv(variable, value)
			}
			is, enabled, err := traceConfig()
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "hush") {
					t.Errorf("refused with %v", err)
				}
			case err != nil || enabled != (c.url != "") || enabled && (is.URL != c.url || is.Service != "attestd" || is.Timeout != 10*time.Second):
				t.Errorf("%+v, enabled %t, %v", is, enabled, err)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x, b=2")
	if is, _, err := traceConfig(); err != nil || is.Headers["Authorization"] != "Bearer x" || is.Headers["b"] != "2" {
		t.Errorf("%v, %v", is.Headers, err)
	}
}
