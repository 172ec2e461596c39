package console

import (
	"net/netip"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{Listen: "off"}, ""},
		{Options{Listen: "[::1]:0"}, ""},
		{Options{Listen: "localhost:9000"}, ""},
		{Options{Listen: ":9000", Allow: allow}, ""},
		{Options{Listen: ":9000"},
			`listen: :9000 can be reached from outside this machine (say who may connect, as in allow: [10.0.0.0/8], or listen on 127.0.0.1:9000)`},
		{Options{Listen: "0.0.0.0:9000"},
			`listen: 0.0.0.0:9000 can be reached from outside this machine (say who may connect, as in allow: [10.0.0.0/8], or listen on 127.0.0.1:9000)`},
		{Options{Listen: "9000"},
			`listen: "9000" is not an address: missing port in address (write 127.0.0.1:9000, or off)`},
		{Options{Listen: "127.0.0.1:99999"},
			`listen: "127.0.0.1:99999" is not an address: "99999" is not a port (write 127.0.0.1:9000, or off)`},
		{Options{Listen: "example.com:9000"},
			`listen: "example.com:9000" is not an address: "example.com" is not an IP address (write 127.0.0.1:9000, or off)`},
		{Options{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/8"), {}}},
			"allow[0]: 10.1.0.0/8 has bits beyond its prefix (did you mean 10.0.0.0/8?)\nallow[1]: this is not a " +
				"network (write 10.0.0.0/8 or 2001:db8::/32)"},
		{Options{Hosts: []string{"a.example", "b:1"}},
			`hosts[1]: "b:1" is not a host (write the name alone, in small letters: weir.example.com)`},
		{Options{ProfilesPassword: strings.Repeat("x", 16)}, ""},
		{Options{ProfilesPassword: strings.Repeat("x", 1024)}, ""},
		{Options{ProfilesPassword: strings.Repeat("x", 15)}, `profiles_password: the password has 15 characters ` +
			`(16 to 1024, as openssl rand -hex 16 makes them)`},
		{Options{ProfilesPassword: strings.Repeat("x", 1025)}, `profiles_password: the password has 1025 characters ` +
			`(16 to 1024, as openssl rand -hex 16 makes them)`},
	} {
		got := ""
		if err := c.o.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.o, got, c.want)
		}
		if c.want == "" {
			if err := c.o.WithDefaults().Validate(); err != nil {
				t.Errorf("%+v with defaults: %v", c.o, err)
			}
		}
	}
	if o := (Options{}).WithDefaults(); o.Listen != DefaultListen || len(o.Allow) != 2 || !o.Enabled() {
		t.Errorf("defaults: %+v", o)
	}
}

func TestSelfServiceOptions(t *testing.T) {
	for _, test := range []struct {
		o    SelfServiceOptions
		want string
	}{
		{SelfServiceOptions{}, ""},
		{SelfServiceOptions{URL: "https://mail.example.org"}, ""},
		{SelfServiceOptions{URL: "https://mail.example.org/"}, ""},
		{SelfServiceOptions{URL: "https://mail.example.org/weir/", Listen: ":9001"}, ""},
		{SelfServiceOptions{URL: "http://127.0.0.1:9001"}, ""},
		{SelfServiceOptions{URL: "http://[::1]:9001/x"}, ""},
		{SelfServiceOptions{Listen: "9001"},
			"listen: \"9001\" is not an address: missing port in address (write 127.0.0.1:9001)\n" +
				"url: the page needs an address (write url: https://mail.example.org/weir, " +
				"or leave listen out)"},
		{SelfServiceOptions{URL: "mail.example.org"},
			`url: "mail.example.org" is not the address of a page (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "https://"},
			`url: "https://" is not the address of a page (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "https://u@mail.example.org/"},
			`url: "https://u@mail.example.org/" has more than a host and a path (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "https://mail.example.org/?a"},
			`url: "https://mail.example.org/?a" has more than a host and a path (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "https://mail.example.org/a/../b"},
			`url: "https://mail.example.org/a/../b" has a path that is not plain (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "https://mail.example.org//"},
			`url: "https://mail.example.org//" has a path that is not plain (write https://mail.example.org/weir)`},
		{SelfServiceOptions{URL: "http://mail.example.org/"},
			`url: passwords and links would go over the network for everybody to read (write https:// and put a web server with TLS in front)`},
	} {
		got := ""
		if err := test.o.Validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test.o, got, test.want)
		}
		if err := test.o.WithDefaults().Validate(); test.want == "" && err != nil {
			t.Errorf("%+v with defaults: %v", test.o, err)
		}
	}
	o := SelfServiceOptions{URL: "https://mail.example.org/weir/"}
	if o.Link("abc") != "https://mail.example.org/weir/t/abc" || !o.Enabled() ||
		o.WithDefaults().Listen != DefaultSelfServiceListen {
		t.Errorf("%+v", o.WithDefaults())
	}
	if none := (SelfServiceOptions{}); none.Link("abc") != "" || none.Enabled() {
		t.Error("a link to nowhere")
	}
}
