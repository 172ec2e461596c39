package traces

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxHeaders = 32
	maxURL     = 2048
	maxService = 128
)

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
	// Where spans are sent, by OTLP over HTTP: http://127.0.0.1:4318. Without a path it is /v1/traces. Default:
	// nowhere; there are no traces, and headers of requests are passed on as they come.
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
	// The name of this weir among the services, service.name. Default weir.
	Service string `yaml:"service"`
	// Headers that are sent to the endpoint, by name. Take secrets from a file or the environment:
	// {Authorization: "Bearer ${file:/etc/weir/traces}"}.
	Headers map[string]string `yaml:"headers"`
	// Certificates, for an endpoint with https.
	TLS TLS `yaml:"tls"`
	// How long the endpoint may take to answer. Default 10s.
	Timeout weir.Duration `yaml:"timeout"`
}

// TLS says which certificates are used towards the endpoint. The files are read again on a reload.
type TLS struct {
	// A file with the authorities, in PEM, that may sign its certificate. Default: those that the machine trusts.
	CA string `yaml:"ca" file:"beside"`
	// A file with the certificate, in PEM, that is shown to it. Default: none.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
}

// Enabled reports whether there are traces.
func (o Options) Enabled() bool { return o.Endpoint != "" }

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
	if o.Service == "" {
		o.Service = "weir"
	}
	if o.Timeout == 0 {
		o.Timeout = weir.Duration(10 * time.Second)
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var m weir.Mistakes
	_, err := o.url()
	m.Under("endpoint", err)
	if !o.Enabled() && (o.Sample != nil || len(o.Headers) > 0 || o.TLS != (TLS{}) || o.Service != "") {
		m.Add("endpoint", "traces have no endpoint: nothing would be sent", "write endpoint: http://127.0.0.1:4318")
	}
	if o.Sample != nil && !(*o.Sample >= 0 && *o.Sample <= 1) {
		m.Add("sample", fmt.Sprintf("%v is not a share of the requests", *o.Sample), "between 0% and 100%")
	}
	m.OneOf("parents", string(o.Parents), string(ParentsNone), string(ParentsProxies), string(ParentsAll))
	m.OneOf("client_address", string(o.ClientAddress), string(AddressOff), string(AddressNetwork), string(AddressFull))
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(o.Service) > maxService || strings.ContainsFunc(o.Service, control) {
		m.Add("service", "this is not the name of a service", fmt.Sprintf("at most %d bytes, in one line", maxService))
	}
	m.AtMost("headers", "headers", len(o.Headers), MaxHeaders)
	for name, value := range o.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !httpguts.ValidHeaderFieldName(name) || slices.Contains(ownHeaders, canonical):
			m.Add("headers."+name, fmt.Sprintf("%.64q cannot be set", name), "")
		case !httpguts.ValidHeaderFieldValue(value):
			m.Add("headers."+name, "the value cannot be sent: it has a control character", "")
		}
	}
	if (o.TLS.Cert == "") != (o.TLS.Key == "") {
		m.Add("tls", "a certificate and its key go together", "give both cert and key, or none")
	}
	if o.TLS != (TLS{}) && !strings.HasPrefix(o.Endpoint, "https:") {
		m.Add("tls", "the endpoint does not use TLS", "write endpoint: https://…")
	}
	m.Lasts("timeout", o.Timeout, 100*time.Millisecond, time.Minute)
	return m.Err()
}

// ownHeaders are those that a request has by itself.
var ownHeaders = []string{"Host", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding",
	"Connection", "Trailer", "Te", "Upgrade"}

// url is where spans are sent.
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
			Hint: `write headers: {Authorization: "Basic ${file:/etc/weir/traces}"}`}
	case u.Port() == "4317":
		return nil, &weir.FieldError{Msg: "port 4317 speaks gRPC, and weir sends by HTTP",
			Hint: "OTLP over HTTP has port 4318"}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u, nil
}
