#include "textflag.h"

// All sizes are multiples of 1,024 bytes and all addresses of 64: the callers'
// steps are 64 KiB.

#define LOAD8(R) \
	VMOVDQA 0(R), Y0    \
	VMOVDQA 32(R), Y1   \
	VMOVDQA 64(R), Y2   \
	VMOVDQA 96(R), Y3   \
	VMOVDQA 128(R), Y4  \
	VMOVDQA 160(R), Y5  \
	VMOVDQA 192(R), Y6  \
	VMOVDQA 224(R), Y7

// func readAVX2(p unsafe.Pointer, n uintptr)
TEXT ·readAVX2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $9, CX
read2:
	LOAD8(SI)
	VMOVDQA 256(SI), Y8
	VMOVDQA 288(SI), Y9
	VMOVDQA 320(SI), Y10
	VMOVDQA 352(SI), Y11
	VMOVDQA 384(SI), Y12
	VMOVDQA 416(SI), Y13
	VMOVDQA 448(SI), Y14
	VMOVDQA 480(SI), Y15
	ADDQ $512, SI
	DECQ CX
	JNZ  read2
	VZEROUPPER
	RET

// func readAVX512(p unsafe.Pointer, n uintptr)
TEXT ·readAVX512(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $9, CX
read5:
	VMOVDQA64 0(SI), Z0
	VMOVDQA64 64(SI), Z1
	VMOVDQA64 128(SI), Z2
	VMOVDQA64 192(SI), Z3
	VMOVDQA64 256(SI), Z4
	VMOVDQA64 320(SI), Z5
	VMOVDQA64 384(SI), Z6
	VMOVDQA64 448(SI), Z7
	ADDQ $512, SI
	DECQ CX
	JNZ  read5
	VZEROUPPER
	RET

#define STORE8(OP, R) \
	OP Y0, 0(R)    \
	OP Y0, 32(R)   \
	OP Y0, 64(R)   \
	OP Y0, 96(R)   \
	OP Y0, 128(R)  \
	OP Y0, 160(R)  \
	OP Y0, 192(R)  \
	OP Y0, 224(R)

// func storeAVX2(p unsafe.Pointer, n uintptr)
TEXT ·storeAVX2(SB), NOSPLIT, $0-16
	MOVQ  p+0(FP), DI
	MOVQ  n+8(FP), CX
	SHRQ  $8, CX
	VPXOR Y0, Y0, Y0
store2:
	STORE8(VMOVDQA, DI)
	ADDQ $256, DI
	DECQ CX
	JNZ  store2
	VZEROUPPER
	RET

// func ntStoreAVX2(p unsafe.Pointer, n uintptr)
TEXT ·ntStoreAVX2(SB), NOSPLIT, $0-16
	MOVQ  p+0(FP), DI
	MOVQ  n+8(FP), CX
	SHRQ  $8, CX
	VPXOR Y0, Y0, Y0
nt2:
	STORE8(VMOVNTDQ, DI)
	ADDQ $256, DI
	DECQ CX
	JNZ  nt2
	SFENCE
	VZEROUPPER
	RET

// func ntStoreAVX512(p unsafe.Pointer, n uintptr)
TEXT ·ntStoreAVX512(SB), NOSPLIT, $0-16
	MOVQ   p+0(FP), DI
	MOVQ   n+8(FP), CX
	SHRQ   $8, CX
	VPXORQ Z0, Z0, Z0
nt5:
	VMOVNTDQ Z0, 0(DI)
	VMOVNTDQ Z0, 64(DI)
	VMOVNTDQ Z0, 128(DI)
	VMOVNTDQ Z0, 192(DI)
	ADDQ $256, DI
	DECQ CX
	JNZ  nt5
	SFENCE
	VZEROUPPER
	RET

// func mix1AVX2(a, w unsafe.Pointer, n uintptr)
TEXT ·mix1AVX2(SB), NOSPLIT, $0-24
	MOVQ a+0(FP), SI
	MOVQ w+8(FP), DI
	MOVQ n+16(FP), CX
	SHRQ $7, CX
mix1:
	VMOVDQA 0(SI), Y0
	VMOVDQA 32(SI), Y1
	VMOVDQA 64(SI), Y2
	VMOVDQA 96(SI), Y3
	VMOVDQA Y0, 0(DI)
	VMOVDQA Y1, 32(DI)
	VMOVDQA Y2, 64(DI)
	VMOVDQA Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DI
	DECQ CX
	JNZ  mix1
	VZEROUPPER
	RET

// func mix2AVX2(a, b, w unsafe.Pointer, n uintptr)
TEXT ·mix2AVX2(SB), NOSPLIT, $0-32
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), R8
	MOVQ w+16(FP), DI
	MOVQ n+24(FP), CX
	SHRQ $7, CX
mix2:
	VMOVDQA 0(SI), Y0
	VMOVDQA 32(SI), Y1
	VMOVDQA 64(SI), Y2
	VMOVDQA 96(SI), Y3
	VPXOR   0(R8), Y0, Y0
	VPXOR   32(R8), Y1, Y1
	VPXOR   64(R8), Y2, Y2
	VPXOR   96(R8), Y3, Y3
	VMOVDQA Y0, 0(DI)
	VMOVDQA Y1, 32(DI)
	VMOVDQA Y2, 64(DI)
	VMOVDQA Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, DI
	DECQ CX
	JNZ  mix2
	VZEROUPPER
	RET

// func mix3AVX2(a, b, c, w unsafe.Pointer, n uintptr)
TEXT ·mix3AVX2(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), R8
	MOVQ c+16(FP), R9
	MOVQ w+24(FP), DI
	MOVQ n+32(FP), CX
	SHRQ $7, CX
mix3:
	VMOVDQA 0(SI), Y0
	VMOVDQA 32(SI), Y1
	VMOVDQA 64(SI), Y2
	VMOVDQA 96(SI), Y3
	VPXOR   0(R8), Y0, Y0
	VPXOR   32(R8), Y1, Y1
	VPXOR   64(R8), Y2, Y2
	VPXOR   96(R8), Y3, Y3
	VPXOR   0(R9), Y0, Y0
	VPXOR   32(R9), Y1, Y1
	VPXOR   64(R9), Y2, Y2
	VPXOR   96(R9), Y3, Y3
	VMOVDQA Y0, 0(DI)
	VMOVDQA Y1, 32(DI)
	VMOVDQA Y2, 64(DI)
	VMOVDQA Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, R9
	ADDQ $128, DI
	DECQ CX
	JNZ  mix3
	VZEROUPPER
	RET

DATA three<>+0(SB)/8, $3.0
GLOBL three<>(SB), RODATA|NOPTR, $8

#define TRIAD(OP) \
	VMOVAPD     0(R8), Y0         \
	VMOVAPD     32(R8), Y1        \
	VMOVAPD     64(R8), Y2        \
	VMOVAPD     96(R8), Y3        \
	VFMADD213PD 0(SI), Y15, Y0    \
	VFMADD213PD 32(SI), Y15, Y1   \
	VFMADD213PD 64(SI), Y15, Y2   \
	VFMADD213PD 96(SI), Y15, Y3   \
	OP          Y0, 0(DI)         \
	OP          Y1, 32(DI)        \
	OP          Y2, 64(DI)        \
	OP          Y3, 96(DI)        \
	ADDQ        $128, SI          \
	ADDQ        $128, R8          \
	ADDQ        $128, DI          \
	DECQ        CX

// func triadAVX2(w, a, b unsafe.Pointer, n uintptr)
TEXT ·triadAVX2(SB), NOSPLIT, $0-32
	MOVQ w+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ n+24(FP), CX
	SHRQ $7, CX
	VBROADCASTSD three<>(SB), Y15
triad2:
	TRIAD(VMOVAPD)
	JNZ triad2
	VZEROUPPER
	RET

// func ntTriadAVX2(w, a, b unsafe.Pointer, n uintptr)
TEXT ·ntTriadAVX2(SB), NOSPLIT, $0-32
	MOVQ w+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ n+24(FP), CX
	SHRQ $7, CX
	VBROADCASTSD three<>(SB), Y15
nttriad2:
	TRIAD(VMOVNTPD)
	JNZ nttriad2
	SFENCE
	VZEROUPPER
	RET
