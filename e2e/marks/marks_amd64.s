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

// func Write(tag uint32)
TEXT ·Write(SB), NOSPLIT, $0-4
	BITS
	MARK(2)
	RET

// func From(tag uint32)
TEXT ·From(SB), NOSPLIT, $0-4
	BITS
	MARK(3)
	RET

// func Here(cpu uint32)
TEXT ·Here(SB), NOSPLIT, $0-4
	BITS
	MARK(5)
	RET

// func To(tag uint32)
TEXT ·To(SB), NOSPLIT, $0-4
	BITS
	MARK(4)
	RET
