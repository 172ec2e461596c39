package traces

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"weir"
)

// maxURL is how long an endpoint may be.
const maxURL = 2048

// Parents says whose parents are believed.
type Parents string

// Whose parents may be believed.
const (
	ParentsNone    Parents = "none"
	ParentsProxies Parents = "proxies"
	ParentsAll     Parents = "all"
)

// ClientAddress says what spans tell of the client's address.
type ClientAddress string

// What they may tell.
const (
	AddressOff     ClientAddress = "off"
	AddressNetwork ClientAddress = "network"
	AddressFull    ClientAddress = "full"
)

// Options configure traces. Without an endpoint there are none.
type Options struct {
	// Where spans are sent, by OTLP: http://127.0.0.1:4318. Without a path it is /v1/traces. Default: what
	// OTEL_EXPORTER_OTLP_ENDPOINT says, else nowhere; then there are no traces, and headers of requests are passed on
	// as they come. Everything else about sending is in the OTEL_* variables of OpenTelemetry's SDK.
	Endpoint string `yaml:"endpoint"`
	// How many of the requests are sampled that no believed parent decides on. Default 1%.
	Sample *weir.Share `yaml:"sample"`
	// Whose header traceparent is believed: then a request continues that trace, and is sampled if it says so. none
	// (the default), proxies (the gate's trusted proxies; only if they write the header themselves: one that passes on
	// what its clients wrote lets them choose what is sampled), or all. Other requests begin a trace of their own, with
	// a link to the one that they name.
	Parents Parents `yaml:"parents"`
	// What spans tell of the client's address: off, network (the first 24 bits of IPv4, 48 of IPv6; the default) or
	// full.
	ClientAddress ClientAddress `yaml:"client_address"`
}

// Enabled reports whether there are traces.
func (o Options) Enabled() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// speaksGRPC reads which protocol of OTLP the environment wants.
func speaksGRPC() (bool, error) {
	switch p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); p {
	case "", "http/protobuf":
		return false, nil
	case "grpc":
		return true, nil
	default:
		return false, &weir.FieldError{Msg: fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL is %.64q", p),
			Hint: "one of http/protobuf, grpc"}
	}
}

// WithDefaults returns the options with everything filled in that was left out. Without an endpoint nothing is.
func (o Options) WithDefaults() Options {
	if !o.Enabled() {
		return o
	}
	if o.Sample == nil {
		o.Sample = new(weir.Share(0.01))
	}
	if o.Parents == "" {
		o.Parents = ParentsNone
	}
	if o.ClientAddress == "" {
		o.ClientAddress = AddressNetwork
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var m weir.Mistakes
	_, err := o.url()
	m.Under("endpoint", err)
	if o.Enabled() {
		_, err := speaksGRPC()
		m.Under("endpoint", err)
	} else if o.Endpoint == "" && o != (Options{}) {
		m.Add("endpoint", "traces have no endpoint: nothing would be sent",
			"write endpoint: http://127.0.0.1:4318, or set OTEL_EXPORTER_OTLP_ENDPOINT here as well")
	}
	if o.Sample != nil && !(*o.Sample >= 0 && *o.Sample <= 1) {
		m.Add("sample", fmt.Sprintf("%v is not a share of the requests", *o.Sample), "between 0% and 100%")
	}
	m.OneOf("parents", string(o.Parents), string(ParentsNone), string(ParentsProxies), string(ParentsAll))
	m.OneOf("client_address", string(o.ClientAddress), string(AddressOff), string(AddressNetwork), string(AddressFull))
	return m.Err()
}

// url is where spans are sent; nil for where the environment says.
func (o *Options) url() (*url.URL, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(o.Endpoint)
	wrong := weir.CheckURL(u)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.RawQuery != "" ||
		u.Fragment != "" || len(o.Endpoint) > maxURL:
		return nil, &weir.FieldError{Msg: "this is not the address of a collector", Hint: "write http://127.0.0.1:4318"}
	case wrong != nil:
		return nil, &weir.FieldError{Msg: wrong.Error(), Hint: "write http://127.0.0.1:4318"}
	case u.User != nil:
		return nil, &weir.FieldError{Msg: "a password in an address is easily shown to others",
			Hint: "set OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20…"}
	}
	if grpc, _ := speaksGRPC(); u.Port() == "4317" && !grpc {
		return nil, &weir.FieldError{Msg: "port 4317 speaks gRPC, and weir sends by HTTP",
			Hint: "OTLP over HTTP has port 4318; or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u, nil
}
