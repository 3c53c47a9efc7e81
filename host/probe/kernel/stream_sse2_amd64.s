#include "textflag.h"

// Streams for amd64 CPUs without AVX2: every one has SSE2. Sizes and
// addresses as in stream_amd64.s.

#define XLOAD8(R) \
	MOVO 0(R), X0   \
	MOVO 16(R), X1  \
	MOVO 32(R), X2  \
	MOVO 48(R), X3  \
	MOVO 64(R), X4  \
	MOVO 80(R), X5  \
	MOVO 96(R), X6  \
	MOVO 112(R), X7

#define XSTORE8(OP, R) \
	OP X0, 0(R)    \
	OP X1, 16(R)   \
	OP X2, 32(R)   \
	OP X3, 48(R)   \
	OP X4, 64(R)   \
	OP X5, 80(R)   \
	OP X6, 96(R)   \
	OP X7, 112(R)

#define XXOR8(R) \
	PXOR 0(R), X0   \
	PXOR 16(R), X1  \
	PXOR 32(R), X2  \
	PXOR 48(R), X3  \
	PXOR 64(R), X4  \
	PXOR 80(R), X5  \
	PXOR 96(R), X6  \
	PXOR 112(R), X7

// func readSSE2(p unsafe.Pointer, n uintptr)
// One load a line moves all of it; four would keep the CPU from running ahead.
TEXT ·readSSE2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $9, CX
read:
	MOVO 0(SI), X0
	MOVO 64(SI), X1
	MOVO 128(SI), X2
	MOVO 192(SI), X3
	MOVO 256(SI), X4
	MOVO 320(SI), X5
	MOVO 384(SI), X6
	MOVO 448(SI), X7
	ADDQ $512, SI
	DECQ CX
	JNZ  read
	RET

// func storeSSE2(p unsafe.Pointer, n uintptr)
TEXT ·storeSSE2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DI
	MOVQ n+8(FP), CX
	SHRQ $7, CX
	PXOR X0, X0
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7
store:
	XSTORE8(MOVO, DI)
	ADDQ $128, DI
	DECQ CX
	JNZ  store
	RET

// func ntStoreSSE2(p unsafe.Pointer, n uintptr)
TEXT ·ntStoreSSE2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DI
	MOVQ n+8(FP), CX
	SHRQ $7, CX
	PXOR X0, X0
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7
nt:
	XSTORE8(MOVNTO, DI)
	ADDQ $128, DI
	DECQ CX
	JNZ  nt
	SFENCE
	RET

// func mix1SSE2(a, w unsafe.Pointer, n uintptr)
TEXT ·mix1SSE2(SB), NOSPLIT, $0-24
	MOVQ a+0(FP), SI
	MOVQ w+8(FP), DI
	MOVQ n+16(FP), CX
	SHRQ $7, CX
mix1:
	XLOAD8(SI)
	XSTORE8(MOVO, DI)
	ADDQ $128, SI
	ADDQ $128, DI
	DECQ CX
	JNZ  mix1
	RET

// func mix2SSE2(a, b, w unsafe.Pointer, n uintptr)
TEXT ·mix2SSE2(SB), NOSPLIT, $0-32
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), R8
	MOVQ w+16(FP), DI
	MOVQ n+24(FP), CX
	SHRQ $7, CX
mix2:
	XLOAD8(SI)
	XXOR8(R8)
	XSTORE8(MOVO, DI)
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, DI
	DECQ CX
	JNZ  mix2
	RET

// func mix3SSE2(a, b, c, w unsafe.Pointer, n uintptr)
TEXT ·mix3SSE2(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), R8
	MOVQ c+16(FP), R9
	MOVQ w+24(FP), DI
	MOVQ n+32(FP), CX
	SHRQ $7, CX
mix3:
	XLOAD8(SI)
	XXOR8(R8)
	XXOR8(R9)
	XSTORE8(MOVO, DI)
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, R9
	ADDQ $128, DI
	DECQ CX
	JNZ  mix3
	RET

DATA xthree<>+0(SB)/8, $3.0
DATA xthree<>+8(SB)/8, $3.0
GLOBL xthree<>(SB), RODATA|NOPTR, $16

#define XTRIAD(OP) \
	MOVAPD 0(R8), X0    \
	MOVAPD 16(R8), X1   \
	MOVAPD 32(R8), X2   \
	MOVAPD 48(R8), X3   \
	MULPD  X8, X0      \
	MULPD  X8, X1      \
	MULPD  X8, X2      \
	MULPD  X8, X3      \
	ADDPD  0(SI), X0    \
	ADDPD  16(SI), X1   \
	ADDPD  32(SI), X2   \
	ADDPD  48(SI), X3   \
	OP     X0, 0(DI)    \
	OP     X1, 16(DI)   \
	OP     X2, 32(DI)   \
	OP     X3, 48(DI)   \
	ADDQ   $64, SI      \
	ADDQ   $64, R8      \
	ADDQ   $64, DI      \
	DECQ   CX

// func triadSSE2(w, a, b unsafe.Pointer, n uintptr)
TEXT ·triadSSE2(SB), NOSPLIT, $0-32
	MOVQ   w+0(FP), DI
	MOVQ   a+8(FP), SI
	MOVQ   b+16(FP), R8
	MOVQ   n+24(FP), CX
	SHRQ   $6, CX
	MOVUPD xthree<>(SB), X8
triad:
	XTRIAD(MOVAPD)
	JNZ  triad
	RET

// func ntTriadSSE2(w, a, b unsafe.Pointer, n uintptr)
TEXT ·ntTriadSSE2(SB), NOSPLIT, $0-32
	MOVQ   w+0(FP), DI
	MOVQ   a+8(FP), SI
	MOVQ   b+16(FP), R8
	MOVQ   n+24(FP), CX
	SHRQ   $6, CX
	MOVUPD xthree<>(SB), X8
nttriad:
	XTRIAD(MOVNTPD)
	JNZ    nttriad
	SFENCE
	RET
