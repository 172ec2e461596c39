#include "textflag.h"

// The check of eqs60 with AVX-512: a register has eight lanes of 64 bits, and a hit has eight indices. The plain check
// in eqs.go says what is computed; the names there are the names here.

// ROUND is sipRound of eight states, one in each lane.
#define ROUND(v0, v1, v2, v3) \
	VPADDQ v1, v0, v0  \
	VPADDQ v3, v2, v2  \
	VPROLQ $13, v1, v1 \
	VPROLQ $16, v3, v3 \
	VPXORQ v0, v1, v1  \
	VPXORQ v2, v3, v3  \
	VPROLQ $32, v0, v0 \
	VPADDQ v1, v2, v2  \
	VPADDQ v3, v0, v0  \
	VPROLQ $17, v1, v1 \
	VPROLQ $21, v3, v3 \
	VPXORQ v2, v1, v1  \
	VPXORQ v0, v3, v3  \
	VPROLQ $32, v2, v2

// LAST is sipLast. It leaves the eight hashes in v2.
#define LAST(v0, v1, v2, v3) \
	VPADDQ     v3, v2, v2        \
	VPADDQ     v1, v0, v0        \
	VPROLQ     $13, v1, v1       \
	VPROLQ     $16, v3, v3       \
	VPXORQ     v0, v1, v1        \
	VPXORQ     v2, v3, v3        \
	VPADDQ     v1, v2, v2        \
	VPROLQ     $17, v1, v1       \
	VPROLQ     $21, v3, v3       \
	VPROLQ     $32, v2, v0       \
	VPTERNLOGQ $0x96, v1, v3, v2 \ // v2 ^= v1 ^ v3
	VPXORQ     v0, v2, v2

// The registers that stay the same. Each lane has the same number.
#define KEY0 Z16
#define KEY1 Z17
#define KEY2 Z18
#define KEY3 Z19
#define FIRST0 Z20 // sipPairs.v0
#define FIRST1 Z21 // sipPairs.v1
#define TURNED Z22 // sipPairs.turned
#define BITS8 Z23  // as many bits are set: 0xff
#define BITS15 Z24
#define BITS30 Z25
#define BITS60 Z26
#define PAIRS Z27 // eqsPairs
#define TARGET Z28
#define DOMAIN Z29 // 0xee, of efforts

// EFFORTS computes the efforts of eight hits, a hit in each lane, and goes to wrong if one is not below the target.
#define EFFORTS(counters, lows, highs) \
	VMOVDQU64 counters, Z4       \
	VMOVDQU64 lows, Z5           \
	VMOVDQU64 highs, Z6          \
	VPSRLQ    $16, Z4, Z4        \
	VMOVDQA64 KEY0, Z0           \
	VPXORQ    DOMAIN, KEY1, Z1   \
	VMOVDQA64 KEY2, Z2           \
	VPXORQ    Z5, KEY3, Z3       \
	ROUND(Z0, Z1, Z2, Z3)        \
	VPXORQ    Z5, Z0, Z0         \
	VPXORQ    Z6, Z3, Z3         \
	ROUND(Z0, Z1, Z2, Z3)        \
	VPXORQ    Z6, Z0, Z0         \
	VPXORQ    Z4, Z3, Z3         \
	ROUND(Z0, Z1, Z2, Z3)        \
	VPXORQ    Z4, Z0, Z0         \
	VPXORQ    BITS8, Z2, Z2      \
	ROUND(Z0, Z1, Z2, Z3)        \
	ROUND(Z0, Z1, Z2, Z3)        \
	LAST(Z0, Z1, Z2, Z3)         \
	VPCMPUQ   $5, TARGET, Z2, K1 \ // not less than
	KORTESTW  K1, K1             \
	JNZ       wrong

// func eqsLanes(k *sipKey, target uint64, pairs *[32]uint16, solution *[eqsBytes]byte) bool
//
// The frame has the counters (shifted, as in values), low words and high words of the hits: efforts are computed for
// eight hits at a time, so these are wanted side by side.
TEXT ·eqsLanes(SB), 0, $384-33
	MOVQ k+0(FP), AX
	MOVQ pairs+16(FP), BX
	MOVQ solution+24(FP), SI

	VPBROADCASTQ 0(AX), KEY0
	VPBROADCASTQ 8(AX), KEY1
	VPBROADCASTQ 16(AX), KEY2
	VPBROADCASTQ 24(AX), KEY3
	VPBROADCASTQ target+8(FP), TARGET
	VMOVDQU64    (BX), PAIRS
	MOVL         $0xee, DX
	VPBROADCASTQ DX, DOMAIN
	VPTERNLOGQ   $0xff, Z0, Z0, Z0 // all bits
	VPSRLQ       $(64-8), Z0, BITS8
	VPSRLQ       $(64-15), Z0, BITS15
	VPSRLQ       $(64-30), Z0, BITS30
	VPSRLQ       $(64-60), Z0, BITS60

	// As in sipKey.pairs: the half of the first round that is the same for all values.
	VPADDQ KEY1, KEY0, FIRST0
	VPROLQ $13, KEY1, FIRST1
	VPXORQ FIRST0, FIRST1, FIRST1
	VPROLQ $32, FIRST0, FIRST0
	VPROLQ $17, FIRST1, TURNED

	// The seven pairs of eqsPairs that are in order, and those that differ.
	MOVL  $0x7f, DX
	KMOVD DX, K6
	KNOTD K6, K7

	// The hit before the first one is all zeros: less than any hit whose indices are in order.
	XORL R11, R11
	XORL R12, R12
	XORL R13, R13
	XORL CX, CX

hit:
	// As in eqsSolution.less: R8 is the counter, R9 the low and R10 the high word, R11 to R13 are those before.
	MOVL   (SI), R8
	BSWAPL R8
	SHLQ   $16, R8
	MOVQ   4(SI), R9
	MOVQ   12(SI), R10
	CMPQ   R11, R9
	SBBQ   R10, R12
	SBBQ   R8, R13
	JCC    wrong // no borrow: not less
	MOVQ   R9, R11
	MOVQ   R10, R12
	MOVQ   R8, R13
	MOVQ   R8, counters-384(SP)(CX*8)
	MOVQ   R9, lows-256(SP)(CX*8)
	MOVQ   R10, highs-128(SP)(CX*8)

	// As in eqsSolution.ordered: the eight indices four times, in lanes of 16 bits, and what eqsPairs compares them
	// with. If all is right, K1 has the bits of K6, and K2 those of K7.
	VBROADCASTI32X4 4(SI), Z5
	VPERMW          Z5, PAIRS, Z6
	VPCMPUW         $1, Z6, Z5, K6, K1 // less than
	VPCMPUW         $4, Z6, Z5, K7, K2 // not equal

	// The words of the eight values, counter and index, and what is left of the first round, as in sipPairs.sum.
	VPMOVZXWQ  4(SI), Z4
	VPORQ.BCST counters-384(SP)(CX*8), Z4, Z4
	VPXORQ     KEY3, Z4, Z3
	VPADDQ     KEY2, Z3, Z2
	VPROLQ     $16, Z3, Z3
	VPXORQ     Z2, Z3, Z3
	VPADDQ     FIRST1, Z2, Z2
	VPADDQ     FIRST0, Z3, Z0
	VPXORQ     TURNED, Z2, Z1
	VPROLQ     $21, Z3, Z3
	VPXORQ     Z0, Z3, Z3
	VPROLQ     $32, Z2, Z2
	VPXORQ     BITS8, Z2, Z2
	VPXORQ     Z4, Z0, Z0
	ROUND(Z0, Z1, Z2, Z3)
	ROUND(Z0, Z1, Z2, Z3)
	LAST(Z0, Z1, Z2, Z3)

	// Sums: each lane with its neighbour, each two lanes with the next two, each four with the other four.
	VPSHUFD    $0x4e, Z2, Z0
	VPADDQ     Z2, Z0, Z0        // pairs
	VPERMQ     $0x4e, Z0, Z1
	VPADDQ     Z0, Z1, Z1        // fours
	VSHUFI64X2 $0x4e, Z1, Z1, Z2
	VPADDQ     Z1, Z2, Z2        // all
	VPANDQ     BITS15, Z0, Z0
	VPTERNLOGQ $0xf8, BITS30, Z1, Z0 // Z0 |= Z1 & BITS30
	VPTERNLOGQ $0xf8, BITS60, Z2, Z0

	// K1 loses the bits of lanes that are not zero. Seven of them are enough, as neighbours have the same sums. The
	// carry is set if both masks together have all bits.
	VPTESTNMQ Z0, Z0, K1, K1
	KORTESTD  K1, K2
	JCC       wrong

	ADDQ $20, SI
	INCQ CX
	CMPQ CX, $16
	JNE  hit

	EFFORTS(counters-384(SP), lows-256(SP), highs-128(SP))
	EFFORTS(counters-320(SP), lows-192(SP), highs-64(SP))
	MOVB $1, ret+32(FP)
	VZEROUPPER // so that code without vectors of this size is not slowed down
	RET

wrong:
	MOVB $0, ret+32(FP)
	VZEROUPPER
	RET
