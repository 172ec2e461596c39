package config

import (
	_ "embed"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"slices"

	"weir/console"
	"weir/farm"
	"weir/gate"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/httpgate/accesslog"
	"weir/gate/postfixgate"
	"weir/gate/rlsgate"
	"weir/gate/smtpgate"
	"weir/gate/tcpgate"
	"weir/gate/xdpgate"
	"weir/notify"
	"weir/policy"
	"weir/throttle/ban"
	"weir/throttle/bloom"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
	"weir/throttle/reach"
	"weir/throttle/stamp"
	"weir/traces"
)

// Config is a whole configuration, as it stands in the file.
type Config struct {
	// The folder for the files that weir keeps. Default /var/lib/weir.
	Data string `yaml:"data"`
	// The socket for commands that talk to a running weir. Default: weir.sock in the data folder.
	Control string `yaml:"control" file:"beside"`
	// HTTP gates.
	HTTP []httpgate.Options `yaml:"http"`
	// Gates for TCP connections and UDP packets.
	TCP []tcpgate.Options `yaml:"tcp"`
	// Gates for mail that users send.
	SMTP []smtpgate.Options `yaml:"smtp"`
	// Policy services for Postfix, where Postfix stays the mail server.
	Postfix []postfixgate.Options `yaml:"postfix"`
	// Gates for nginx, Traefik, Caddy and HAProxy, which ask about each request.
	Auth []authgate.Options `yaml:"auth"`
	// Gates for Envoy: its rate limit service and its external authorization.
	RLS []rlsgate.Options `yaml:"rls"`
	// The decision API, for services that ask. Default: there is none.
	API *apigate.Options `yaml:"api"`
	// The throttles, by the name under which gates list them. Letters, digits, '-', '_' and '.'.
	Throttles map[string]Throttle `yaml:"throttles"`
	// A file in the MaxMind format (MMDB) that says which country an address is in, for keys with a country: MaxMind's
	// GeoLite2-Country, DB-IP's country lite, or one like them. It is read again on reload. At most 256MiB. Default:
	// none.
	Countries string `yaml:"countries" file:"beside"`
	// The block list: clients and networks that are not served at any gate.
	Bans ban.Options `yaml:"bans"`
	// Limiters of network interfaces, in the kernel.
	XDP []xdpgate.Options `yaml:"xdp"`
	// The console: pages for operators, the API, metrics and health.
	Console console.Options `yaml:"console"`
	// The pages on which mail users act on their own held mail.
	SelfService console.SelfServiceOptions `yaml:"self_service"`
	// Makes this weir one node of several that act together. Default: it is alone.
	Farm *farm.Options `yaml:"farm"`
	// Who is told of attacks, stopped users, full disks and the like, by webhook or mail. Default: nobody.
	Notify notify.Options `yaml:"notify"`
	// The log.
	Log Log `yaml:"log"`
	// Traces of requests, for a collector of OpenTelemetry. Default: none.
	Traces traces.Options `yaml:"traces"`

	// Warnings are what Load and Parse found allowed but hardly meant.
	Warnings Errors `yaml:"-"`
}

// Throttle is one throttle: exactly one mechanism, and how it is run.
type Throttle struct {
	// A limit for each source network, in memory that does not grow with the number of sources.
	Bloom *bloom.Options `yaml:"bloom"`
	// Limits per account: requests, concurrency, spacing, volume.
	Quota *quota.Options `yaml:"quota"`
	// When the service is overloaded, clients that pay with CPU time go first.
	Stamp *stamp.Options `yaml:"stamp"`
	// Limits how fast the outgoing mail of each user reaches different recipients.
	Mail *outbreak.Options `yaml:"mail"`
	// Limits how fast users write to people they never wrote to: this is how a stolen account is found.
	Reach *reach.Options `yaml:"reach"`
	// Judge and count, but let everything pass. Default false.
	Shadow bool `yaml:"shadow"`
	// What a failure of the throttle itself means: closed (refuse; the default) or open (go on without it).
	OnError policy.OnError `yaml:"on_error"`
}

// Log says what is logged.
type Log struct {
	// The least severe level: debug, info (the default), warn or error.
	Level Level `yaml:"level"`
	// text, json, or auto (the default): text on a terminal, JSON elsewhere. On a terminal, text is short: the time of
	// the day, and the level of what is not info.
	Format Format `yaml:"format"`
	// How the log names the recipients of mail: address (the default) or domain, as in @example.org.
	Recipients Recipients `yaml:"recipients"`
	// One line for each request: which requests, what a line looks like, and where it goes; or which requests alone, as
	// in access: refused.
	Access accesslog.Options `yaml:"access"`
}

// A Level is how severe something must be to be logged.
type Level string

// The levels, in rising severity.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Recipients says how the log names the recipients of mail.
type Recipients string

// The ways.
const (
	RecipientsAddress Recipients = "address"
	RecipientsDomain  Recipients = "domain"
)

// A Format is what a line of the log looks like.
type Format string

// The formats.
const (
	FormatAuto Format = "auto" // text on a terminal, JSON elsewhere
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// Bans is what the block list is called beside the throttles. No throttle may have its name.
const Bans = "bans"

// DefaultData is the folder for what weir keeps when nothing is said.
const DefaultData = "/var/lib/weir"

// WithDefaults returns the configuration with everything filled in that was left out. The one it is called on stays as
// it is.
func (c Config) WithDefaults() Config {
	fill(&c.Data, DefaultData)
	fill(&c.Control, filepath.Join(c.Data, "weir.sock"))
	fill(&c.Log.Level, LevelInfo)
	fill(&c.Log.Format, FormatAuto)
	fill(&c.Log.Recipients, RecipientsAddress)
	c.Log.Access = c.Log.Access.WithDefaults()
	realm := c.Realm()
	complete(reflect.ValueOf(&c).Elem())
	for i := range c.SMTP {
		if c.SMTP[i].Auth != smtpgate.AuthNone {
			c.SMTP[i].Realm = realm
		}
	}
	for i := range c.Postfix {
		c.Postfix[i].Realm = realm
	}
	throttles := make(map[string]Throttle, len(c.Throttles))
	for name, t := range c.Throttles {
		complete(reflect.ValueOf(&t).Elem())
		fill(&t.OnError, policy.Closed)
		t.nameUsers(realm)
		throttles[name] = t
	}
	c.Throttles = throttles
	return c
}

func fill[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Gates returns every gate with the path at which its options stand, such as http[0]. They are the fields of Config
// whose type is gate.Options.
func (c *Config) Gates() iter.Seq2[string, gate.Options] {
	return func(yield func(string, gate.Options) bool) {
		v := reflect.ValueOf(*c)
		for _, f := range fieldsOf(v.Type()) {
			switch field := v.Field(f.index); field.Kind() {
			case reflect.Slice:
				for i := range field.Len() {
					o, ok := field.Index(i).Interface().(gate.Options)
					if ok && !yield(fmt.Sprintf("%s[%d]", f.name, i), o) {
						return
					}
				}
			case reflect.Pointer:
				if field.IsNil() {
					continue
				}
				if o, ok := field.Elem().Interface().(gate.Options); ok && !yield(f.name, o) {
					return
				}
			}
		}
	}
}

// Mechanism returns the mechanism of a throttle: its key, and its options. The mechanisms are the fields of Throttle
// that may be absent. It returns nothing where none is given.
func (t Throttle) Mechanism() (key string, options Options) {
	for key, o := range t.mechanisms() {
		if o != nil {
			return key, o
		}
	}
	return "", nil
}

// Options are those of a mechanism.
type Options interface{ Validate() error }

// mechanisms returns every mechanism that a throttle may have, with nil for those it has not.
func (t Throttle) mechanisms() iter.Seq2[string, Options] {
	return func(yield func(string, Options) bool) {
		v := reflect.ValueOf(t)
		for _, f := range fieldsOf(v.Type()) {
			if f.t.Kind() != reflect.Pointer {
				continue
			}
			var o Options
			if !v.Field(f.index).IsNil() {
				o = v.Field(f.index).Interface().(Options)
			}
			if !yield(f.name, o) {
				return
			}
		}
	}
}

// complete gives every field of a struct, and every element of its lists, that has a method WithDefaults what that
// returns. Lists and what pointers point to are copied.
func complete(s reflect.Value) {
	for _, f := range fieldsOf(s.Type()) {
		switch field := s.Field(f.index); field.Kind() {
		case reflect.Slice:
			list := reflect.MakeSlice(f.t, field.Len(), field.Len())
			if _, ok := list.Type().Elem().MethodByName("WithDefaults"); !ok {
				continue
			}
			for i := range field.Len() {
				list.Index(i).Set(completed(field.Index(i)))
			}
			field.Set(list)
		case reflect.Pointer:
			if !field.IsNil() {
				full := reflect.New(f.t.Elem())
				full.Elem().Set(completed(field.Elem()))
				field.Set(full)
			}
		case reflect.Struct:
			field.Set(completed(field))
		}
	}
}

// completed returns a value with everything filled in that its method WithDefaults knows.
func completed(v reflect.Value) reflect.Value {
	if m := v.MethodByName("WithDefaults"); m.IsValid() {
		return m.Call(nil)[0]
	}
	return v
}

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the configuration, for editors. It is generated from the option
// types and their field comments.
func Schema() []byte { return slices.Clone(schema) }
