#include "textflag.h"

// func readLDP(p unsafe.Pointer, n uintptr)
TEXT ·readLDP(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
read:
	FLDPQ 0(R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FLDPQ 64(R0), (F4, F5)
	FLDPQ 96(R0), (F6, F7)
	FLDPQ 128(R0), (F16, F17)
	FLDPQ 160(R0), (F18, F19)
	FLDPQ 192(R0), (F20, F21)
	FLDPQ 224(R0), (F22, F23)
	ADD   $256, R0
	SUBS  $256, R1
	BNE   read
	RET

// func storeSTP(p unsafe.Pointer, n uintptr)
TEXT ·storeSTP(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	VEOR V0.B16, V0.B16, V0.B16
store:
	FSTPQ (F0, F0), 0(R0)
	FSTPQ (F0, F0), 32(R0)
	FSTPQ (F0, F0), 64(R0)
	FSTPQ (F0, F0), 96(R0)
	ADD   $128, R0
	SUBS  $128, R1
	BNE   store
	RET

// func ntStoreSTNP(p unsafe.Pointer, n uintptr)
// The assembler has no STNP: these are STNP Q0, Q0, [X0, #imm], the immediate
// in units of 16 bytes at bit 15.
TEXT ·ntStoreSTNP(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	VEOR V0.B16, V0.B16, V0.B16
nt:
	WORD $0xac000000 // 0
	WORD $0xac010000 // 32
	WORD $0xac020000 // 64
	WORD $0xac030000 // 96
	ADD  $128, R0
	SUBS $128, R1
	BNE  nt
	DMB  $0xb // inner shareable, all
	RET

// func mix1LDP(a, w unsafe.Pointer, n uintptr)
TEXT ·mix1LDP(SB), NOSPLIT, $0-24
	MOVD a+0(FP), R0
	MOVD w+8(FP), R3
	MOVD n+16(FP), R4
mix1:
	FLDPQ 0(R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FSTPQ (F0, F1), 0(R3)
	FSTPQ (F2, F3), 32(R3)
	ADD   $64, R0
	ADD   $64, R3
	SUBS  $64, R4
	BNE   mix1
	RET

// func mix2LDP(a, b, w unsafe.Pointer, n uintptr)
TEXT ·mix2LDP(SB), NOSPLIT, $0-32
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD w+16(FP), R3
	MOVD n+24(FP), R4
mix2:
	FLDPQ 0(R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FLDPQ 0(R1), (F4, F5)
	FLDPQ 32(R1), (F6, F7)
	VEOR  V0.B16, V4.B16, V0.B16
	VEOR  V1.B16, V5.B16, V1.B16
	VEOR  V2.B16, V6.B16, V2.B16
	VEOR  V3.B16, V7.B16, V3.B16
	FSTPQ (F0, F1), 0(R3)
	FSTPQ (F2, F3), 32(R3)
	ADD   $64, R0
	ADD   $64, R1
	ADD   $64, R3
	SUBS  $64, R4
	BNE   mix2
	RET

// func mix3LDP(a, b, c, w unsafe.Pointer, n uintptr)
TEXT ·mix3LDP(SB), NOSPLIT, $0-40
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD c+16(FP), R2
	MOVD w+24(FP), R3
	MOVD n+32(FP), R4
mix3:
	FLDPQ 0(R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FLDPQ 0(R1), (F4, F5)
	FLDPQ 32(R1), (F6, F7)
	FLDPQ 0(R2), (F16, F17)
	FLDPQ 32(R2), (F18, F19)
	VEOR  V0.B16, V4.B16, V0.B16
	VEOR  V1.B16, V5.B16, V1.B16
	VEOR  V2.B16, V6.B16, V2.B16
	VEOR  V3.B16, V7.B16, V3.B16
	VEOR  V0.B16, V16.B16, V0.B16
	VEOR  V1.B16, V17.B16, V1.B16
	VEOR  V2.B16, V18.B16, V2.B16
	VEOR  V3.B16, V19.B16, V3.B16
	FSTPQ (F0, F1), 0(R3)
	FSTPQ (F2, F3), 32(R3)
	ADD   $64, R0
	ADD   $64, R1
	ADD   $64, R2
	ADD   $64, R3
	SUBS  $64, R4
	BNE   mix3
	RET

// func triadLDP(w, a, b unsafe.Pointer, n uintptr)
TEXT ·triadLDP(SB), NOSPLIT, $0-32
	MOVD  w+0(FP), R3
	MOVD  a+8(FP), R0
	MOVD  b+16(FP), R1
	MOVD  n+24(FP), R4
	FMOVD $3.0, F31
	VDUP  V31.D[0], V31.D2
triad:
	FLDPQ 0(R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FLDPQ 0(R1), (F4, F5)
	FLDPQ 32(R1), (F6, F7)
	VFMLA V31.D2, V4.D2, V0.D2
	VFMLA V31.D2, V5.D2, V1.D2
	VFMLA V31.D2, V6.D2, V2.D2
	VFMLA V31.D2, V7.D2, V3.D2
	FSTPQ (F0, F1), 0(R3)
	FSTPQ (F2, F3), 32(R3)
	ADD   $64, R0
	ADD   $64, R1
	ADD   $64, R3
	SUBS  $64, R4
	BNE   triad
	RET
