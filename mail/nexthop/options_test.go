package nexthop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestOptions(t *testing.T) {
	no, yes := false, true
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"good": {Options{Servers: []string{"127.0.0.1:25", "smtps://mx.example.org", "lmtp://[::1]:24",
			"lmtp:unix:/run/x", "unix:/y", "smtp://a.example"},
			Verify: &yes, CA: "x", User: "u", Password: "p", Hello: "[::1]"}, nil},
		"none": {Options{}, []string{"servers"}},
		"many": {Options{Servers: make([]string, MaxServers+1)}, []string{"servers"}},
		"bad": {Options{Servers: []string{"mx", ":25", "mx:0", "imap://mx", "mx:99999", "lmtp:unix:x", "a b:25",
			"smtp://[::1", "[]:25"}}, []string{"servers[0]", "servers[1]", "servers[2]", "servers[3]", "servers[4]",
			"servers[5]", "servers[6]", "servers[7]", "servers[8]"}},
		"twice":    {Options{Servers: []string{"a:25", "smtp://a"}}, []string{"servers[1]"}},
		"tls":      {Options{Servers: []string{"a:25"}, TLS: "required"}, []string{"tls"}},
		"ca":       {Options{Servers: []string{"a:25"}, CA: "x", Verify: &no}, []string{"ca"}},
		"user":     {Options{Servers: []string{"a:25"}, Password: "x"}, []string{"user"}},
		"password": {Options{Servers: []string{"a:25"}, User: "x"}, []string{"password"}},
		"lines":    {Options{Servers: []string{"a:25"}, User: "x", Password: "a\nb"}, []string{"password"}},
		"in clear": {Options{Servers: []string{"127.0.0.1:25", "a:25", "smtps://a:465"}, User: "x", Password: "a",
			TLS: TLSOff}, []string{"tls"}},
		"hello": {Options{Servers: []string{"a:25"}, Hello: "a b"}, []string{"hello"}},
		"out": {Options{Servers: []string{"a:25"}, Connections: -1, Reuse: MaxReuse + 1,
			Recipients: MaxRecipients + 1}, []string{"connections", "reuse", "recipients"}},
		"durations": {Options{Servers: []string{"a:25"}, Idle: 1,
			Timeouts: Timeouts{weir.Duration(2 * time.Hour), -1, 1}},
			[]string{"idle", "timeouts.connect", "timeouts.command", "timeouts.data"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantFields(t, c.o.Validate(), c.want...)
			if _, err := New(c.o, Env{}); err == nil {
				t.Error("taken")
			}
			for _, fe := range weir.FieldErrors(c.o.Validate()) {
				if fe.Hint == "" || strings.Contains(fe.Error(), "a\nb") {
					t.Errorf("%v", fe)
				}
			}
		})
	}
	full := Options{Servers: []string{"a:25"}}.WithDefaults()
	if err := full.Validate(); err != nil || full.Connections != 20 || full.Reuse != 100 || full.Recipients != 100 {
		t.Errorf("%+v: %v", full, err)
	}
}

// TestTLSByDefault: what is asked of which server when nothing is said.
func TestTLSByDefault(t *testing.T) {
	yes := true
	for _, c := range []struct {
		server   string
		o        Options
		mode     TLS
		verifies bool
	}{
		{"mx.example.org:25", Options{}, TLSOpportunistic, false},
		{"mx.example.org:25", Options{Verify: &yes}, TLSOpportunistic, true},
		{"mx.example.org:25", Options{User: "x"}, TLSRequire, true},
		{"mx.example.org:25", Options{User: "x", TLS: TLSOpportunistic}, TLSOpportunistic, true},
		{"mx.example.org:25", Options{TLS: TLSOff}, TLSOff, true},
		{"lmtp://10.0.0.1", Options{}, TLSOpportunistic, false},
		{"smtps://mx.example.org", Options{}, TLSOff, true},
		{"127.0.0.1:25", Options{User: "x"}, TLSOff, true},
		{"localhost:25", Options{}, TLSOff, true},
		{"[::1]:25", Options{TLS: TLSRequire}, TLSRequire, true},
		{"lmtp:unix:/x", Options{TLS: TLSRequire}, TLSOff, true},
	} {
		to, err := parseTarget(c.server)
		if err != nil {
			t.Fatal(err)
		}
		if mode := c.o.tlsFor(to); mode != c.mode || c.o.verifies(mode) != c.verifies {
			t.Errorf("%s with %+v: %s, verified %v", c.server, c.o, mode, c.o.verifies(mode))
		}
	}
}

func ExampleNew() {
	c, err := New(Options{Servers: []string{"mx"}}, Env{})
	what, hint, _ := strings.Cut(err.Error(), " (")
	fmt.Println(c, what)
	fmt.Println(hint[:28])
	// Output:
	// <nil> servers[0]: "mx" is not a host with a port
	// write "127.0.0.1:25", "smtps
}
