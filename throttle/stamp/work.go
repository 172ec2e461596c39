package stamp

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/throttle/stamp/classic"
)

// Work is what a stamp costs: the expected number of basic operations to make it, whatever the algorithm. A basic
// operation is a hash (sha256-k), a multiplication in the group (dlog) or eight values hashed and sorted (eqs60).
// dlog-classic counts possibilities, as its document does, and costs far less than it says. People write it as a number
// or in bits: 65536, "16 bits", "16.5 bits". Zero asks for nothing.
type Work uint64

// MaxWork is the most that can be asked for.
const MaxWork Work = 1 << 44

// Bits returns 2 to the power of n as work, rounded. It is at most MaxWork.
func Bits(n float64) Work {
	if !(n > 0) {
		return 1
	}
	return Work(math.Round(math.Exp2(min(n, 44))))
}

// Bits returns the logarithm to base 2; 0 for no work.
func (w Work) Bits() float64 {
	if w == 0 {
		return 0
	}
	return math.Log2(float64(w))
}

func (w Work) String() string {
	if w > 1 && w&(w-1) == 0 {
		return strconv.Itoa(bits.TrailingZeros64(uint64(w))) + " bits"
	}
	return strconv.FormatUint(uint64(w), 10)
}

func (w Work) MarshalText() ([]byte, error)     { return []byte(w.String()), nil }
func (w *Work) UnmarshalText(text []byte) error { return weir.ReadText(w, text, ParseWork) }

// ParseWork reads a number of operations, or bits: 65536, "16 bits", "16.5 bits".
func ParseWork(text string) (Work, error) {
	s := strings.TrimSpace(text)
	const hint = `write "16 bits", or 65536 for as many operations`
	large := &weir.FieldError{Msg: fmt.Sprintf("%q is too much work", s), Hint: fmt.Sprintf("%s is the most", MaxWork)}
	number, inBits := strings.CutSuffix(s, "bits")
	if !inBits {
		number, inBits = strings.CutSuffix(s, "bit")
	}
	number = strings.TrimSpace(number)
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, &weir.FieldError{Msg: fmt.Sprintf("%q is not work", s), Hint: hint}
	}
	if inBits {
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, &weir.FieldError{Msg: fmt.Sprintf("%q is not work", s), Hint: hint}
		}
		if n > 44 {
			return 0, large
		}
		return Bits(n), nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil && strings.Contains(number, ".") {
		return 0, &weir.FieldError{Msg: fmt.Sprintf("%q is not a whole number of operations", s), Hint: hint}
	}
	if err != nil || Work(n) > MaxWork {
		return 0, large
	}
	return Work(n), nil
}

// phone says how many basic operations a second a phone does in its browser: a third of what one thread of plain
// JavaScript does on the machine that weir was measured on (sha256-k 3.0 M/s, dlog 0.6 M/s, dlog-classic 2 M/s), or
// of WebAssembly (eqs60: 2.75 ms for a counter of 8192 operations, 3.0 M/s; plain JavaScript takes two to three times
// as long). A phone has more than one core; the rest is reserve for old ones.
var phone = [...]float64{
	SHA256K:     1.0e6,
	DLog:        0.2e6,
	DLogClassic: 0.6e6,
	EQS60:       1.0e6,
}

// Bearable is the most work that a phone does in the time given.
func Bearable(a Algorithm, t time.Duration) Work {
	a = cmp.Or(a, SHA256K)
	if !a.known() || t <= 0 {
		return 0
	}
	ops := phone[a] * t.Seconds()
	if a == DLogClassic {
		// What it says it costs and what it costs differ: operations are 1.5 times the root of half the field's size.
		return min(1<<classic.MaxBits, Work(min(2*ops*ops/2.25, float64(MaxWork))))
	}
	return Work(min(ops, float64(MaxWork)))
}

// Time is how long a phone works on it, on average.
func (w Work) Time(a Algorithm) time.Duration {
	a = cmp.Or(a, SHA256K)
	if !a.known() {
		return 0
	}
	ops := float64(w)
	if a == DLogClassic {
		ops = 1.5 * math.Sqrt(ops/2)
	}
	return time.Duration(min(ops/phone[a]*1e9, math.MaxInt64/2))
}
