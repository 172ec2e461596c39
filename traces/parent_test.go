package traces

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"weir"
)

const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestParse has the cases of W3C Trace Context, sections 3.2.2 and 4.3.
func TestParse(t *testing.T) {
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
		if p := parse(c.values); p.IsValid() != c.ok {
			t.Errorf("%q: %+v", c.values, p)
		}
	}
	p := parse([]string{good})
	if got := header(p); got != good || !p.IsSampled() {
		t.Errorf("%q", got)
	}
}

// header is what OpenTelemetry's own writer makes of a parent.
func header(p trace.SpanContext) string {
	to := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), p), to)
	return to.Get("traceparent")
}

// FuzzParse compares what is read with OpenTelemetry's own reader.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("cc" + good[2:] + "-x")
	f.Fuzz(func(t *testing.T, text string) {
		p := parse([]string{text})
		from := propagation.MapCarrier{"traceparent": text}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), from))
		if p.IsValid() && (!theirs.IsValid() || header(p) != header(theirs)) {
			t.Errorf("%q became %q, and %q there", text, header(p), header(theirs))
		}
		if theirs.IsValid() && !p.IsValid() && len(text) <= maxHeader {
			t.Errorf("%q is not read, and is %q there", text, header(theirs))
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
	seen := map[trace.TraceID]bool{}
	for range 1000 {
		tr.Begin(&c, []string{good}, false)
		if c.Sampled || c.Continued || !c.Parent.IsValid() || c.Trace == c.Parent.TraceID() || seen[c.Trace] ||
			c.Server == c.Client {
			t.Fatalf("%+v", c)
		}
		seen[c.Trace] = true
		if h := string(c.AppendHeader(nil)); !strings.HasSuffix(h, "-00") || strings.Contains(h, good[3:35]) {
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
		h := string(c.AppendHeader(nil))
		if !c.Continued || c.Sampled != (want[2]&1 == 1) || h[:36] != good[:36] || h[36:52] == good[36:52] ||
			!strings.HasSuffix(h, want) {
			t.Errorf("%s: %+v, %s", flags, c, h)
		}
	}
	tr.Begin(&c, []string{"nonsense"}, true)
	if c.Continued || c.Parent.IsValid() || !c.Sampled {
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
