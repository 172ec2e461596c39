#include "textflag.h"

// func textLanes(t *textTables, out []byte, text string) bool
//
// 64 characters at a time become 48 bytes. Towards the end there may be fewer: K1 has a bit for each character, K2 for
// each byte, and what has no bit is neither read nor written.
TEXT ·textLanes(SB), NOSPLIT, $0-49
	MOVQ t+0(FP), AX
	MOVQ out_base+8(FP), DI
	MOVQ out_len+16(FP), DX
	MOVQ text_base+32(FP), SI
	MOVQ text_len+40(FP), CX

	VMOVDQU64    0(AX), Z16    // textTables.digits, the first half
	VMOVDQU64    64(AX), Z17   // … and the second
	VMOVDQU64    128(AX), Z18  // textTables.order
	MOVL         $0x01400140, BX
	VPBROADCASTD BX, Z19
	MOVL         $0x00011000, BX
	VPBROADCASTD BX, Z20
	VPXORQ       Z3, Z3, Z3    // wrong characters set the highest bit of a byte here
	MOVQ         $-1, R8

	// As long as there is room for 64 bytes, all of them are written: the next ones go over those that are too many.
whole:
	CMPQ       DX, $64
	JLT        more
	VMOVDQU64  (SI), Z0
	VMOVDQA64  Z0, Z1
	VPERMI2B   Z17, Z16, Z1
	VPTERNLOGQ $0xfe, Z0, Z1, Z3
	VPMADDUBSW Z19, Z1, Z1
	VPMADDWD   Z20, Z1, Z1
	VPERMB     Z1, Z18, Z1
	VMOVDQU64  Z1, (DI)
	ADDQ       $64, SI
	ADDQ       $48, DI
	SUBQ       $48, DX
	SUBQ       $64, CX
	JMP        whole

more:
	MOVQ    $64, R9
	CMPQ    CX, R9
	CMOVQLT CX, R9
	BZHIQ   R9, R8, R10
	KMOVQ   R10, K1
	MOVQ    $48, R9
	CMPQ    DX, R9
	CMOVQLT DX, R9
	BZHIQ   R9, R8, R10
	KMOVQ   R10, K2

	// Seven bits of a character say what it means. Characters with an eighth bit are wrong by themselves.
	VMOVDQU8.Z (SI), K1, Z0
	VMOVDQA64  Z0, Z1
	VPERMI2B.Z Z17, Z16, K1, Z1
	VPTERNLOGQ $0xfe, Z0, Z1, Z3 // Z3 |= Z0 | Z1

	// Two digits of 6 bits become 12 bits, two of these 24, and four bytes with three of them lose the fourth.
	VPMADDUBSW Z19, Z1, Z1
	VPMADDWD   Z20, Z1, Z1
	VPERMB     Z1, Z18, Z1
	VMOVDQU8   Z1, K2, (DI)

	ADDQ $64, SI
	ADDQ $48, DI
	SUBQ $48, DX
	SUBQ $64, CX
	JGT  more

	// Bits that are in no byte are in the one behind the last.
	KNOTQ    K2, K2
	VPTESTMB Z1, Z1, K2, K2
	VPMOVB2M Z3, K1
	KORTESTQ K1, K2
	SETEQ    ret+48(FP)
	VZEROUPPER
	RET
