package traces

import (
	"net/netip"
	"strings"
	"testing"

	"weir"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string // how the mistake begins; empty for none
	}{
		{Options{}, ""},
		{Options{Endpoint: "http://127.0.0.1:4318"}, ""},
		{Options{Endpoint: "https://collector.example.com/otlp/v1/traces", Sample: new(weir.Share(0))}, ""},
		{Options{Sample: new(weir.Share(0.5))}, "endpoint: traces have no endpoint"},
		{Options{Endpoint: "127.0.0.1:4318"}, "endpoint: this is not the address of a collector (write http://127.0.0.1:4318)"},
		{Options{Endpoint: "grpc://127.0.0.1"}, "endpoint: this is not the address"},
		{Options{Endpoint: "http://h/?token=x"}, "endpoint: this is not the address"},
		{Options{Endpoint: "http://a:b@h:4318"}, "endpoint: a password in an address"},
		{Options{Endpoint: "http://h:4317"}, "endpoint: port 4317 speaks gRPC"},
		{Options{Endpoint: "http://h", Sample: new(weir.Share(1.1))}, "sample: 110% is not a share of the requests"},
		{Options{Endpoint: "http://h", Parents: "proxy"}, `parents: unknown parents "proxy" (one of none, proxies, all)`},
		{Options{Endpoint: "http://h", ClientAddress: "on"}, "client_address: unknown"},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	for given, want := range map[string]string{"http://h": "http://h/v1/traces", "http://h/": "http://h/v1/traces",
		"https://h:1/x": "https://h:1/x"} {
		if u, err := (&Options{Endpoint: given}).url(); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", given, u, err)
		}
	}
}

func TestAddress(t *testing.T) {
	for given, want := range map[ClientAddress]string{"": "203.0.113.0 2001:db8:1:: ", AddressOff: "  ",
		AddressNetwork: "203.0.113.0 2001:db8:1:: ", AddressFull: "203.0.113.7 2001:db8:1:2::3 "} {
		tr := tracer(t, Options{ClientAddress: given})
		got := ""
		for _, a := range []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:1:2::3"), {}} {
			got += tr.Address(a) + " "
		}
		if got != want+" " {
			t.Errorf("%q: %q", given, got)
		}
	}
}

// TestEnvironment: the variables of OpenTelemetry's SDK say where to, how and whether.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env     string
		o       Options
		enabled bool
		want    string // how the mistake begins
	}{
		{"", Options{}, false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", Options{}, true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces", Options{Sample: new(weir.Share(1))}, true, ""},
		{"OTEL_SDK_DISABLED=true", Options{Endpoint: "http://h"}, false, ""},
		{"OTEL_TRACES_EXPORTER=none", Options{Endpoint: "http://h"}, false, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", Options{Endpoint: "http://h:4317"}, true, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", Options{Endpoint: "http://h:4317"}, true, "endpoint: port 4317"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=thrift", Options{Endpoint: "http://h"}, true,
			`endpoint: OTEL_EXPORTER_OTLP_PROTOCOL is "thrift" (one of http/protobuf, grpc)`},
	} {
		t.Run(c.env, func(t *testing.T) {
			if name, value, found := strings.Cut(c.env, "="); found {
				t.Setenv(name, value)
			}
			err := c.o.Validate()
			if c.o.Enabled() != c.enabled || (err == nil) != (c.want == "") ||
				err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, %v", c.o.Enabled(), err)
			}
		})
	}
}
