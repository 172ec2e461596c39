package stamp

import "golang.org/x/sys/cpu"

// What this processor can do. Package cpu asks the system, too: it has to keep the registers of AVX-512 for us.
var (
	hasEqsLanes  = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW
	hasTextLanes = hasEqsLanes && cpu.X86.HasAVX512VBMI && cpu.X86.HasBMI2
)

// eqsLanes says what sipKey.accepts says, several times as fast. It needs hasEqsLanes, and pairs are eqsPairs.
//
//go:noescape
func eqsLanes(k *sipKey, target uint64, pairs *[32]uint16, solution *[eqsBytes]byte) bool

// textLanes says what textPlain says, for as many bytes as the text has. It needs hasTextLanes.
//
//go:noescape
func textLanes(t *textTables, out []byte, text string) bool

// eqsPairs are the indices of a hit that its indices are compared with, as eqsSolution.ordered does: in the first row
// seven that must be greater, in the others those that must differ. What is there to fill a row is greater or differs
// where the first row is right.
var eqsPairs = [32]uint16{
	1, 3, 3, 7, 5, 7, 7, 3,
	4, 4, 0, 4, 2, 2, 4, 3,
	5, 5, 1, 5, 2, 2, 5, 3,
	6, 6, 4, 6, 2, 2, 2, 3,
}

// textTables are what textLanes looks up.
type textTables struct {
	digits [128]byte // what a character means; the highest bit is set where it means nothing
	order  [64]byte  // where each of 48 bytes is found; the rest are zeros
}

var text64 = func() (t textTables) {
	for c := range t.digits {
		t.digits[c] = 1 << 7
	}
	for n, c := range []byte(alphabet) {
		t.digits[c] = byte(n)
	}
	for i := range t.order {
		t.order[i] = 3 // a fourth byte, always zero
		if i < 48 {
			t.order[i] = byte(i/3*4 + 2 - i%3)
		}
	}
	return t
}()
