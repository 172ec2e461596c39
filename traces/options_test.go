package traces

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string // how the mistake begins; empty for none
	}{
		{Options{}, ""},
		{Options{Endpoint: "http://127.0.0.1:4318"}, ""},
		{Options{Endpoint: "https://collector.example.com/otlp/v1/traces", Sample: new(weir.Share(0)),
			Headers: map[string]string{"X-Api-Key": "secret"}, TLS: TLS{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem"},
			Timeout: weir.Duration(time.Second)}, ""},
		{Options{Sample: new(weir.Share(0.5))}, "endpoint: traces have no endpoint"},
		{Options{Endpoint: "127.0.0.1:4318"}, "endpoint: this is not the address of a collector (write http://127.0.0.1:4318)"},
		{Options{Endpoint: "grpc://127.0.0.1"}, "endpoint: this is not the address"},
		{Options{Endpoint: "http://h/?token=x"}, "endpoint: this is not the address"},
		{Options{Endpoint: "http://a:b@h:4318"}, "endpoint: a password in an address"},
		{Options{Endpoint: "http://h:4317"}, "endpoint: port 4317 speaks gRPC"},
		{Options{Endpoint: "http://h", Sample: new(weir.Share(1.1))}, "sample: 110% is not a share of the requests"},
		{Options{Endpoint: "http://h", Parents: "proxy"}, `parents: unknown parents "proxy" (one of none, proxies, all)`},
		{Options{Endpoint: "http://h", ClientAddress: "on"}, "client_address: unknown"},
		{Options{Endpoint: "http://h", Service: "a\nb"}, "service: this is not the name"},
		{Options{Endpoint: "http://h", Service: strings.Repeat("a", maxService+1)}, "service: this is not the name"},
		{Options{Endpoint: "http://h", Headers: map[string]string{"content-type": "x"}}, "headers.content-type: "},
		{Options{Endpoint: "http://h", Headers: map[string]string{"A b": "x"}}, `headers.A b: "A b" cannot be set`},
		{Options{Endpoint: "http://h", Headers: map[string]string{"A": "x\ny"}}, "headers.A: the value cannot be sent"},
		{Options{Endpoint: "https://h", TLS: TLS{Cert: "x"}}, "tls: a certificate and its key go together"},
		{Options{Endpoint: "http://h", TLS: TLS{CA: "x"}}, "tls: the endpoint does not use TLS"},
		{Options{Endpoint: "http://h", Timeout: 1}, "timeout: 1ns is out of bounds"},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	many := Options{Endpoint: "http://h", Headers: map[string]string{}}
	for i := range MaxHeaders + 1 {
		if err := many.Validate(); err != nil {
			t.Errorf("%d headers: %v", i, err)
		}
		many.Headers["X-"+strings.Repeat("a", i+1)] = "x"
	}
	if err := many.Validate(); err == nil {
		t.Error("one header too many")
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
