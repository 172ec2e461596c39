#include "textflag.h"

// SHA-256 with the instructions that processors have for it. A state is in two registers: the words A, B, E, F and C,
// D, G, H, the first one highest. A shaState has the same order in memory. AX points to shaConstants.

// FOUR does four rounds with four words of the message.
#define FOUR(at, words, abef, cdgh) \
	VPADDD      at(AX), words, X0 \
	SHA256RNDS2 X0, abef, cdgh    \
	VPSHUFD     $0x0e, X0, X0     \
	SHA256RNDS2 X0, cdgh, abef

// NEXT makes the next four words of the sixteen before, in the place of the first four.
#define NEXT(w0, w1, w2, w3, t) \
	SHA256MSG1 w1, w0        \
	VPALIGNR   $4, w2, w3, t \
	VPADDD     t, w0, w0     \
	SHA256MSG2 w3, w0

// One chain of blocks has its state in X1 and X2, and its words in X3 to X6. The other has them in X8 and X9, and in
// X10 to X13.
#define FOURA(at, words) FOUR(at, words, X1, X2)
#define FOURB(at, words) FOUR(at, words, X8, X9)

#define MOREA(at, w0, w1, w2, w3) \
	NEXT(w0, w1, w2, w3, X7) \
	FOURA(at, w0)

#define MOREB(at, w0, w1, w2, w3) \
	NEXT(w0, w1, w2, w3, X14) \
	FOURB(at, w0)

// BLOCK does the 64 rounds of one block.
#define BLOCK \
	FOURA(0, X3)               \
	FOURA(16, X4)              \
	FOURA(32, X5)              \
	FOURA(48, X6)              \
	MOREA(64, X3, X4, X5, X6)  \
	MOREA(80, X4, X5, X6, X3)  \
	MOREA(96, X5, X6, X3, X4)  \
	MOREA(112, X6, X3, X4, X5) \
	MOREA(128, X3, X4, X5, X6) \
	MOREA(144, X4, X5, X6, X3) \
	MOREA(160, X5, X6, X3, X4) \
	MOREA(176, X6, X3, X4, X5) \
	MOREA(192, X3, X4, X5, X6) \
	MOREA(208, X4, X5, X6, X3) \
	MOREA(224, X5, X6, X3, X4) \
	MOREA(240, X6, X3, X4, X5)

// BOTH does the 64 rounds of a block of each chain. They do not wait for each other, and a processor that is waiting
// for the result of one has time for the other.
#define BOTH \
	FOURA(0, X3)                   \
	FOURB(0, X10)                  \
	FOURA(16, X4)                  \
	FOURB(16, X11)                 \
	FOURA(32, X5)                  \
	FOURB(32, X12)                 \
	FOURA(48, X6)                  \
	FOURB(48, X13)                 \
	MOREA(64, X3, X4, X5, X6)      \
	MOREB(64, X10, X11, X12, X13)  \
	MOREA(80, X4, X5, X6, X3)      \
	MOREB(80, X11, X12, X13, X10)  \
	MOREA(96, X5, X6, X3, X4)      \
	MOREB(96, X12, X13, X10, X11)  \
	MOREA(112, X6, X3, X4, X5)     \
	MOREB(112, X13, X10, X11, X12) \
	MOREA(128, X3, X4, X5, X6)     \
	MOREB(128, X10, X11, X12, X13) \
	MOREA(144, X4, X5, X6, X3)     \
	MOREB(144, X11, X12, X13, X10) \
	MOREA(160, X5, X6, X3, X4)     \
	MOREB(160, X12, X13, X10, X11) \
	MOREA(176, X6, X3, X4, X5)     \
	MOREB(176, X13, X10, X11, X12) \
	MOREA(192, X3, X4, X5, X6)     \
	MOREB(192, X10, X11, X12, X13) \
	MOREA(208, X4, X5, X6, X3)     \
	MOREB(208, X11, X12, X13, X10) \
	MOREA(224, X5, X6, X3, X4)     \
	MOREB(224, X12, X13, X10, X11) \
	MOREA(240, X6, X3, X4, X5)     \
	MOREB(240, X13, X10, X11, X12)

// LOAD loads a block and turns its words, which are big-endian.
#define LOAD(from, w0, w1, w2, w3) \
	VMOVDQU 0(from), w0   \
	VMOVDQU 16(from), w1  \
	VMOVDQU 32(from), w2  \
	VMOVDQU 48(from), w3  \
	VPSHUFB X15, w0, w0   \
	VPSHUFB X15, w1, w1   \
	VPSHUFB X15, w2, w2   \
	VPSHUFB X15, w3, w3

// WORDS leaves the words A to D of a state in w0, and E to H in w1, the first one lowest.
#define WORDS(abef, cdgh, w0, w1) \
	VPSHUFD     $0x1b, abef, abef \
	VPSHUFD     $0x1b, cdgh, cdgh \
	VPUNPCKLQDQ cdgh, abef, w0    \
	VPUNPCKHQDQ cdgh, abef, w1

// func shaMAC(t *shaTables, k *shaKey, sum *[32]byte, text *byte, blocks int, block, blockSum *byte)
//
// X1 and X2 are the state of the MAC. BX points to the state that the block began with.
TEXT ·shaMAC(SB), NOSPLIT, $32-56
	MOVQ t+0(FP), AX
	MOVQ k+8(FP), DI
	MOVQ text+24(FP), SI
	MOVQ blocks+32(FP), CX
	MOVQ block+40(FP), R8

	VMOVDQU 256(AX), X15 // shaTables.turn
	VMOVDQU 0(DI), X1    // shaKey.inner
	VMOVDQU 16(DI), X2
	MOVQ    DI, BX
	LOAD(SI, X3, X4, X5, X6)
	TESTQ   R8, R8
	JZ      alone

	// The block that has nothing to do with the MAC, beside the first block that has.
	LOAD(R8, X10, X11, X12, X13)
	VMOVDQU 272(AX), X8 // shaTables.first
	VMOVDQU 288(AX), X9
	BOTH
	VPADDD  272(AX), X8, X8
	VPADDD  288(AX), X9, X9
	WORDS(X8, X9, X10, X11)
	VPSHUFB X15, X10, X10
	VPSHUFB X15, X11, X11
	MOVQ    blockSum+48(FP), R9
	VMOVDQU X10, 0(R9)
	VMOVDQU X11, 16(R9)
	JMP     done

alone:
	BLOCK

done:
	VPADDD 0(BX), X1, X1
	VPADDD 16(BX), X2, X2
	DECQ   CX
	JLT    last
	JEQ    outer
	LEAQ   start-32(SP), BX
	VMOVDQU X1, 0(BX)
	VMOVDQU X2, 16(BX)
	ADDQ   $64, SI
	LOAD(SI, X3, X4, X5, X6)
	JMP    alone

outer:
	// The sum so far is the message of the last block, under the outer half of the key.
	WORDS(X1, X2, X3, X4)
	VMOVDQU 304(AX), X5 // shaTables.padding
	VMOVDQU 320(AX), X6
	LEAQ    32(DI), BX
	VMOVDQU 0(BX), X1   // shaKey.outer
	VMOVDQU 16(BX), X2
	JMP     alone

last:
	WORDS(X1, X2, X3, X4)
	VPSHUFB X15, X3, X3
	VPSHUFB X15, X4, X4
	MOVQ    sum+16(FP), DI
	VMOVDQU X3, 0(DI)
	VMOVDQU X4, 16(DI)
	RET

// func shaBlock(t *shaTables, sum *[32]byte, block *[64]byte)
TEXT ·shaBlock(SB), NOSPLIT, $0-24
	MOVQ    t+0(FP), AX
	MOVQ    block+16(FP), SI
	VMOVDQU 256(AX), X15
	VMOVDQU 272(AX), X1
	VMOVDQU 288(AX), X2
	LOAD(SI, X3, X4, X5, X6)
	BLOCK
	VPADDD  272(AX), X1, X1
	VPADDD  288(AX), X2, X2
	WORDS(X1, X2, X3, X4)
	VPSHUFB X15, X3, X3
	VPSHUFB X15, X4, X4
	MOVQ    sum+8(FP), DI
	VMOVDQU X3, 0(DI)
	VMOVDQU X4, 16(DI)
	RET

// func cpuid(leaf, part uint32) (most, b uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL leaf+0(FP), AX
	MOVL part+4(FP), CX
	CPUID
	MOVL AX, most+8(FP)
	MOVL BX, b+12(FP)
	RET
