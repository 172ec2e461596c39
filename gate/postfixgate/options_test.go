package postfixgate

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate"
)

func TestValidate(t *testing.T) {
	prefixes := func(all ...string) (list []netip.Prefix) {
		for _, p := range all {
			list = append(list, netip.MustParsePrefix(p))
		}
		return list
	}
	const here = "127.0.0.1:10040"
	for name, c := range map[string]struct {
		o    Options
		want []string // paths of the mistakes
	}{
		"least": {Options{Listen: here}, nil},
		"socket": {Options{Listen: "unix:/var/spool/postfix/weir/policy",
			Socket: gate.Socket{Mode: "0666", Owner: "weir", Group: "postfix"}}, nil},
		"filter":              {Options{Listen: here, Filter: "smtp:[127.0.0.1]:2526"}, nil},
		"filter, by name":     {Options{Listen: here, Over: OverFilter, Filter: "weir:mail.example.org:2526"}, nil},
		"nothing":             {Options{}, []string{"listen"}},
		"no port":             {Options{Listen: "127.0.0.1"}, []string{"listen"}},
		"port by name":        {Options{Listen: "127.0.0.1:smtp"}, []string{"listen"}},
		"a path from here":    {Options{Listen: "unix:policy"}, []string{"listen"}},
		"no path":             {Options{Listen: "unix:"}, []string{"listen"}},
		"rights on TCP":       {Options{Listen: here, Socket: gate.Socket{Mode: "0660"}}, []string{"socket"}},
		"a mode that is none": {Options{Listen: "unix:/p", Socket: gate.Socket{Mode: "rw-rw----"}}, []string{"socket.mode"}},
		"a mode too many":     {Options{Listen: "unix:/p", Socket: gate.Socket{Mode: "4777"}}, []string{"socket.mode"}},
		"clients of a socket": {Options{Listen: "unix:/p", Clients: prefixes("10.0.0.0/8")}, []string{"clients"}},
		"everybody asks":      {Options{Listen: here, Clients: prefixes("0.0.0.0/0")}, []string{"clients[0]"}},
		"everybody is ours": {Options{Listen: here, Networks: prefixes("10.0.0.0/8", "::/0")},
			[]string{"networks[1]"}},
		"no network":        {Options{Listen: here, Networks: []netip.Prefix{{}}}, []string{"networks[0]"}},
		"filter to nowhere": {Options{Listen: here, Over: OverFilter}, []string{"filter"}},
		"no filter":         {Options{Listen: here, Filter: "127.0.0.1"}, []string{"filter"}},
		"a filter and more": {Options{Listen: here, Filter: "smtp:[127.0.0.1]:2526\n\naction=OK"}, []string{"filter"}},
		"not diverted": {Options{Listen: here, Over: OverHold, Filter: "smtp:[127.0.0.1]:2526"},
			[]string{"filter"}},
		"words": {Options{Listen: here, Over: "hodl", Stopped: "hold", OnError: "open", OnBound: "reject"},
			[]string{"over", "stopped", "on_error", "on_bound"}},
		"most": {Options{Listen: here, Bounds: Bounds{maxConnections, maxMails, maxRecipients, maxMemory}}, nil},
		"more": {Options{Listen: here, Bounds: Bounds{maxConnections + 1, maxMails + 1, maxRecipients + 1,
			maxMemory + 1}},
			[]string{"bounds.connections", "bounds.mails", "bounds.recipients", "bounds.memory"}},
		"a realm":  {Options{Listen: here, Realm: "example.org"}, nil},
		"no realm": {Options{Listen: here, Realm: "example"}, []string{"realm"}},
		"in a hurry": {Options{Listen: here, Timeouts: Timeouts{Idle: weir.Duration(time.Second - 1),
			Answer: weir.Duration(time.Second)}},
			[]string{"timeouts.idle"}},
		"a busy address": {Options{Listen: here, Command: "root@example.org", Admin: "Root@example.org"},
			[]string{"command"}},
		"negative": {Options{Listen: here, Bounds: Bounds{-1, -1, -1, -1}, Timeouts: Timeouts{-1, -1, -1}},
			[]string{"bounds.connections", "bounds.mails", "bounds.recipients", "bounds.memory", "timeouts.idle",
				"timeouts.answer", "timeouts.mail"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, mistake := range weir.FieldErrors(c.o.Validate()) {
				got = append(got, mistake.Path)
				if mistake.Hint == "" {
					t.Errorf("%v: no hint", mistake)
				}
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("mistakes in %q, want %q: %v", got, c.want, c.o.Validate())
			}
			if err := c.o.WithDefaults().Validate(); c.want == nil && err != nil {
				t.Errorf("with defaults: %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	o := Options{Listen: "127.0.0.1:10040"}.WithDefaults()
	if o.Over != OverDefer || o.Stopped != Reject || o.OnError != DoubtDefer || o.Bounds.Mails != 10_000 ||
		o.Bounds.Recipients != 1000 ||
		o.Timeouts.Idle.Std() != 20*time.Minute || len(o.Clients) != 2 {
		t.Errorf("%+v", o)
	}
	if o := (Options{Filter: "smtp:[127.0.0.1]:2526"}).WithDefaults(); o.Over != OverFilter {
		t.Errorf("over: %s", o.Over)
	}
	if _, err := New(Options{Listen: "127.0.0.1:0"}, Parts{}, Env{}); err == nil {
		t.Error("a gate without a name and a spool")
	}
}
