package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

var berlin = time.FixedZone("", 3600)

func sample() *Record {
	return &Record{
		Time: time.Date(2026, 11, 17, 20, 33, 59, 123_000_000, berlin), Gate: ":8080", Route: "shop", ID: "m7ehk9hv2bwakgkd",
		Source: netip.MustParseAddr("192.0.2.7"), Account: "6e996ddc", Method: "GET", Host: "api.example.com",
		Path: "/v1/search", Query: "q=tea", Protocol: "HTTP/1.1", Referer: "https://example.com/",
		UserAgent: `Mozilla/5.0 (X11; Linux x86_64)`, Status: 429, In: 12, Out: 261, Verdict: weir.Refuse, By: "plans",
		Rule: "per-second", Reason: weir.OverLimit, Waited: 1_250_400 * time.Microsecond, Took: 1_250_518 * time.Microsecond,
	}
}

// TestFormats compares lines byte for byte.
func TestFormats(t *testing.T) {
	empty := &Record{Time: time.Unix(0, 0).UTC()}
	traced := sample()
	traced.Trace = [16]byte{0x4b, 0xf9, 15: 0x36}
	for _, c := range []struct {
		name string
		f    *Format
		r    *Record
		want string
	}{
		{"combined", Combined, sample(), `192.0.2.7 - 6e996ddc [17/Nov/2026:20:33:59 +0100] "GET /v1/search HTTP/1.1" 429 ` +
			`261 "https://example.com/" "Mozilla/5.0 (X11; Linux x86_64)"`},
		{"combined, empty", Combined, empty, `- - - [01/Jan/1970:00:00:00 +0000] "- - -" 000 0 "-" "-"`},
		{"json", JSON, sample(), `{"time":"2026-11-17T19:33:59.123Z","gate":":8080","route":"shop","id":"m7ehk9hv2bwakgkd",` +
			`"source":"192.0.2.7","account":"6e996ddc","method":"GET","host":"api.example.com","path":"/v1/search",` +
			`"protocol":"HTTP/1.1","user_agent":"Mozilla/5.0 (X11; Linux x86_64)","status":429,"in":12,"out":261,` +
			`"verdict":"refuse","by":"plans","rule":"per-second","reason":"over-limit","waited_ms":1250.400,` +
			`"total_ms":1250.518}`},
		{"json, traced", JSON, traced, strings.Replace(string(JSON.Append(nil, sample())), `,"source"`,
			`,"trace_id":"4bf90000000000000000000000000036","source"`, 1)},
		{"json, empty", JSON, empty, `{"time":"1970-01-01T00:00:00.000Z","status":0,"in":0,"out":0,"verdict":"admit",` +
			`"waited_ms":0.000,"total_ms":0.000}`},
		{"braces", mustParse("{{{status}}} {took}\t{waited}"), sample(), "{429} 1.250\t1.250"},
		{"no name", mustParse("a line"), sample(), "a line"},
		{"all names", mustParse("{" + strings.Join(Names[:], "} {") + "}"), traced,
			"2026-11-17T19:33:59.123Z 17/Nov/2026:20:33:59 +0100 1794944039.123 :8080 shop m7ehk9hv2bwakgkd " +
				"4bf90000000000000000000000000036 192.0.2.7 6e996ddc GET api.example.com /v1/search q=tea HTTP/1.1 " +
				"https://example.com/ Mozilla/5.0 (X11; Linux x86_64) 429 12 261 refuse plans per-second over-limit 1.250 " +
				"1.250 1250.400 1250.518"},
	} {
		if got := string(c.f.Append(nil, c.r)); got != strings.TrimSuffix(c.want, "\n")+"\n" {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// attacks are texts that would end a line or a quoted part, or move what follows.
var attacks = []string{
	"x\" 200 5 \"-\" \"y", "x\n127.0.0.1 - - [17/Nov/2026:20:33:59 +0100] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"", "x\r\ny",
	"\\", "x\\\"", "\x00\x1b[2J\x7f", "ä\u2028\u0085", "\xff\xfe", "/a b", "\",\"status\":200,\"x\":\"",
	strings.Repeat("\"", 3*maxValue),
}

// hostile is a record in which everything that a client chooses is an attack.
func hostile(text string) *Record {
	r := sample()
	r.Method, r.Host, r.Path, r.Query = text, text, text, text
	r.Protocol, r.Referer, r.UserAgent, r.ID = text, text, text, text
	return r
}

// combinedLine is how programs read a line of the combined format.
var combinedLine = regexp.MustCompile(`^(\S+) - (\S+) \[([^\]]+)\] "(\S+) (\S+) (\S+)" (\d{3}) (\d+) "([^"\\]|\\x[0-9A-F]{2})*" ` +
	`"([^"\\]|\\x[0-9A-F]{2})*"\n$`)

// TestNoForgedLines: whatever a client sends, it is one line, and the status and size in it are ours.
func TestNoForgedLines(t *testing.T) {
	for _, text := range attacks {
		checkLines(t, text)
	}
}

func checkLines(t *testing.T, text string) {
	t.Helper()
	r := hostile(text)
	line := Combined.Append(nil, r)
	if m := combinedLine.FindSubmatch(line); m == nil || string(m[7]) != "429" || string(m[8]) != "261" ||
		string(m[1]) != "192.0.2.7" {
		t.Errorf("%q: %q", text, line)
	}
	if len(line) > 5*4*(maxValue+8)+200 {
		t.Errorf("%.64q makes %d bytes", text, len(line))
	}
	line = JSON.Append(nil, r)
	var doc map[string]any
	if err := json.Unmarshal(line, &doc); err != nil || doc["status"] != 429.0 || doc["out"] != 261.0 ||
		bytes.Count(line, []byte("\n")) != 1 || bytes.ContainsAny(line, "\r\x00\x1b\x7f\u0085\u2028") {
		t.Errorf("%q: %v: %q", text, err, line)
	}
	if text != "" && len(text) <= maxValue && doc["path"] != strings.ToValidUTF8(text, "\uFFFD") &&
		!strings.Contains(doc["path"].(string), "\uFFFD") {
		t.Errorf("%q became %q", text, doc["path"])
	}
	line = mustParse("{status} {method} {host} {path} {query} {id} {protocol} {out}").Append(nil, r)
	if parts := strings.Split(string(line), " "); len(parts) != 8 || parts[0] != "429" || parts[7] != "261\n" {
		t.Errorf("%q: %q", text, line)
	}
}

func FuzzLines(f *testing.F) {
	for _, text := range attacks {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkLines(t, text) })
}

// A value is cut off at its bound.
func TestValuesAreBounded(t *testing.T) {
	r := &Record{UserAgent: strings.Repeat("a", maxValue)}
	f := mustParse("{user_agent}")
	if got := string(f.Append(nil, r)); got != r.UserAgent+"\n" {
		t.Errorf("%d bytes", len(got))
	}
	want := r.UserAgent + "..."
	r.UserAgent += "b"
	if got := string(f.Append(nil, r)); got != want+"\n" {
		t.Errorf("%d bytes", len(got))
	}
	if got := string(JSON.Append(nil, r)); !strings.Contains(got, `"`+want+`"`) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTemplateMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{sorce}":                              `there is no name {sorce} (did you mean "source"?)`,
		"{source":                              "a brace is never closed (write {source}, or {{ for a plain brace)",
		"source}":                              "a brace is closed that was not opened (write }} for a plain brace)",
		"{source}\n{path}":                     "a template has a control character (a template is one line)",
		"{}":                                   "there is no name {}",
		strings.Repeat("x", MaxTemplate) + "{": "a template of 4097 bytes is too long (at most 4096)",
	} {
		_, err := ParseTemplate(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.64q: %v", text, err)
		}
	}
	_, err := ParseTemplate("{a} {b} {source}")
	if n := len(weir.FieldErrors(err)); n != 2 {
		t.Errorf("%d mistakes: %v", n, err)
	}
	if _, err := ParseTemplate(strings.Repeat("x", MaxTemplate)); err != nil {
		t.Error(err)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{source} {method}")
	f.Add("{{}}{")
	f.Fuzz(func(t *testing.T, text string) {
		format, err := ParseTemplate(text)
		if err != nil {
			if len(weir.FieldErrors(err)) == 0 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if line := format.Append(nil, sample()); bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("%q makes %q", text, line)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		given, full Options
		mistakes    string
	}{
		{Options{}, Options{All, FormatLog, "", FloodsFirst}, ""},
		{Options{To: "/var/log/weir/access.log"}, Options{All, FormatJSON, "/var/log/weir/access.log", FloodsAll}, ""},
		{Options{Format: "combined", Requests: Refused, Floods: FloodsFirst},
			Options{Refused, FormatCombined, Stderr, FloodsFirst}, ""},
		{Options{Format: "{path}", To: Stdout}, Options{All, "{path}", Stdout, FloodsAll}, ""},
		{Options{Format: "combind"}, Options{All, "combind", Stderr, FloodsAll},
			`format: unknown format "combind" (did you mean "combined"?)`},
		{Options{Format: "{pth}"}, Options{All, "{pth}", Stderr, FloodsAll},
			`format: there is no name {pth} (did you mean "path"?)`},
		{Options{Format: FormatLog, To: Stdout}, Options{All, FormatLog, Stdout, FloodsFirst},
			`to: lines of the log go where the log goes`},
		{Options{To: "access.log"}, Options{All, FormatJSON, "access.log", FloodsAll}, `to: "access.log" is not a place`},
		{Options{Requests: "none", Floods: "some"}, Options{"none", FormatLog, "", "some"},
			`requests: unknown requests "none" (one of all, refused, off)`},
	} {
		if got := c.given.WithDefaults(); got != c.full {
			t.Errorf("%+v: %+v", c.given, got)
		}
		err := c.given.Validate()
		if (err == nil) != (c.mistakes == "") || err != nil && !strings.HasPrefix(err.Error(), c.mistakes) {
			t.Errorf("%+v: %v", c.given, err)
		}
	}
	for _, o := range []Options{{}, {Format: "json"}, {Format: "combined"}, {Format: "{path}"}} {
		var to bytes.Buffer
		l := o.Ready(&to)
		if (l.Format == nil) != (o.Format == "") || (l.To == nil) != (o.Format == "") || l.Every != (o.Format != "") {
			t.Errorf("%+v: %+v", o, l)
		}
	}
	if Combined.HasQuery() || JSON.HasQuery() || !mustParse("{query}").HasQuery() {
		t.Error("only a template that names the query has it")
	}
	if slices.Contains(Names[:], "") {
		t.Error("a value has no name")
	}
}

// No line costs memory.
func TestNoAllocations(t *testing.T) {
	b := make([]byte, 0, 4096)
	template := mustParse("{time} {source} {method} {path} {status} {took}")
	for name, f := range map[string]*Format{"combined": Combined, "json": JSON, "template": template} {
		if n := testing.AllocsPerRun(100, func() { b = f.Append(b[:0], sampled) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var sampled = sample()

func BenchmarkAppend(b *testing.B) {
	line := make([]byte, 0, 4096)
	for name, f := range map[string]*Format{"combined": Combined, "json": JSON,
		"template": mustParse("{source} {method} {path} {status} {took}")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				line = f.Append(line[:0], sampled)
			}
		})
	}
}
