#include "textflag.h"

// The counting plugin (numacount.c) watches for these NOPs:
// nopl disp32(%rax) with the displacement bytes 'H' 'N' 0 and a number.
#define MARK(n) BYTE $0x0f; BYTE $0x1f; BYTE $0x80; BYTE $0x48; BYTE $0x4e; BYTE $0x00; BYTE $n

#define BITS \
	MOVL tag+0(FP), AX \
	MOVL $32, CX \
bit: \
	SHLL $1, AX \
	JCS  one \
	MARK(0) \
	JMP  next \
one: \
	MARK(1) \
next: \
	DECL CX \
	JNZ  bit

// func mark(tag uint32)
TEXT ·mark(SB), NOSPLIT, $0-4
	BITS
	MARK(2)
	RET

// func markFrom(tag uint32)
TEXT ·markFrom(SB), NOSPLIT, $0-4
	BITS
	MARK(3)
	RET

// func markHere(cpu uint32)
TEXT ·markHere(SB), NOSPLIT, $0-4
	BITS
	MARK(5)
	RET

// func markTo(tag uint32)
TEXT ·markTo(SB), NOSPLIT, $0-4
	BITS
	MARK(4)
	RET
