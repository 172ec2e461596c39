package rlsgate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

// TestFileErrors: every mistake is told at once, where it stands, with what to do about it.
func TestFileErrors(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"nothing":       {"", "f: the file is empty (write domain: and descriptors:)"},
		"comments only": {"# nothing\n", "f: the file is empty (write domain: and descriptors:)"},
		"no domain":     {"descriptors: []\n", "f:1:1: the file names no domain (write domain: edge)"},
		"empty domain":  {"domain: ''\n", "f:1:1: the file names no domain (write domain: edge)"},
		"no mapping":    {"- a\n", "f:1:1: the file is a mapping (write key: value)"},
		"no key": {"domain: d\ndescriptors:\n- value: x\n",
			"f:3:3: the descriptor has no key (write key: remote_address)"},
		"unknown key": {"domain: d\ndescriptor: []\n",
			`f:2:1: unknown key "descriptor" in the file (did you mean "descriptors"?)`},
		"misplaced": {"domain: d\ndescriptors:\n- key: a\n  unit: day\n",
			`f:4:3: unknown key "unit" in a descriptor (it belongs in rate_limit)`},
		"twice": {"domain: d\ndomain: e\n", `f:2:1: the key "domain" comes twice (leave one out)`},
		"same descriptor": {"domain: d\ndescriptors:\n- key: a\n  value: b\n- key: a_b\n",
			`f:5:3: there is another descriptor "a_b" on this level (key and value together must differ)`},
		"unit": {rateLimit("unit: secnd, requests_per_unit: 1"),
			`f:4:22: "secnd" is not a unit (did you mean "second"?)`},
		"unit unknown": {rateLimit("unit: UNKNOWN, requests_per_unit: 1"),
			`f:4:22: "UNKNOWN" is not a unit (one of second, minute, hour, day, week, month, year)`},
		"no unit": {rateLimit("requests_per_unit: 1"),
			"f:4:15: the rate_limit has no unit (write unit: second)"},
		"negative": {rateLimit("unit: day, requests_per_unit: -1"),
			`f:4:46: "-1" is not a number of requests (a whole number up to 4294967295)`},
		"too many": {rateLimit("unit: day, requests_per_unit: 4294967296"),
			`f:4:46: "4294967296" is not a number of requests (a whole number up to 4294967295)`},
		"fraction": {rateLimit("unit: day, requests_per_unit: 1.5"),
			`f:4:46: "1.5" is not a number of requests (a whole number up to 4294967295)`},
		"unlimited unit": {rateLimit("unit: day, unlimited: true"),
			"f:4:22: what is unlimited has no unit (leave it out)"},
		"not a bool": {rateLimit("unit: day, unlimited: maybe"),
			`f:4:38: "maybe" is neither true nor false (write true or false, without quotes)`},
		"quoted bool": {rateLimit("unlimited: 'true'"),
			"f:4:27: \"true\" is neither true nor false (write true or false, without quotes)\nf:4:15: the " +
				"rate_limit has no unit (write unit: second)"},
		"replaces itself": {rateLimit("unit: day, name: x, replaces: [{name: x}]"),
			`f:4:47: the rate_limit "x" cannot replace itself`},
		"replaces nothing": {rateLimit("unit: day, replaces: [{name: ''}]"),
			"f:4:38: the name of the rate_limit to replace is missing (write - name: the name of a rate_limit)"},
		"shared": {"domain: d\ndescriptors:\n- key: a\n  value: b\n  share_threshold: true\n",
			"f:5:20: only a value that ends in * can share its threshold (write value: b*, or leave share_threshold " +
				"out)"},
		"list of words": {"domain: d\ndescriptors: [a]\n", "f:2:15: a descriptor is a mapping (write key: value)"},
		"tab": {"domain: d\ndescriptors:\n\t- key: a\n",
			"f:3:1: YAML does not allow a tab here (indent with spaces)"},
		"two documents": {"domain: d\n---\ndomain: e\n",
			"f:3:1: a second document starts here (the original would not read it; leave the --- out)"},
		"alias": {"domain: *d\n", `f:1:9: there is no anchor "d" before this (quote a value that starts with *)`},
		"tag": {"domain: !!str d\n",
			"f:1:9: YAML tags are not supported (leave it out, or quote a value that starts with !)"},
		"not text": {"domain: \xff\n", "f: this is not UTF-8 text (is it the right file?)"},
		"several": {"domain: d\nx: 1\ndescriptors:\n- kee: a\n- key: b\n  rate_limit: {unit: dai}\n",
			"f:2:1: unknown key \"x\" in the file (there are domain, descriptors)\n" +
				"f:4:3: unknown key \"kee\" in a descriptor (did you mean \"key\"?)\nf:6:22: \"dai\" is not a unit " +
				"(did you mean \"day\"?)"},
		"deep": {"domain: d\n" + deep(maxLevels+1),
			fmt.Sprintf("f:%d:%d: descriptors are nested deeper than 20 levels", 2*maxLevels+3, 2*maxLevels+1)},
		"deeper": {"domain: " + strings.Repeat("[", 1000),
			"f:1:58: lists and mappings are nested deeper than 50 levels"},
		"wide":    {"domain: d\n" + strings.Repeat("x: 1\n", maxKeys), "f:1001:2: a mapping has more than 1000 keys"},
		"a value": {"domain: d\ndescriptors:\n- key: [a]\n", "f:3:8: expected a single value"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.file)
			_, err := Read(path, false)
			got := strings.ReplaceAll(fmt.Sprint(err), path, "f")
			if got != c.want {
				t.Errorf("the mistakes are\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestFileBounds: there are so many descriptors in all files, and so many keys by <<, and not one more.
func TestFileBounds(t *testing.T) {
	compile := func(text string, left int) string {
		c := compiler{reader: reader{file: "f"}, into: &Imported{domains: map[string]*level{}}, left: &left}
		c.compile(text)
		return fmt.Sprint(errors.Join(c.errs...))
	}
	if got := compile("domain: d\ndescriptors: [{key: a}, {key: b, descriptors: [{key: c}]}]\n", 3); got != "<nil>" {
		t.Error(got)
	}
	if got := compile("domain: d\ndescriptors: [{key: a}, {key: b, descriptors: [{key: c}]}]\n",
		2); !strings.Contains(got, "f:2:48: there are more than 100000 descriptors") {
		t.Error(got)
	}
	// Each item takes the keys of all before it.
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n- &a0 {key: a, value: b}\n")
	for i := range 20 {
		fmt.Fprintf(&b, "- &a%d\n  <<: [*a%d, *a%d]\n  value: b%d\n", i+1, i, i, i)
	}
	if got := compile(b.String(), 100); !strings.Contains(got, "more than 100000 keys come by <<") {
		t.Error(got)
	}
}

func rateLimit(fields string) string {
	return "domain: d\ndescriptors:\n- key: a\n  rate_limit: {" + fields + "}\n"
}

// deep nests descriptors.
func deep(levels int) string {
	var b strings.Builder
	for i := range levels {
		in := strings.Repeat("  ", i)
		fmt.Fprintf(&b, "%sdescriptors:\n%s- key: a\n", in, in)
	}
	return b.String()
}

func TestFolder(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(folder, false); err == nil || !strings.Contains(err.Error(), "has no files that end in .yaml") {
		t.Errorf("an empty folder: %v", err)
	}
	put("a.yaml", "domain: a\n")
	put("b.yml", oneRule(1))
	put(".c.yaml", "nonsense")
	put("readme.txt", "nonsense")
	got, err := Read(folder, false)
	if err != nil || fmt.Sprint(got.Domains(), rulesOf(got)) != "[a edge] [1/minute]" {
		t.Errorf("read %v, %v", got, err)
	}
	put("c.yaml", strings.Replace(oneRule(2), "user", "other", 1))
	if _, err := Read(folder, false); err == nil ||
		!strings.Contains(err.Error(), `c.yaml:1:9: the domain "edge" is configured twice (merge_domains: true`) {
		t.Errorf("a domain in two files: %v", err)
	}
	if got, err := Read(folder, true); err != nil || fmt.Sprint(rulesOf(got)) != "[1/minute 2/minute]" {
		t.Errorf("merged: %v, %v", got, err)
	}
	put("d.yaml", oneRule(3))
	if _, err := Read(folder, true); err == nil ||
		!strings.Contains(err.Error(), `there is another descriptor "user"`) {
		t.Errorf("the same descriptor in two files: %v", err)
	}
	if _, err := Read(filepath.Join(folder, "none"), false); err == nil ||
		!strings.Contains(err.Error(), "cannot be read: no such file") {
		t.Errorf("no file: %v", err)
	}
	put("big.yaml", strings.Repeat("#", maxFile+1))
	if _, err := Read(filepath.Join(folder, "big.yaml"), false); err == nil ||
		!strings.Contains(err.Error(), "too large (at most 1MiB") {
		t.Errorf("too large a file: %v", err)
	}
	put("big.yaml", strings.Repeat("#", maxFile))
	if _, err := Read(filepath.Join(folder, "big.yaml"), false); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("a file of the largest size: %v", err)
	}
	many := t.TempDir()
	for i := range maxFiles + 1 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("%d.yaml", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(many, false); err == nil || !strings.Contains(err.Error(), "1001 files are too many") {
		t.Errorf("too many files: %v", err)
	}
}

// TestWords: what YAML 1.1 writes otherwise is read as the original reads it.
func TestWords(t *testing.T) {
	r := newRig(t, Options{Config: write(t, `
domain: 42
descriptors:
- &common
  key: true
  value: 007
  rate_limit: &limit
    unit: Hour
    requests_per_unit: 0x10
- <<: *common
  value: no
- key: alias
  rate_limit: *limit
  shadow_mode: on
- key: ~x
  value:
  detailed_metric: no
  rate_limit:
    unit: DAY
    requests_per_unit: 1_000
- key: none
  rate_limit:
`)}, nil)
	want(t, r.ask("42", "true=007", "true=7", "true=no", "alias=x", "~x=y", "none=x"),
		"ok 16/hour 15, ok, ok 16/hour 15, ok 16/hour 15, ok 1000/day 999, ok")
}

func TestUnits(t *testing.T) {
	for u, c := range map[Unit]struct {
		name   string
		period time.Duration
	}{
		Second: {"second", time.Second}, Minute: {"minute", time.Minute}, Hour: {"hour", time.Hour},
		Day:  {"day", 24 * time.Hour},
		Week: {"week", 168 * time.Hour}, Month: {"month", 720 * time.Hour}, Year: {"year", 8760 * time.Hour},
	} {
		if got, ok := parseUnit(strings.ToUpper(c.name)); !ok || got != u || u.String() != c.name ||
			u.Period() != c.period {
			t.Errorf("%s is %v, %v", c.name, got, got.Period())
		}
	}
	if Unit(0).valid() || Unit(99).valid() || Unit(99).Period() != 0 || Unit(99).String() != "unknown" {
		t.Error("there are other units")
	}
	if got := Minute.untilReset(time.Unix(60, 0)); got != 60 {
		t.Errorf("%d seconds at the beginning of a minute", got)
	}
	if got := Minute.untilReset(time.Unix(119, 1)); got != 1 {
		t.Errorf("%d seconds at its end", got)
	}
}

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"good":       {func(*Options) {}, ""},
		"no address": {func(o *Options) { o.Listen = "" }, "listen: the gate has no address"},
		"no port": {func(o *Options) { o.Listen = "localhost" },
			"listen: \"localhost\" is not an address with a port"},
		"a bad port": {func(o *Options) { o.Listen = ":70000" },
			"listen: \":70000\" has no port up to 65535"},
		"relative":      {func(o *Options) { o.Listen = "unix:x" }, "not the path of a socket from the root on"},
		"socket on tcp": {func(o *Options) { o.Socket.Mode = "0600" }, "socket: the gate does not listen on a socket"},
		"mode": {func(o *Options) { o.Listen, o.Socket.Mode = "unix:/x", "9" },
			"socket.mode: \"9\" is not a mode"},
		"nothing to ask": {func(o *Options) { o.Domains = nil }, "there is nothing to ask the gate for"},
		"no throttles": {func(o *Options) { o.Domains = map[string]Domain{"d": {}} },
			"domains.d.throttles: a domain without throttles"},
		"no name": {func(o *Options) { o.Domains = map[string]Domain{"": {Throttles: []string{"x"}}} },
			"a domain's name has between 1 and 256"},
		"keys": {func(o *Options) {
			o.Domains = map[string]Domain{"d": {Throttles: []string{"x"}, Account: []string{"a", "", "a"}}}
		},
			"domains.d.account[1]: a key of descriptors is not empty (write the key as Envoy's rate_limits actions " +
				"do)\ndomains.d.account[2]: the key \"a\" is listed twice"},
		"exact":   {func(o *Options) { o.Farm = FarmExact }, "farm: there are no files whose rules could be counted exactly"},
		"no farm": {func(o *Options) { o.Farm = "broadcast" }, "farm: "},
		"merge":   {func(o *Options) { o.MergeDomains = true }, "merge_domains: there are no files to merge"},
		"wait":    {func(o *Options) { o.MaxWait = weir.Duration(time.Hour) }, "max_wait: 1h is out of bounds"},
		"header": {func(o *Options) { o.Headers.Reset = "a b" },
			"headers.reset: \"a b\" is not the name of a header"},
		"authz": {func(o *Options) { o.Authz = &Authz{Account: []string{"hedaer:x"}} },
			"authz.throttles: without throttles everything is allowed"},
		"account": {func(o *Options) {
			o.Authz = &Authz{Throttles: []string{"x"},
				Account: []string{"hedaer:x"}}
		}, "authz.account[0]: an account cannot be found"},
		"forwarded": {func(o *Options) { o.Authz = &Authz{Throttles: []string{"x"}, ForwardedHeader: "via"} },
			"authz.forwarded_header: unknown"},
		"descriptors": {func(o *Options) { o.Bounds.Descriptors = 1001 },
			"bounds.descriptors: 1001 is out of bounds"},
		"message":       {func(o *Options) { o.Bounds.Message = 1 }, "bounds.message: 1B is out of bounds"},
		"silent":        {func(o *Options) { o.Timeouts.Silent = 1 }, "timeouts.silent: "},
		"config absent": {func(o *Options) { o.Config = "/nowhere" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := withListen(edge("user"))
			c.change(&o)
			err := o.Validate()
			if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("the mistakes are %v, want %q", err, c.want)
			}
		})
	}
	if err := withListen(edge("user")).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults are wrong: %v", err)
	}
}

// TestParts: what the options name must be there.
func TestParts(t *testing.T) {
	o := withListen(edge("user"))
	o.Authz = &Authz{Throttles: []string{"plans"}}
	o.Config = write(t, oneRule(1))
	for _, p := range []Parts{{}, {Limit: newLimits(nil).limit}} {
		_, err := New(o, p, Env{})
		for _, want := range []string{`domains.edge: the domain "edge" `,
			"authz: external authorization has no chain"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("the mistakes are %v, want %q", err, want)
			}
		}
	}
	o = withListen(Options{Config: "/nowhere/config.yaml"})
	if _,
		err := New(o, Parts{},
		Env{}); fmt.Sprint(err) != "config: /nowhere/config.yaml: cannot be read: no such file or directory" {
		t.Errorf("the mistake is %v", err)
	}
}

// rulesOf returns the different limits of all domains.
func rulesOf(i *Imported) []Rule {
	seen := map[Rule]bool{}
	for _, l := range i.domains {
		l.each(func(r *rule) {
			if !r.unlimited {
				seen[r.Rule] = true
			}
		})
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Rule) int { return strings.Compare(a.String(), b.String()) })
}
