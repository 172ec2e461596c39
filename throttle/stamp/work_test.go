package stamp

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp/classic"
)

func TestParseWork(t *testing.T) {
	for text, want := range map[string]Work{
		"16 bits": 1 << 16, "16bits": 1 << 16, "1 bit": 2, "0 bits": 1, "0": 0, "65536": 65536, " 20 bits ": 1 << 20,
		"16.5 bits": 92682, "44 bits": MaxWork, "17592186044416": MaxWork,
	} {
		if got, err := ParseWork(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     `"" is not work (write "16 bits", or 65536 for as many operations)`,
		"bits":                 `"bits" is not work (write "16 bits", or 65536 for as many operations)`,
		"-3":                   `"-3" is not work (write "16 bits", or 65536 for as many operations)`,
		"1e9":                  `"1e9" is not work (write "16 bits", or 65536 for as many operations)`,
		"1.5":                  `"1.5" is not a whole number of operations (write "16 bits", or 65536 for as many operations)`,
		"45 bits":              `"45 bits" is too much work (44 bits is the most)`,
		"17592186044417":       `"17592186044417" is too much work (44 bits is the most)`,
		"99999999999999999999": `"99999999999999999999" is too much work (44 bits is the most)`,
	} {
		if got, err := ParseWork(text); err == nil || err.Error() != want {
			t.Errorf("%q: %d, %v; want %s", text, got, err, want)
		}
	}
}

func TestWorkRoundTrip(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		w := Work(rapid.Uint64Range(0, uint64(MaxWork)).Draw(t, "work"))
		if got, err := ParseWork(w.String()); err != nil || got != w {
			t.Fatalf("%d is written %q and read %d, %v", w, w, got, err)
		}
	})
}

func TestAlgorithmText(t *testing.T) {
	for _, a := range Algorithms {
		var got Algorithm
		text, _ := a.MarshalText()
		if err := got.UnmarshalText(text); err != nil || got != a {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	var a Algorithm
	if err := a.UnmarshalText([]byte("argon2id")); err == nil || !strings.Contains(err.Error(), "were removed") ||
		!strings.Contains(weir.FieldErrors(err)[0].Hint, `write "eqs60"`) {
		t.Error(err)
	}
	if Algorithm(4).known() || Algorithm(0).known() || (EQS60 + 1).known() {
		t.Error("a number without a puzzle is known")
	}
	if err := a.UnmarshalText([]byte("sha256k")); err == nil ||
		weir.FieldErrors(err)[0].Hint != `did you mean "sha256-k"?` {
		t.Error(err)
	}
}

// TestBearable: what a phone can bear in five seconds is five seconds of work for it.
func TestBearable(t *testing.T) {
	for _, a := range Algorithms {
		w := Bearable(a, 5*time.Second)
		if got := w.Time(a); a != DLogClassic && (got < 4900*time.Millisecond || got > 5*time.Second) {
			t.Errorf("%s: %s takes %s", a, w, got)
		}
		if Bearable(a, 0) != 0 || Bearable(a, 1000*time.Hour) > MaxWork {
			t.Errorf("%s: bounds", a)
		}
	}
	if w := Bearable(DLogClassic, 5*time.Second); w != 1<<classic.MaxBits {
		t.Errorf("dlog-classic is clipped at 40 bits, not %s", w)
	}
}

// TestSmallSteps: difficulty goes in steps of at most a percent.
func TestSmallSteps(t *testing.T) {
	for w := Work(100); w < MaxWork; w += w / 50 {
		a, b := sha256k.target(w), sha256k.target(w+max(w/100, 1))
		if ratio := float64(a) / float64(b); !(ratio > 1 && ratio <= 1.0101) {
			t.Fatalf("from %d: a step of %f", w, ratio)
		}
	}
}
