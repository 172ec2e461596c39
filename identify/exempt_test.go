package identify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

const (
	googlebot = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/131.0.0.0 " +
		"Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
)

var today = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// folder is files by name, as os.ReadFile would read them.
type folder map[string]string

func (f folder) read(name string) ([]byte, error) {
	text, found := f[name]
	if !found {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func newExempt(t testing.TB, o ExemptOptions, files folder) *Exempt {
	t.Helper()
	g, err := NewExempt(o, files.read)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func from(addr, agent string) *weir.Event {
	return &weir.Event{Time: today, Source: netip.MustParseAddr(addr), Agent: agent, Route: weir.Route{Path: "/search"}}
}

func TestKnownPath(t *testing.T) {
	g := newExempt(t, ExemptOptions{Paths: []string{"/healthz", "/webhooks/*", "/a/b/*", "/"}}, nil)
	for path, want := range map[string]bool{
		"/healthz":                        true,
		"/healthz/x":                      false,
		"/healthzz":                       false,
		"/Healthz":                        false,
		"/webhooks":                       true, // what Path makes of /webhooks/
		"/webhooks/x":                     true,
		"/webhooks/x/y":                   true,
		"/webhooksx":                      false,
		"/webhooks/..;/search":            false,
		"/webhooks/..\\search":            false,
		"/webhooks/%2e%2e/search":         false,
		"/webhooks/x;y":                   false,
		"/webhooks/\xc0\xae/x":            false,
		"/webhooks/käse.v1...":            true,
		"/a":                              false,
		"/a/b":                            true,
		"/a/b/c":                          true,
		"/a/x/c":                          false,
		"/":                               true,
		"":                                false,
		"webhooks/x":                      false,
		"/" + strings.Repeat("a/", 1<<14): false,
	} {
		if got := g.Known(&weir.Event{Route: weir.Route{Path: path}}); got != want {
			t.Errorf("%.40q: %v", path, got)
		}
	}
	for _, nobody := range []*Exempt{nil, {}} {
		nobody.Unanswered(netip.MustParseAddr("192.0.2.1"))
		if nobody.Known(from("192.0.2.1", googlebot)) || nobody.Known(&weir.Event{}) || nobody.Files() != nil {
			t.Error("somebody is known to nobody")
		}
		nobody.Confirm(netip.MustParseAddr("192.0.2.1"), []string{"a.b"}, today)
		if nobody.Stats() != (ExemptStats{}) {
			t.Error("figures out of nothing")
		}
	}
}

// TestKnownAccount: accounts and plans are known exactly as the gate wrote them, and only there: not by what the
// request says elsewhere.
func TestKnownAccount(t *testing.T) {
	g := newExempt(t, ExemptOptions{Accounts: []string{"acme", "käse", "Beta"}, Plans: []string{"gold"}}, nil)
	for _, c := range []struct {
		account, plan string
		want          bool
	}{
		{"acme", "", true}, {"käse", "", true}, {"Beta", "free", true}, {"", "gold", true}, {"anybody", "gold", true},
		{"", "", false}, {"ACME", "", false}, {"acme ", "", false}, {"acme2", "", false}, {"acm", "", false},
		{"gold", "", false},
		{"anybody", "acme", false}, {"", "Gold", false}, {"source:192.0.2.1", "", false},
	} {
		ev := from("192.0.2.1", "acme gold")
		ev.Account, ev.Plan, ev.ID, ev.Client = c.account, c.plan, "acme", "acme"
		if g.Known(ev) != c.want || g.KnownAccount(ev) != c.want {
			t.Errorf("%q of %q: not %t", c.account, c.plan, c.want)
		}
	}
	var nobody *Exempt
	if nobody.KnownAccount(&weir.Event{}) || newExempt(t, ExemptOptions{}, nil).Known(&weir.Event{}) {
		t.Error("nobody is known")
	}
	ev := from("192.0.2.1", firefox)
	ev.Account = "acme"
	if n := testing.AllocsPerRun(100, func() { g.Known(ev) }); n > 0 {
		t.Errorf("%f allocations", n)
	}
}

// TestExemptAccountsAtTheirBounds: as many accounts and plans as may be written, of the greatest length; one more is a
// mistake.
func TestExemptAccountsAtTheirBounds(t *testing.T) {
	fill := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("a", i))
		}
		return all
	}
	fits := ExemptOptions{Accounts: fill(MaxExemptAccounts), Plans: fill(MaxExemptPlans)}
	fits.Accounts[0], fits.Plans[0] = strings.Repeat("x", MaxAccount), strings.Repeat("x", maxPlan)
	if err := fits.Validate(); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]ExemptOptions{
		"accounts: 10001 accounts are too many (at most 10000)":                                  {Accounts: fill(MaxExemptAccounts + 1)},
		"plans: 101 plans are too many (at most 100)":                                            {Plans: fill(MaxExemptPlans + 1)},
		"accounts[0]: the account id is longer than 256 bytes (write the id as clients send it)": {Accounts: []string{strings.Repeat("x", MaxAccount+1)}},
		"accounts[0]: the account id has control characters or white space around it, or is not UTF-8 (write the id " +
			"as clients send it)": {Accounts: []string{"a\nb"}},
		"accounts[1]: an account has no name (write its id, or leave it out)": {Accounts: []string{"a",
			""}},
		`accounts[0]: the account id starts with "source:", which stands for source addresses (list the address under networks)`: {
			Accounts: []string{"source:192.0.2.1"}},
		"accounts[0]: an account with a star: patterns would exempt accounts that are invented to match (write each " +
			"account, or their plan under plans)": {
			Accounts: []string{"partner-*"}},
		`plans[0]: "" is not a plan (write its name, 1 to 64 bytes, without stars)`:  {Plans: []string{""}},
		`plans[0]: "*" is not a plan (write its name, 1 to 64 bytes, without stars)`: {Plans: []string{"*"}},
	} {
		if err := o.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if err := (ExemptOptions{Plans: []string{strings.Repeat("x", maxPlan+1)}}).Validate(); err == nil {
		t.Error("a plan that is too long")
	}
}

func TestStraight(t *testing.T) {
	for path, want := range map[string]bool{
		"/":                    true,
		"/healthz":             true,
		"/webhooks/":           true,
		"/.well-known/x":       true,
		"/a.b/c..d":            true,
		"/k%C3%A4se%20x":       true,
		"":                     false,
		"*":                    false,
		"healthz":              false,
		"//healthz":            false,
		"/search//../healthz":  false,
		"/search/../healthz":   false,
		"/search/./healthz":    false,
		"/..":                  false,
		"/healthz/.":           false,
		"/healthz//":           false,
		"/search/%2e./healthz": false,
		"/search%2fx":          false,
		"/search%5C..":         false,
		"/search\\..":          false,
		"/search/..;/healthz":  false,
		"/healthz;jsession=1":  false,
		"/healthz%3b":          false,
		"/healthz%00":          false,
		"/healthz%0a":          false,
		"/healthz%252e":        false,
		"/healthz%":            false,
		"/healthz%4":           false,
		"/healthz%zz":          false,
		"/healthz%3Fq":         false,
		"/healthz\x7f":         false,
	} {
		if got := Straight(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestKnownClient(t *testing.T) {
	files := folder{
		"office": "# the office\n198.51.100.0/24\n2001:db8:7::/48 # and at home\n\n203.0.113.9\r\n",
		"google.json": `{"creationTime": "2026-03-01",
			"prefixes": [{"ipv4Prefix": "66.249.64.0/19", "x": {}}, {"ipv6Prefix": "2001:4860:4801::/48"}]}`,
		"bing": "\ufeff157.55.39.0/24",
	}
	g := newExempt(t, ExemptOptions{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:172.16.0.0/108")},
		Files:    []string{"office"},
		Bots: []Bot{
			{Name: "google", Agent: "GoogleBot", Files: []string{"google.json"}},
			{Name: "bing", Agent: "bingbot", Files: []string{"bing"},
				Networks: []netip.Prefix{netip.MustParsePrefix("40.77.167.0/24")}},
			{Name: "google, narrow", Agent: "google-InspectionTool",
				Networks: []netip.Prefix{netip.MustParsePrefix("66.249.66.1/32")}},
		},
	}, files)
	for _, c := range []struct {
		addr, agent string
		want        bool
	}{
		{"10.1.2.3", "", true},
		{"::ffff:10.1.2.3", "", true},
		{"172.17.0.1", "", true},
		{"198.51.100.77", firefox, true},
		{"2001:db8:7:1::1", firefox, true},
		{"203.0.113.9", firefox, true},
		{"203.0.113.8", firefox, false},
		{"66.249.66.1", googlebot, true},
		{"66.249.66.1", "gOOGLEbOT", true},
		{"66.249.66.1", "Google-InspectionTool/1.0", true},
		{"66.249.66.2", "Google-InspectionTool/1.0", false},
		{"66.249.66.1", firefox, false}, // the address alone is not enough for a bot
		{"66.249.66.1", "", false},
		{"66.249.66.1", "go", false},
		{"2001:4860:4801:10::1", googlebot, true},
		{"192.0.2.1", googlebot, false},   // nor is what it calls itself
		{"157.55.39.1", googlebot, false}, // nor the address of another
		{"157.55.39.1", "x bingbot/2.0", true},
		{"40.77.167.3", "x bingbot/2.0", true},
		{"66.249.66.1", strings.Repeat("x", agentRead-9) + "Googlebot", true},
		{"66.249.66.1", strings.Repeat("x", agentRead-8) + "Googlebot", false},
	} {
		if got := g.Known(from(c.addr, c.agent)); got != c.want {
			t.Errorf("%s %.30q: %v", c.addr, c.agent, got)
		}
	}
	if g.Known(&weir.Event{Agent: googlebot}) {
		t.Error("known without an address")
	}
	if got := g.Files(); !slices.Equal(got, []string{"bing", "google.json", "office"}) {
		t.Errorf("files %q", got)
	}
}

func TestExemptOptions(t *testing.T) {
	bad := ExemptOptions{
		Paths: []string{"healthz", "/*", "/a/**", "/a/*/b", "/a//b", "/a/", "/a?b", "/%61",
			"/" + strings.Repeat("x", maxExemptPath),
			"/ok", "/ok/*"},
		Networks: []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"),
			netip.MustParsePrefix("::ffff:0:0/96"),
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fc00::/7")},
		Files: []string{""},
		Bots: []Bot{
			{},
			{Name: "agent alone", Agent: "Googlebot"},
			{Name: "all", Agent: "Googlebot", Networks: []netip.Prefix{netip.MustParsePrefix("64.0.0.0/7")}},
			{Name: "all", Agent: "ab", Domains: []string{"com", "*.googlebot.com", ".googlebot.com", "google bot.com",
				"", "a..b", "käse.de",
				"ok.example."}},
			{Name: "a\nb", Agent: "a\nbc", Files: []string{"a\x00"}},
			{Name: "many", Agent: "abc", Domains: make([]string, MaxBotDomains+1)},
		},
	}
	var got []string
	for _, fe := range weir.FieldErrors(bad.Validate()) {
		got = append(got, fe.Error())
	}
	want := []string{
		`paths[0]: "healthz" does not start with a slash (write /healthz or /webhooks/*)`,
		`paths[1]: with /* nobody is ever asked (leave the throttle out of the gate's list instead)`,
		`paths[2]: "/a/**" has a star too many (write /a/*: all below is meant anyway)`,
		`paths[3]: "/a/*/b" has a star in the middle (a star may only follow the last slash, as in /webhooks/*)`,
		`paths[4]: "/a//b" never matches (paths are matched without double slashes, dots and a slash at the end)`,
		`paths[5]: "/a/" never matches (paths are matched without double slashes, dots and a slash at the end)`,
		`paths[6]: "/a?b" never matches (paths are matched with percent signs decoded, and without the query)`,
		`paths[7]: "/%61" never matches (paths are matched with percent signs decoded, and without the query)`,
		`paths[8]: a path of 1025 bytes is too long (at most 1024)`,
		`bots[0]: the bot has no name (add name: googlebot)`,
		`bots[0].agent: what the bot calls itself in User-Agent is missing (add agent: Googlebot; write networks that are always welcome outside bots)`,
		`bots[0]: what a program calls itself is not enough: anybody can say that (add domains, networks or files)`,
		`bots[1]: what a program calls itself is not enough: anybody can say that (add domains, networks or files)`,
		`bots[3].agent: "ab" says too little, or too much (3 to 100 printable characters of its User-Agent)`,
		`bots[3].domains[0]: "com" is a whole top-level domain: anybody can have a name there (write googlebot.com)`,
		`bots[3].domains[1]: "*.googlebot.com" is not a domain (write googlebot.com: everything below it is meant anyway)`,
		`bots[3].domains[2]: ".googlebot.com" is not a domain (write googlebot.com: everything below it is meant anyway)`,
		`bots[3].domains[3]: "google bot.com" is not a domain (write googlebot.com)`,
		`bots[3].domains[4]: "" is not a domain (write googlebot.com)`,
		`bots[3].domains[5]: "a..b" is not a domain (write googlebot.com)`,
		`bots[3].domains[6]: "käse.de" is not a domain (write googlebot.com)`,
		`bots[3].name: there is another bot "all" (names must differ)`,
		`bots[4].name: "a\nb" is not a name (printable characters, at most 64)`,
		`bots[4].agent: "a\nbc" says too little, or too much (3 to 100 printable characters of its User-Agent)`,
		`bots[5].domains: 21 domains are too many (at most 20)`,
		`networks[0]: not a network (write 192.0.2.0/24 or 2001:db8::/32)`,
		`networks[1]: 0.0.0.0/0 is a large part of the internet (/8 is the widest)`,
		`networks[2]: ::/0 is a large part of the internet (/7 is the widest)`,
		`networks[3]: ::ffff:0.0.0.0/96 is a large part of the internet (/8 is the widest)`,
		`bots[2].networks[0]: 64.0.0.0/7 is a large part of the internet (/8 is the widest)`,
		`files[0]: not a file (write the path of a list of networks)`,
		`bots[4].files[0]: not a file (write the path of a list of networks)`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := NewExempt(bad, folder{}.read); err == nil {
		t.Error("exempt from wrong options")
	}
	if err := (ExemptOptions{}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestExemptBounds: each bound holds, and one more is refused.
func TestExemptBounds(t *testing.T) {
	var o ExemptOptions
	for i := range MaxExemptPaths {
		o.Paths = append(o.Paths, fmt.Sprint("/", i))
	}
	for i := range MaxBots {
		o.Bots = append(o.Bots, Bot{Name: fmt.Sprint(i), Agent: fmt.Sprint("bot", i), Files: []string{"list"}})
	}
	one := netip.MustParsePrefix("192.0.2.1/32")
	o.Networks = slices.Repeat([]netip.Prefix{one}, MaxExemptNetworks-MaxBots)
	files := folder{"list": "192.0.2.0/24"}
	g := newExempt(t, o, files)
	if !g.Known(from("192.0.2.9", "bot99")) || !g.KnownPath("/999") {
		t.Error("the last is not known")
	}
	for name, c := range map[string]struct {
		grow func(*ExemptOptions)
		want string
	}{
		"paths": {func(o *ExemptOptions) { o.Paths = append(o.Paths, "/x") },
			"paths: 1001 paths are too many (at most 1000)"},
		"bots": {func(o *ExemptOptions) { o.Bots = append(o.Bots, o.Bots[0]) },
			"bots: 101 bots are too many (at most 100)"},
		"files": {func(o *ExemptOptions) { o.Files = []string{"list"} },
			"files: 101 files, with those of bots, are too many (at most 100)"},
		"networks, in file": {func(o *ExemptOptions) { o.Networks = append(o.Networks, one) },
			"bots[99].files[0]: with list there are more than 100000 networks (leave some out, or write wider ones)"},
		"networks": {func(o *ExemptOptions) { o.Networks = slices.Repeat([]netip.Prefix{one}, MaxExemptNetworks+1) },
			"networks: 100001 networks, with those of bots, are too many (at most 100000)"},
	} {
		more := o
		more.Networks, more.Bots = slices.Clone(o.Networks), slices.Clone(o.Bots)
		c.grow(&more)
		if _, err := NewExempt(more, files.read); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExemptFiles(t *testing.T) {
	long := bytes.Repeat([]byte("192.0.2.1\n"), MaxExemptNetworks)
	if networks, _, fault := parseList(long); fault != nil || len(networks) != MaxExemptNetworks {
		t.Errorf("%d networks, %v", len(networks), fault)
	}
	for _, c := range []struct{ name, text, want string }{
		{"wrong line", "192.0.2.1\n# x\n\n192.0.2.300\n",
			`f:4: "192.0.2.300" is not a network (write 192.0.2.0/24, 2001:db8::/32 or a single address)`},
		{"zone", "fe80::1%eth0",
			`f:1: "fe80::1%eth0" is not a network (write 192.0.2.0/24, 2001:db8::/32 or a single address)`},
		{"bits", "\r\n192.0.2.1/24", `f:2: "192.0.2.1/24" has bits set beyond its length (did you mean 192.0.2.0/24?)`},
		{"everybody", "0.0.0.0/0", `f:1: 0.0.0.0/0 is a large part of the internet (/8 is the widest)`},
		{"everybody, in halves", "192.0.2.1\n128.0.0.0/1",
			`f:2: 128.0.0.0/1 is a large part of the internet (/8 is the widest)`},
		{"empty", "", `f:1: the list names no network (was it fetched whole, and from the right address?)`},
		{"comments", "# a\n# b\n",
			`f:2: the list names no network (was it fetched whole, and from the right address?)`},
		{"a page", "<html>\n",
			`f:1: "<html>" is not a network (write 192.0.2.0/24, 2001:db8::/32 or a single address)`},
		{"too many", string(long) + "192.0.2.1",
			`f:100001: more than 100000 networks (leave some out, or write wider ones)`},
		{"too long", strings.Repeat("#", MaxExemptFile+1), `f has 8388609 bytes (at most 8MiB)`},
		{"JSON without", `{"Action needed": "fetch it from elsewhere"}`,
			`f:1: the list names no network (was it fetched whole, and from the right address?)`},
		{"JSON empty", "{\"prefixes\": []}\n",
			`f:1: the list names no network (was it fetched whole, and from the right address?)`},
		{"JSON wrong", "{\"prefixes\": [\n{\"ipv4Prefix\": \"192.0.2.0/24\"},\n{\"ipv6Prefix\": \"2001:db8::/129\"}]}",
			`f:3: "2001:db8::/129" is not a network (write 192.0.2.0/24, 2001:db8::/32 or a single address)`},
		{"JSON nameless", "{\"prefixes\": [\n{\"ipv5Prefix\": \"192.0.2.0/24\"}]}",
			`f:2: an entry names no network (ipv4Prefix or ipv6Prefix)`},
	} {
		_, err := NewExempt(ExemptOptions{Files: []string{"f"}}, folder{"f": c.text}.read)
		if err == nil || err.Error() != "files[0]: "+c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, text := range map[string]string{
		"JSON cut off":      "{\"prefixes\": [\n{\"ipv4Prefix\": \"192.0.2.0/24\"},\n",
		"JSON, comma":       "{\"prefixes\": [\n\n{\"ipv4Prefix\" \"192.0.2.0/24\"}]}",
		"JSON, number":      "{\"prefixes\": [\n\n{\"ipv4Prefix\": 7}]}",
		"JSON, no list":     "{\n\n\"prefixes\": 7}",
		"JSON, no object":   "\n\n[\"192.0.2.0/24\"]",
		"JSON, and on":      "{\"prefixes\": [{\"ipv4Prefix\": \"192.0.2.0/24\"}]}\n\n{}",
		"JSON, odd element": "{\"prefixes\": [\n\n7]}",
	} {
		_, err := NewExempt(ExemptOptions{Files: []string{"f"}}, folder{"f": text}.read)
		if err == nil || !strings.HasPrefix(err.Error(), "files[0]: f:3: not a list of networks in JSON: ") {
			t.Errorf("%s: %v", name, err)
		}
	}

	_, err := NewExempt(ExemptOptions{
		Files: []string{"none", "ok"},
		Bots:  []Bot{{Name: "b", Agent: "bot", Files: []string{"ok", "bad"}}},
	}, folder{"ok": "192.0.2.1", "bad": "x"}.read)
	want := "files[0]: none cannot be read: file does not exist\n" +
		"bots[0].files[1]: bad:1: \"x\" is not a network (write 192.0.2.0/24, 2001:db8::/32 or a single address)"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	_, err = NewExempt(ExemptOptions{Files: []string{"f"}},
		func(string) ([]byte, error) { return nil, errors.New("no luck") })
	if err == nil || err.Error() != "files[0]: f cannot be read: no luck" {
		t.Errorf("%v", err)
	}
}

// FuzzExemptList: whatever a list says, what comes out of it are networks that can be written down and read again.
func FuzzExemptList(f *testing.F) {
	f.Add([]byte("# a\n192.0.2.0/24\n2001:db8::/32 # b\n"))
	f.Add([]byte(`{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}], "x": [{}]}`))
	f.Add([]byte("{\"prefixes\": [\n{\"ipv4Prefix\": \"192.0.2.0/24\""))
	f.Add([]byte("::ffff:10.0.0.0/104"))
	f.Fuzz(func(t *testing.T, data []byte) {
		networks, line, fault := parseList(data)
		if fault != nil {
			if line < 1 || line > 1+bytes.Count(data, []byte("\n")) || fault.Msg == "" {
				t.Errorf("a mistake in line %d: %v", line, fault)
			}
			return
		}
		var again bytes.Buffer
		for _, p := range networks {
			if !p.IsValid() || p != p.Masked() || tooWide(p) != nil {
				t.Errorf("%s is a network", p)
			}
			fmt.Fprintln(&again, p)
		}
		same, _, fault := parseList(again.Bytes())
		if fault != nil || !slices.Equal(networks, same) {
			t.Errorf("%v, read again %v, %v", networks, same, fault)
		}
	})
}

// FuzzKnown: the quick way and the plain way know the same.
func FuzzKnown(f *testing.F) {
	f.Add("/webhooks/x", googlebot, []byte{66, 249, 66, 1})
	f.Add("/healthz/../x", firefox, []byte{10, 0, 0, 1})
	f.Add("/Webhooks//", "GOOGLEbot", []byte("0123456789abcdef"))
	paths := []string{"/healthz", "/webhooks/*", "/a/*", "/a/b/*"}
	network := netip.MustParsePrefix("66.249.64.0/19")
	g,
		err := NewExempt(ExemptOptions{Paths: paths,
		Bots: []Bot{{Name: "g", Agent: "Googlebot", Networks: []netip.Prefix{network}}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p, agent string, source []byte) {
		addr, _ := netip.AddrFromSlice(source)
		ev := &weir.Event{Time: today, Source: addr, Agent: agent, Route: weir.Route{Path: Path(p)}}
		want := false
		for _, pattern := range paths {
			under, deep := strings.CutSuffix(pattern, "/*")
			want = want || ev.Route.Path == under || deep && strings.HasPrefix(ev.Route.Path, under+"/") &&
				!odd(ev.Route.Path)
		}
		ascii := strings.Map(func(r rune) rune { return rune(lower(byte(r))) }, strings.ToValidUTF8(agent, "?"))
		if isPrintable(agent) && len(agent) <= agentRead {
			want = want || strings.Contains(ascii, "googlebot") && network.Contains(addr.Unmap())
			if got := g.Known(ev); got != want {
				t.Errorf("%q %q %s: %v", ev.Route.Path, agent, addr, got)
			}
		}
		if g.Known(ev) && !g.KnownPath(ev.Route.Path) && !network.Contains(addr.Unmap()) {
			t.Error("known from anywhere")
		}
		if Straight(p) && Path(p) != strings.TrimSuffix(p, "/") && p != "/" {
			t.Errorf("%q is straight, and cleaned it is %q", p, Path(p))
		}
	})
}

// odd says it another way than KnownPath.
func odd(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(segment, "..") {
			return true
		}
	}
	return strings.ContainsAny(p, `\%;`) || strings.ToValidUTF8(p, "") != p
}
