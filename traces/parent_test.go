package traces

import (
	"strings"
	"testing"

	"weir"
)

const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestParseParent has the cases of W3C Trace Context, sections 3.2.2 and 4.3.
func TestParseParent(t *testing.T) {
	for _, c := range []struct {
		values []string
		ok     bool
	}{
		{[]string{good}, true},
		{[]string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}, true},
		{[]string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff"}, true}, // flags that nobody knows yet
		{[]string{"01" + good[2:]}, true},
		{[]string{"cc" + good[2:] + "-what-comes-later"}, true},
		{nil, false},
		{[]string{good, good}, false},
		{[]string{""}, false},
		{[]string{good[:54]}, false},
		{[]string{good + "-x"}, false}, // version 00 has nothing more
		{[]string{"cc" + good[2:] + "x"}, false},
		{[]string{"cc" + good[2:] + "-" + strings.Repeat("x", maxHeader)}, false},
		{[]string{"ff" + good[2:]}, false},
		{[]string{strings.ToUpper(good)}, false},
		{[]string{" " + good}, false},
		{[]string{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, false},
		{[]string{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"}, false},
		{[]string{"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, false},
		{[]string{"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"}, false},
		{[]string{"0g" + good[2:]}, false},
		{[]string{good[:53] + "0x"}, false},
	} {
		p, ok := ParseParent(c.values)
		if ok != c.ok || !ok && p != (Parent{}) {
			t.Errorf("%q: %v, %+v", c.values, ok, p)
		}
	}
	p, _ := ParseParent([]string{good})
	if got := string(appendHeader(nil, p.Trace, p.Span, p.Flags)); got != good || !p.Sampled() {
		t.Errorf("%q", got)
	}
}

func FuzzParseParent(f *testing.F) {
	f.Add(good)
	f.Add("cc" + good[2:] + "-x")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := ParseParent([]string{text})
		if !ok {
			return
		}
		header := string(appendHeader(nil, p.Trace, p.Span, p.Flags))
		if again, ok := ParseParent([]string{header}); !ok || again != p || header[3:53] != text[3:53] {
			t.Errorf("%q became %q", text, header)
		}
	})
}

func tracer(t testing.TB, o Options) *Tracer {
	t.Helper()
	if o.Endpoint == "" {
		o.Endpoint = "http://127.0.0.1:4318"
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	tr, err := New(o, Env{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// A client whose parent is not believed cannot have its requests sampled, nor choose their trace.
func TestUntrustedParents(t *testing.T) {
	tr := tracer(t, Options{Sample: new(weir.Share(0))})
	var c Context
	seen := map[TraceID]bool{}
	for range 1000 {
		tr.Begin(&c, []string{good}, false)
		if c.Sampled || c.Continued || !c.HasParent || c.Trace == c.Parent.Trace || seen[c.Trace] ||
			c.Server == c.Client {
			t.Fatalf("%+v", c)
		}
		seen[c.Trace] = true
		if h := c.Header(); !strings.HasSuffix(h, "-00") || strings.Contains(h, good[3:35]) {
			t.Fatal(h)
		}
	}
}

// A parent that is believed decides: the trace goes on, sampled or not.
func TestTrustedParents(t *testing.T) {
	tr := tracer(t, Options{Sample: new(weir.Share(1))})
	var c Context
	for flags, want := range map[string]string{"00": "-00", "01": "-01", "02": "-02", "03": "-03", "fe": "-02"} {
		tr.Begin(&c, []string{good[:53] + flags}, true)
		h := c.Header()
		if !c.Continued || c.Sampled != (want[2]&1 == 1) || h[:36] != good[:36] || h[36:52] == good[36:52] ||
			!strings.HasSuffix(h, want) {
			t.Errorf("%s: %+v, %s", flags, c, h)
		}
	}
	tr.Begin(&c, []string{"nonsense"}, true)
	if c.Continued || c.HasParent || !c.Sampled {
		t.Errorf("%+v", c)
	}
}

// As many requests are sampled as were asked for.
func TestSample(t *testing.T) {
	for share, within := range map[weir.Share][2]int{0: {0, 0}, 1: {20000, 20000}, 0.5: {9500, 10500},
		0.01: {120, 290}} {
		tr := tracer(t, Options{Sample: &share})
		n := 0
		var c Context
		for range 20000 {
			if tr.Begin(&c, nil, false); c.Sampled {
				n++
			}
		}
		if n < within[0] || n > within[1] { // six standard deviations
			t.Errorf("%v: %d of 20000", share, n)
		}
	}
}

func TestTrusts(t *testing.T) {
	for parents, want := range map[Parents][2]bool{"": {false, false}, ParentsNone: {false, false},
		ParentsProxies: {true, false}, ParentsAll: {true, true}} {
		tr := tracer(t, Options{Parents: parents})
		if got := [2]bool{tr.Trusts(true), tr.Trusts(false)}; got != want {
			t.Errorf("%q: %v", parents, got)
		}
	}
}
